"""Recommend configurations for a located dataset, with origins and reasons, as the options of a request say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.arguments import check_arguments, check_renames, check_space, check_text, check_whole
from warmstart.bo.transfer.designs import WITH_DISTANCES, WITHOUT_DISTANCES, designs
from warmstart.bo.transfer.strategies import STRATEGIES, Choice
from warmstart.bo.transfer.strategies import Query as StrategyQuery
from warmstart.bo.transfer.strategies.joint import expected_regrets
from warmstart.bo.transfer.strategies.query import UNCALIBRATED
from warmstart.bo.transfer.strategies.scenarios import USUAL_NOISE
from warmstart.history_store.error_tables import fill_failed
from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import natural
from warmstart.measured_with import workload_of
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.embedded_history import EmbeddedHistory, spread_positions
from warmstart.suggestions.expectations import with_expected_errors
from warmstart.suggestions.location import Location, TunedBefore, find_tuned_before
from warmstart.suggestions.other_sizes import fitting_datasets, side_of
from warmstart.suggestions.query import larger_pictures_note
from warmstart.suggestions.records import WHY_UNTRIED, InitialDesign, Neighbour

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.translation import TranslatedConfig, Translation
    from warmstart.timing.plan import TimeLimit, TimePlan

DEFAULT_K = 3
NEEDS_NO_MODEL = ("portfolio", "average-rank")
"""Strategies without distances."""
PLANNED = ("joint", "portfolio")
"""Strategies that can plan by seconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of a suggestion.

    Attributes:
        k: how many configurations; 3 when left out, all where the history has fewer.
        strategy: a name in `warmstart.bo.transfer.strategies.STRATEGIES`; when left out, the one that fits the dataset.
        space: for which to suggest, where it is not the history's.
        rename: names of that space by the history's, where they differ.
        explain: add the reasons.
        limit: plan runs within a time, at most k.
    """

    k: int | None = None
    strategy: str | None = None
    space: "SpaceLike | None" = None
    rename: Mapping[str, str] | None = None
    explain: bool = False
    limit: "TimeLimit | None" = None

    def __post_init__(self) -> None:
        """Check the options that need no history.

        Raises:
            UsageError: a k below 1, an unknown strategy, a value of a wrong kind.
        """
        if self.k is not None:
            check_whole("k", self.k, least=1)
        options = {"strategy": self.strategy, "space": self.space, "rename": self.rename}
        check_arguments({"strategy": check_text, "space": check_space, "rename": check_renames}, options)
        if self.strategy is not None and self.strategy not in STRATEGIES:
            msg = f"expected one of {', '.join(STRATEGIES)}, got {self.strategy!r}. Leave it out for the default."
            raise UsageError(msg, param="strategy", given=self.strategy, choices=STRATEGIES)
        if self.limit is not None:
            self._check_planned()

    def _check_planned(self) -> None:
        """Check that the space and the strategy allow a time limit.

        Raises:
            UsageError: another space than the history's, or a strategy without a plan.
        """
        if self.space is not None:
            msg = "cannot be used with `space`: durations are known for the history's own space only."
            raise UsageError(msg, param="time")
        if self.strategy not in (None, *PLANNED):
            msg = f"expected {' or '.join(PLANNED)} with `time`, got {self.strategy!r}. Leave one of the two out."
            raise UsageError(msg, param="strategy", given=self.strategy, choices=PLANNED)

    def count(self, embedded: EmbeddedHistory) -> int:
        """Return the number of configurations to choose from a history.

        Raises:
            UsageError: more than it has.
        """
        have = len(embedded.configs)
        k = min(DEFAULT_K, max(1, have)) if self.k is None else self.k
        if k > have > 0:
            msg = f"expected at most {have}, the number of configurations in {embedded.path}, got {k}. Ask for fewer."
            raise UsageError(msg, param="k")
        return k

    def strategy_for(self, location: Location) -> str:
        """Return the strategy for a located dataset.

        Raises:
            UsageError: a strategy that needs distances where there are none.
        """
        is_blind = location.is_blind or location.embedded.ignores_distances
        chosen = self.strategy or (WITHOUT_DISTANCES if is_blind else WITH_DISTANCES)
        if not location.has_distances and chosen not in NEEDS_NO_MODEL:
            msg = f"expected {' or '.join(NEEDS_NO_MODEL)} where nothing can be compared with your images, got {chosen!r}. Leave it out, or add the images with `warmstart history add`."
            raise UsageError(msg, param="strategy")
        return chosen


Choose = Callable[[int], Sequence[Choice]]
"""Returns the k best configurations, best first."""
LEAST_NEIGHBOURS = 3


def recommend(location: Location, request: Request, *, seed: int) -> Answer:
    """Choose configurations for a located dataset, which may be answered from datasets with runs alone.

    Raises:
        UsageError: a strategy that needs distances where there are none, or more configurations than the history has.
    """
    embedded, k, strategy = location.embedded, request.count(location.embedded), request.strategy_for(location)
    near, (location, fits) = location, _of_pictures_as_large(location)
    location, tuned_before = _narrow(location, uses_distances=strategy not in NEEDS_NO_MODEL)
    # A failed run counts as error 1; a missing run stays NaN.
    measured, failed = embedded.outcomes(location.rows)
    errors = np.where(fits, fill_failed(measured, failed), np.nan)
    groups = location.groups
    distances = location.distances if location.has_distances else None
    choose = partial(
        designs,
        errors,
        distances,
        strategy=strategy,
        calibration=embedded.calibration,
        groups=groups,
        noise=USUAL_NOISE,
    )
    # Configurations of which every run failed on these datasets.
    broken = np.flatnonzero(failed.any(axis=0) & np.isnan(measured).all(axis=0))
    left_out = np.union1d(broken, np.flatnonzero(~fits))
    chooser: Choose = partial(_choose_working, choose, left_out, len(embedded.configs))
    if tuned_before is not None:
        chooser = tuned_before.first(chooser)
        location = replace(location, notes=(tuned_before.note, *location.notes))
    plan = None
    if request.limit is not None:
        most = None if request.k is None else k
        planned, plan = _plan(
            location, errors, most, strategy, request.limit, tuned_before=tuned_before, left_out=left_out
        )
        chooser, k = _chooser_of(planned), len(planned)
    translation = None if request.space is None else _translation(embedded, request.space, request.rename or {})
    translated = [] if translation is None else translation.pick(chooser, k=k, seed=seed)
    choices = (
        list(chooser(k)) if translation is None else [item.choice for item in translated if item.choice is not None]
    )
    used = {int(location.rows[choice.neighbour]) for choice in choices if choice.neighbour is not None}
    listed = near.neighbours(LEAST_NEIGHBOURS, used=used)
    suggestions = _initial_designs(
        location, errors, choices, strategy, tuned_before=tuned_before, is_timed=plan is not None
    )
    answer = compose_answer(location, suggestions, strategy, neighbours=listed, seed=seed)
    answer = replace(answer, tuned_before=tuned_before)
    if plan is not None:
        answer = _with_plan(answer, plan)
    if tuned_before is None:
        answer = with_expected_errors(answer, near, choices)
    if translation is not None:
        answer = _translate_answer(answer, translation, translated, k)
    space = None if translation is None else translation.space
    answer = replace(answer, notes=(*answer.notes, *_size_notes(location, space)))
    if len(choices) < k and len(broken):
        answer = replace(answer, notes=(*answer.notes, _failing_note(len(broken), len(choices), k)))
    if not request.explain or not choices:
        return answer
    from warmstart.suggestions.explanation import explain_answer

    why = explain_answer(near, location.rows, errors=errors, choices=choices, listed=listed)
    return replace(answer, explanation=why)


def _size_notes(location: Location, space: "ConfigurationSpace | None") -> tuple[str, ...]:
    """Return a note for pictures with more pixels than the history measured."""
    about = location.embedded.measured_with
    named = None if about is None else workload_of(next(iter(about.origins), ""))
    if named is None or location.query is None:
        return ()
    note = larger_pictures_note(location.query.source, location.embedded.configs, named[0], space)
    return () if note is None else (note,)


def _plan(
    location: Location,
    errors: NDArray[np.float64],
    most: int | None,
    strategy: str,
    limit: "TimeLimit",
    *,
    tuned_before: TunedBefore | None,
    left_out: NDArray[np.int64],
) -> "tuple[list[Choice], TimePlan]":
    """Plan runs within a time limit; the planner is imported only here, as it loads slowly."""
    from warmstart.timing.plan import plan_for

    embedded = location.embedded
    # Rows without any error cannot be weighed.
    rows = np.flatnonzero(~np.isnan(errors).all(axis=1))
    query = StrategyQuery(
        errors[rows],
        location.distances[rows] if location.has_distances and strategy not in NEEDS_NO_MODEL else None,
        1,
        reach=UNCALIBRATED if embedded.calibration is None else embedded.calibration.reach,
        groups=location.groups[rows],
    )
    first = None if tuned_before is None else tuned_before.choice
    choices, plan = plan_for(location, query, limit, most=most, first=first, left_out=left_out.tolist())
    row_of = {None: None} | {location: int(row) for location, row in enumerate(rows)}
    choices = [choice if choice is first else replace(choice, neighbour=row_of[choice.neighbour]) for choice in choices]
    return choices, plan


def _chooser_of(choices: Sequence[Choice]) -> Choose:
    """Return a chooser that returns the first k of these choices."""
    return lambda k: choices[:k]


def _with_plan(answer: Answer, plan: "TimePlan") -> Answer:
    """Add a plan to an answer, and its seconds to the suggestions."""
    designs = tuple(
        replace(design, seconds=step.seconds) for design, step in zip(answer.suggestions, plan.steps, strict=True)
    )
    return replace(answer, suggestions=designs, plan=plan)


def _choose_working(choose: Choose, broken: NDArray[np.int64], most: int, k: int) -> Sequence[Choice]:
    """Choose k configurations without the broken ones; fewer if there are no more."""
    choices = choose(k)
    left_out = set(broken.tolist())
    if left_out.isdisjoint(choice.row for choice in choices):
        return choices
    more = choose(min(k + len(left_out), most))
    return [choice for choice in more if choice.row not in left_out][:k]


def _failing_note(broken: int, n_chosen: int, k: int) -> str:
    failing = "1 configuration, which" if broken == 1 else f"{broken} configurations, which"
    return (
        f"Only {n_chosen} of {k} suggestions come from the history: it has {failing} failed on every dataset where run."
    )


def compose_answer(
    location: Location,
    suggestions: Sequence[InitialDesign] = (),
    strategy: str = "",
    *,
    neighbours: tuple[Neighbour, ...],
    seed: int,
) -> Answer:
    """Build an answer from a location and suggestions."""
    return Answer(
        dataset=location.summary,
        neighbours=neighbours,
        suggestions=tuple(suggestions),
        strategy=strategy,
        confidence=location.confidence,
        history=str(location.embedded.path),
        model="" if location.embedded.model is None else str(location.embedded.model.path),
        seed=seed,
        space_json=location.embedded.space_json,
        notes=location.notes,
        measured_with=location.embedded.measured_with,
    )


def _of_pictures_as_large(location: Location) -> tuple[Location, NDArray[np.bool_]]:
    """Return the location among the datasets with pictures as large, and which of the `c` configurations fit these."""
    embedded, rows = location.embedded, location.among
    if embedded.own_pixels is None:
        return location, np.ones(len(embedded.configs), np.bool_)
    sides = np.array([side_of(info) for info in embedded.about.at(rows.tolist())])
    fits, as_large = fitting_datasets(embedded.errors(rows), sides, embedded.configs, location.summary.side)
    return (location if as_large.all() else location.within(rows[as_large])), fits


def _narrow(location: Location, *, uses_distances: bool) -> tuple[Location, TunedBefore | None]:
    """Limit a location to few enough datasets for a fast answer; return it with the dataset's own earlier tuning.

    Of a large history the nearest datasets stay or, for strategies without distances, an even spread.
    """
    spread = location.among[spread_positions(len(location.among))]
    basis = location if uses_distances or np.array_equal(spread, location.rows) else location.at(spread)
    if location.query is None:
        return basis, None
    tuned_before = find_tuned_before(location.query, location.embedded, location.rows, location.distances)
    if tuned_before is None:
        return basis, None
    assert tuned_before.choice.neighbour is not None  # noqa: S101  it is a dataset's own best
    twin = location.rows[tuned_before.choice.neighbour]
    if twin not in basis.rows:
        basis = location.at(np.union1d(basis.rows, twin))
    choice = replace(tuned_before.choice, neighbour=int(np.searchsorted(basis.rows, twin)))
    return basis, replace(tuned_before, choice=choice)


def _translation(embedded: EmbeddedHistory, space: "SpaceLike", rename: Mapping[str, str]) -> "Translation":
    """Translate the history into another space; the module is imported only here, as it loads slowly."""
    from warmstart.suggestions.translation import translate

    return translate(embedded, space, rename)


def _translate_answer(
    answer: Answer, translation: "Translation", translated: "Sequence[TranslatedConfig]", k: int
) -> Answer:
    """Translate the suggestions of an answer into another space."""
    designs = translation.designs(answer.suggestions, translated)
    is_same = all(design.expected_error is not None for design in designs)
    return replace(
        answer,
        suggestions=designs,
        expectation=answer.expectation if is_same else None,
        expected_error=answer.expected_error if any(design.is_of_history for design in designs) else None,
        expected_after=answer.expected_after if is_same else (),
        space_json=translation.space_json,
        notes=(*answer.notes, *translation.notes(translated, k)),
        mapping=translation.matches,
    )


def _initial_designs(
    location: Location,
    errors: NDArray[np.float64],
    choices: Sequence[Choice],
    strategy: str,
    *,
    tuned_before: TunedBefore | None,
    is_timed: bool,
) -> list[InitialDesign]:
    """Turn choices into suggestions with origin, reason and, where calibrated, expected regret."""
    embedded = location.embedded
    regrets: list[float | None] = [None] * len(choices)
    # Calibration holds for new datasets only.
    if tuned_before is not None:
        regrets = [0.0 if tuned_before.is_complete and embedded.calibration is not None else None] * len(choices)
    elif (strategy == "joint" or embedded.ignores_distances) and embedded.calibration is not None:
        reach = embedded.calibration.reach
        query = StrategyQuery(errors, location.distances, len(choices), reach=reach, groups=location.groups)
        expected = expected_regrets(query, [choice.row for choice in choices])
        regrets = [float(regret) for regret in embedded.calibration.promise(expected)]
    of_all = "adds most per second" if is_timed else "best average rank" if strategy == "average-rank" else "adds most"
    untried = set(np.flatnonzero(np.isnan(errors).all(axis=0)).tolist())
    suggestions = []
    for choice, regret in zip(choices, regrets, strict=True):
        config, measured = dict(embedded.configs[choice.row]), choice.row not in untried
        if choice.neighbour is None:
            why = f"{of_all} over all datasets" if measured else WHY_UNTRIED
            suggestions.append(
                InitialDesign(config, natural(config), expected_regret=regret, why=why, measured=measured)
            )
            continue
        name = embedded.names[location.rows[choice.neighbour]]
        reason = f"reached error {choice.source_error:.3g} on {name}"
        if tuned_before is not None and choice is tuned_before.choice:
            reason = f"the best known on this very dataset, error {choice.source_error:.3g}"
        elif choice.distance is not None:
            reason += f", at distance {choice.distance:.3g}"
        suggestions.append(
            InitialDesign(config, natural(config), name, choice.distance, choice.source_error, regret, why=reason)
        )
    return suggestions
