"""What a history recommends for a dataset that was located in it: configurations with their origin and reasons."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.designs import designs
from warmstart.bo.transfer.strategies import Choice
from warmstart.bo.transfer.strategies import Query as StrategyQuery
from warmstart.bo.transfer.strategies.joint import expected_regrets
from warmstart.bo.transfer.strategies.noise import USUAL_NOISE
from warmstart.bo.transfer.strategies.query import UNCALIBRATED
from warmstart.history_store.error_tables import fill_failed
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.space import natural
from warmstart.measured_with import workload_of
from warmstart.suggestions.answer import UNTRIED, Answer, InitialDesign, Neighbour
from warmstart.suggestions.doubts import NOTHING_TO_EXPECT
from warmstart.suggestions.embedded_history import EmbeddedHistory, nearest_places, spread_places
from warmstart.suggestions.explanation import explain_answer
from warmstart.suggestions.larger_pictures import note_of_larger
from warmstart.suggestions.location import Location
from warmstart.suggestions.neighbours import list_neighbours
from warmstart.suggestions.request import NEEDS_NO_MODEL, Request
from warmstart.suggestions.tuned_before import TunedBefore, find_tuned_before

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.time_plan import TimeLimit, TimePlan
    from warmstart.suggestions.translation import Picked, Translation

Choose = Callable[[int], Sequence[Choice]]
"""Gives the best so many configurations, best first."""
LEAST_NEIGHBOURS = 3
FORECAST_FROM = 500
"""Datasets, the nearest, from which errors are forecast: more cost seconds and tell little."""


def recommend(place: Location, request: Request, *, seed: int) -> Answer:
    """Choose configurations for a dataset from the datasets that may answer, all of which have runs.

    Raises:
        UsageError: a strategy that asks for distances where there are none, or more configurations than the history has.
    """
    embedded, k, strategy = place.embedded, request.count(place.embedded), request.strategy_at(place)
    place, known = _narrowed(place, uses_distances=strategy not in NEEDS_NO_MODEL)
    # A run that failed counts as error 1; one that was never made is another matter.
    errors = fill_failed(embedded.errors[place.rows], embedded.failed[place.rows])
    groups = place.groups
    distances = place.distances if place.has_distances else None
    choose = partial(
        designs,
        errors,
        distances,
        strategy=strategy,
        calibration=embedded.calibration,
        groups=groups,
        noise=USUAL_NOISE,
    )
    broken = _failed_wherever_they_ran(place)
    chosen: Choose = partial(_choose_working, choose, broken, len(embedded.configs))
    if known is not None:
        chosen = known.first(chosen)
        place = replace(place, notes=(known.note, *place.notes))
    plan = None
    if request.limit is not None:
        most = None if request.k is None else k
        planned, plan = _planned(place, errors, most, strategy, request.limit, known=known, broken=broken)
        chosen, k = _given(planned), len(planned)
    translation = None if request.space is None else _translation(embedded, request.space, request.rename or {})
    picked = [] if translation is None else translation.pick(chosen, k=k, seed=seed)
    choices = list(chosen(k)) if translation is None else [each.choice for each in picked if each.choice is not None]
    listed = list_neighbours(place, LEAST_NEIGHBOURS, used={choice.neighbour for choice in choices})
    designed = _initial_designs(place, errors, choices, strategy, known=known, is_timed=plan is not None)
    found = compose_answer(place, designed, strategy, neighbours=listed, seed=seed)
    found = replace(found, tuned_before=known)
    if plan is not None:
        found = _with_plan(found, plan)
    if known is None:
        found = _with_expected_errors(found, place, choices)
    if translation is not None:
        found = _translated(found, translation, picked, k)
    asked = None if translation is None else translation.space
    found = replace(found, notes=(*found.notes, *_notes_of_size(place, asked)))
    if len(choices) < k and len(broken):
        found = replace(found, notes=(*found.notes, _note_broken(len(broken), len(choices), k)))
    if not request.explain or not choices:
        return found
    names = [neighbour.name for neighbour in listed]
    why = explain_answer(embedded, place.rows, place.distances, errors=errors, choices=choices, listed=names)
    return replace(found, explanation=why)


def _notes_of_size(place: Location, space: "ConfigurationSpace | None") -> tuple[str, ...]:
    """Say what to try where the pictures have more pixels than the history measured."""
    about = place.embedded.measured_with
    named = None if about is None else workload_of(next(iter(about.origins), ""))
    if named is None or place.query is None:
        return ()
    note = note_of_larger(place.query.source, place.embedded.configs, named[0], space)
    return () if note is None else (note,)


def _planned(
    place: Location,
    errors: NDArray[np.float64],
    most: int | None,
    strategy: str,
    limit: "TimeLimit",
    *,
    known: TunedBefore | None,
    broken: NDArray[np.int64],
) -> "tuple[list[Choice], TimePlan]":
    """Plan what fits in a time; what that needs is loaded here alone."""
    from warmstart.suggestions.time_plan import plan_for

    embedded = place.embedded
    rows = np.flatnonzero(~np.isnan(errors).all(axis=1))  # a row without any error says nothing
    query = StrategyQuery(
        errors[rows],
        place.distances[rows] if place.has_distances and strategy not in NEEDS_NO_MODEL else None,
        1,
        reach=UNCALIBRATED if embedded.calibration is None else embedded.calibration.reach,
        groups=place.groups[rows],
    )
    first = None if known is None else known.choice
    choices, plan = plan_for(place, query, limit, most=most, first=first, left_out=broken.tolist())
    known_as = {None: None} | {place: int(row) for place, row in enumerate(rows)}
    choices = [
        choice if choice is first else replace(choice, neighbour=known_as[choice.neighbour]) for choice in choices
    ]
    return choices, plan


def _given(choices: Sequence[Choice]) -> Choose:
    """Return a chooser of what was chosen already."""
    return lambda k: choices[:k]


def _with_plan(found: Answer, plan: "TimePlan") -> Answer:
    """Add a plan, and to each suggestion how long it takes."""
    designs = tuple(
        replace(design, seconds=step.seconds) for design, step in zip(found.suggestions, plan.steps, strict=True)
    )
    return replace(found, suggestions=designs, plan=plan)


def _failed_wherever_they_ran(place: Location) -> NDArray[np.int64]:
    """Return the configurations that gave no error on any dataset that may answer, but failed on one or more."""
    failed = place.embedded.failed[place.rows]
    if not failed.any():
        return np.zeros(0, np.int64)
    errors = place.embedded.errors[place.rows]
    return np.flatnonzero(failed.any(axis=0) & np.isnan(errors).all(axis=0))


def _choose_working(choose: Choose, broken: NDArray[np.int64], most: int, k: int) -> Sequence[Choice]:
    """Choose k configurations without those that are broken; fewer where there are no more."""
    choices = choose(k)
    left_out = set(broken.tolist())
    if left_out.isdisjoint(choice.row for choice in choices):
        return choices
    more = choose(min(k + len(left_out), most))
    return [choice for choice in more if choice.row not in left_out][:k]


def _note_broken(broken: int, given: int, k: int) -> str:
    them = "1 configuration, which" if broken == 1 else f"{broken} configurations, which"
    return f"Only {given} of {k} suggestions come from the history: it has {them} failed on every dataset where run."


def compose_answer(
    place: Location,
    suggestions: Sequence[InitialDesign] = (),
    strategy: str = "",
    *,
    neighbours: tuple[Neighbour, ...],
    seed: int,
) -> Answer:
    """Put an answer together."""
    return Answer(
        dataset=place.summary,
        neighbours=neighbours,
        suggestions=tuple(suggestions),
        strategy=strategy,
        confidence=place.confidence,
        history=str(place.embedded.path),
        model="" if place.embedded.model is None else str(place.embedded.model.path),
        seed=seed,
        space_json=place.embedded.space_json,
        notes=place.notes,
        measured_with=place.embedded.measured_with,
    )


def _narrowed(place: Location, *, uses_distances: bool) -> tuple[Location, TunedBefore | None]:
    """Leave so many datasets that an answer takes no longer than a moment, with what is known of the very dataset.

    Of a large history the nearest answer, or where distances say nothing, some that are spread over all of it.
    """
    near = nearest_places(place.distances) if place.has_distances else np.arange(len(place.rows))
    known = None
    if place.query is not None:
        known = find_tuned_before(place.query, place.embedded, place.rows[near], place.distances[near])
    kept = near if uses_distances else spread_places(len(place.rows))
    if known is None:
        return place.at(kept), None
    assert known.choice.neighbour is not None  # noqa: S101  it is a dataset's own best
    own = near[known.choice.neighbour]
    kept = np.union1d(kept, own)
    choice = replace(known.choice, neighbour=int(np.searchsorted(kept, own)))
    return place.at(kept), replace(known, choice=choice)


def _with_expected_errors(found: Answer, place: Location, choices: Sequence[Choice]) -> Answer:
    """Add what error to expect of each suggestion, and of the best after a search, where the history knows enough."""
    from warmstart.suggestions.expectations import expectation_of, forecaster_of

    if not NOTHING_TO_EXPECT.isdisjoint(found.confidence.reasons):
        return found
    nearest = place.rows[np.argsort(place.distances, kind="stable")[:FORECAST_FROM]]
    forecaster = None if place.features is None else forecaster_of(place.embedded, np.sort(nearest))
    if forecaster is None or place.features is None:
        return found
    expectation = expectation_of(forecaster, place.features, n_val=place.summary.n_val)
    expected = expectation.errors()
    rows = [choice.row for choice in choices]
    designs = tuple(
        replace(design, expected_error=expected[row]) for design, row in zip(found.suggestions, rows, strict=True)
    )
    others = () if found.plan is None else found.plan.others
    places = {config_key(config): row for row, config in enumerate(place.embedded.configs)} if others else {}
    rows += [places[config_key(config)] for config in others]
    return replace(found, suggestions=designs, expected_error=expected[-1], expectation=expectation.of(rows))


def _translation(embedded: EmbeddedHistory, space: "SpaceLike", rename: Mapping[str, str]) -> "Translation":
    """Put the history into another space; what that needs is loaded here alone."""
    from warmstart.suggestions.translation import translate

    return translate(embedded, space, rename)


def _translated(found: Answer, translation: "Translation", picked: "Sequence[Picked]", k: int) -> Answer:
    """Put the suggestions of an answer into another space."""
    designs = translation.designs(found.suggestions, picked)
    is_same = all(design.expected_error is not None for design in designs)
    return replace(
        found,
        suggestions=designs,
        expectation=found.expectation if is_same else None,
        expected_error=found.expected_error if any(design.is_of_history for design in designs) else None,
        space_json=translation.space_json,
        notes=(*found.notes, *translation.notes(picked, k)),
        mapping=translation.matches,
    )


def _initial_designs(
    place: Location,
    errors: NDArray[np.float64],
    choices: Sequence[Choice],
    strategy: str,
    *,
    known: TunedBefore | None,
    is_timed: bool,
) -> list[InitialDesign]:
    """Turn choices of rows into configurations with their origin and, where it was calibrated, what they promise."""
    embedded = place.embedded
    promised: list[float | None] = [None] * len(choices)
    if known is not None:  # what calibration says is about datasets that the history does not have
        promised = [0.0 if known.is_complete and embedded.calibration is not None else None] * len(choices)
    elif strategy == "joint" and embedded.calibration is not None:
        reach = embedded.calibration.reach
        query = StrategyQuery(errors, place.distances, len(choices), reach=reach, groups=place.groups)
        expected = expected_regrets(query, [choice.row for choice in choices])
        promised = [float(regret) for regret in embedded.calibration.promise(expected)]
    of_all = "adds most per second" if is_timed else "best average rank" if strategy == "average-rank" else "adds most"
    untried = set(np.flatnonzero(np.isnan(errors).all(axis=0)).tolist())
    found = []
    for choice, regret in zip(choices, promised, strict=True):
        config, measured = dict(embedded.configs[choice.row]), choice.row not in untried
        if choice.neighbour is None:
            why = f"{of_all} over all datasets" if measured else UNTRIED
            found.append(InitialDesign(config, natural(config), expected_regret=regret, why=why, measured=measured))
            continue
        name = embedded.names[place.rows[choice.neighbour]]
        how = f"reached error {choice.source_error:.3g} on {name}"
        if known is not None and choice is known.choice:
            how = f"the best known on this very dataset, error {choice.source_error:.3g}"
        elif choice.distance is not None:
            how += f", at distance {choice.distance:.3g}"
        found.append(
            InitialDesign(config, natural(config), name, choice.distance, choice.source_error, regret, why=how)
        )
    return found
