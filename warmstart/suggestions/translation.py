"""Suggestions for a space that is not the history's: what the two have in common, and what was done about the rest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.hyperparameter_names import BROADER_RULE
from warmstart.history_store.mapping import NO_PLACE, Match, Wishes, describe_space, match_columns
from warmstart.history_store.records import Value
from warmstart.history_store.space import dump_space, load_space, natural
from warmstart.suggestions.answer import EVENLY, InitialDesign

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.bo.space.completion import Completion
    from warmstart.bo.transfer.strategies import Choice
    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.embedded_history import EmbeddedHistory

OPTIMISER_NAMES = frozenset({"optimizer", "optimiser", "opt"})
"""Last parts, in lower case, of names that a hyperparameter has which chooses the optimiser."""


@dataclass(frozen=True, slots=True)
class Picked:
    """One configuration of the other space.

    Attributes:
        choice: the history's configuration that it comes from; None where nothing of the space is known.
        config: values by name.
        not_measured: names whose values are not those of that configuration.
    """

    choice: "Choice | None"
    config: Mapping[str, Value]
    not_measured: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """The configurations of a history in another space, as far as they say something there.

    Attributes:
        space: the other.
        columns: one value for each of the history's `n` configurations, by the other space's name; None = not known.
        moved: `n` bool by the same name, whether the value was clipped, rounded or snapped to what the space allows;
            of `trained_by` too.
        lost: `n` bool, the configuration has a value that the other space does not.
        matches: what became of each hyperparameter; `there` is the history, `here` the other space.
        optimiser: by which all of the history's configurations were trained; empty = not known, or one of its hyperparameters.
        trained_by: the choice that is this optimiser, by the other space's name; for Adam also AdamW.
    """

    space: "ConfigurationSpace"
    columns: Mapping[str, Sequence[Value | None]]
    moved: Mapping[str, NDArray[np.bool_]]
    lost: NDArray[np.bool_]
    matches: tuple[Match, ...]
    optimiser: str = ""
    trained_by: Mapping[str, Value] = field(default_factory=dict)

    @property
    def space_json(self) -> str:
        """Return the other space as ConfigSpace JSON."""
        return dump_space(self.space)

    def is_exact(self, config: Mapping[str, Value]) -> bool:
        """Tell whether a configuration says the same in either space; what is inactive in it says nothing."""
        telling = [match for match in self.matches if match.there is not None or match.here in config]
        return all(match.action in ("kept", "renamed", "rescaled") and not match.rounded for match in telling)

    @property
    def knows(self) -> bool:
        """Tell whether the history says anything about the other space."""
        varied = [name for name in self.columns if not hasattr(self.space[name], "value")]
        return bool(varied) and not self.lost.all()

    @property
    def unfit(self) -> tuple[Match, ...]:
        """Return what has a name of the other space, but no value or scale of it, or could be one of several names."""
        left = (match for match in self.matches if match.here is None)
        return tuple(match for match in left if not match.reason.startswith(NO_PLACE))

    def pick(self, choose: "Callable[[int], Sequence[Choice]]", *, k: int, seed: int) -> list[Picked]:
        """Pick k configurations that differ, best first; fewer where the space has no more.

        What the history never measured is spread evenly over them, the first having the defaults. Where too few of the
        history's configurations differ here, they are repeated with other values of what is not measured; then a Sobol
        sequence goes on.

        Args:
            choose: gives the best so many of the history's configurations, best first.
            k: how many are wanted.
            seed: of what is spread.
        """
        from warmstart.bo.space.completion import Completion

        asked, picked = k, list[Picked]()
        while True:
            completion = Completion(self.space, n=k, rng=np.random.default_rng(seed))
            if self.knows:
                picked = self._different(choose(asked), completion, k)
            if len(picked) == k or not self.knows or asked >= len(self.lost):
                break
            asked = min(2 * asked, len(self.lost))
        picked += self._repeated(picked, completion, k - len(picked))
        rest = completion.fill(k - len(picked)) if len(picked) < k else []
        return picked + [Picked(None, config, self._open(config, None)) for config in rest]

    def _different(self, choices: "Sequence[Choice]", completion: "Completion", k: int) -> list[Picked]:
        """Complete those of the history's configurations that differ in what is known."""
        picked: list[Picked] = []
        seen: set[tuple[tuple[str, Value], ...]] = set()
        for choice in choices:
            known = self.known(choice.row)
            key = tuple(known.items())
            if self.lost[choice.row] or key in seen:
                continue
            seen.add(key)
            config = completion.complete(known)
            if config is not None:
                picked.append(Picked(choice, config, self._open(config, choice.row)))
            if len(picked) == k:
                break
        return picked

    def _repeated(self, picked: Sequence[Picked], completion: "Completion", n: int) -> list[Picked]:
        """Repeat configurations in turn with other values of what is not known, as long as there are any."""
        found: list[Picked] = []
        more = [one for one in picked if one.choice is not None]
        while more and len(found) < n:
            for one in more[: n - len(found)]:
                assert one.choice is not None  # noqa: S101  for mypy
                config = completion.complete(self.known(one.choice.row))
                if config is None:
                    more.remove(one)
                    break
                found.append(Picked(one.choice, config, self._open(config, one.choice.row)))
        return found

    def known(self, row: int) -> dict[str, Value]:
        """Return what one of the history's configurations says here."""
        values = {name: self.columns[name][row] for name in self.columns}
        return {**{name: value for name, value in values.items() if value is not None}, **self.trained_by}

    def _open(self, config: Mapping[str, Value], row: int | None) -> tuple[str, ...]:
        """Name the values of a configuration that were not measured."""
        known = {} if row is None else self.known(row)
        return tuple(
            name
            for name in config
            if (name not in known and not hasattr(self.space[name], "value"))
            or (name in known and row is not None and bool(self.moved[name][row]))
        )

    def designs(self, designs: Sequence[InitialDesign], picked: Sequence[Picked]) -> tuple[InitialDesign, ...]:
        """Put suggestions, one for each that was picked with a choice, into the other space.

        What was measured and promised of them holds there only where nothing was changed.
        """
        given: Iterator[InitialDesign] = iter(designs)
        return tuple(
            InitialDesign(one.config, natural(one.config), measured=False, not_measured=one.not_measured, why=EVENLY)
            if one.choice is None
            else self._design(next(given), one)
            for one in picked
        )

    def _design(self, design: InitialDesign, one: Picked) -> InitialDesign:
        design = replace(design, config=one.config, natural=natural(one.config))
        if not one.not_measured:
            return design if self.is_exact(one.config) else replace(design, expected_regret=None, expected_error=None)
        why = f"{design.why}, with other values of {', '.join(one.not_measured)}"
        return replace(
            design,
            source_error=None,
            expected_regret=None,
            expected_error=None,
            measured=False,
            not_measured=one.not_measured,
            why=why,
        )

    def notes(self, picked: Sequence[Picked], wanted: int) -> list[str]:
        """Say in a few lines what was done, for people."""
        fewer = [f"Only {len(picked)} of {wanted} suggestions differ in your space."] if len(picked) < wanted else []
        pairs = [match for match in self.matches if match.there is not None and match.here is not None]
        unfit = self.unfit
        if not self.knows:
            reasons = "".join(f" {match.there}: {match.reason}." for match in (*unfit, *(m for m in pairs if m.lost)))
            even = (
                f"The history knows nothing about your space: the first configurations fill it evenly (Sobol).{reasons}"
            )
            return [even, *fewer]
        notes = [f"Known from the history: {', '.join(map(_pair, pairs))}."]
        moved = {name: self._moved(name, picked) for name in self.columns}
        if any(moved.values()):
            said = ", ".join(
                f"{name} ({'suggestion' if len(ranks) == 1 else 'suggestions'} {', '.join(map(str, ranks))})"
                for name, ranks in moved.items()
                if ranks
            )
            notes.append(f"Moved to the nearest value that your space allows: {said}.")
        varied = [str(match.here) for match in self.matches if match.there is None and match.filled]
        varied = [n for n in varied if n not in self.trained_by and any(n in one.config for one in picked)]
        if varied:
            notes.append(f"Not measured there, so varied over the suggestions: {', '.join(varied)}.")
        notes += [
            f"Measured with {self.optimiser} there, so {name} is {choice} in all of these."
            for name, choice in self.trained_by.items()
        ]
        if unfit:
            notes.append(f"Left out: {', '.join(f'{match.there} ({match.reason})' for match in unfit)}.")
        without = [str(match.there) for match in self.matches if match.here is None and match not in unfit]
        if without:
            notes.append(f"Not in your space: {', '.join(without)}.")
        return notes + fewer

    def _moved(self, name: str, picked: Sequence[Picked]) -> list[int]:
        """List the ranks of the suggestions that have a value which was moved."""
        return [
            rank
            for rank, one in enumerate(picked, start=1)
            if one.choice is not None and name in one.config and self.moved[name][one.choice.row]
        ]


def translate(embedded: "EmbeddedHistory", space: "SpaceLike", rename: Mapping[str, str]) -> Translation:
    """Put all configurations of a history into another space.

    Args:
        embedded: the history that was read.
        space: the other; see `warmstart.spaces.read_space`.
        rename: names of the other space by the history's, or by the natural ones behind its logarithms.

    Raises:
        UsageError: no such file, or names that neither space has.
        DataError: a file that is no space.
    """
    from warmstart.spaces import read_space

    with_ = embedded.measured_with
    optimiser = "" if with_ is None else with_.optimiser or ""
    there, here = load_space(embedded.space_json), read_space(space)
    return translate_configs(embedded.configs, there, here, rename=rename, optimiser=optimiser)


def translate_configs(
    configs: Sequence[Mapping[str, Value]],
    there: "ConfigurationSpace | None",
    here: "ConfigurationSpace",
    *,
    rename: Mapping[str, str],
    optimiser: str = "",
) -> Translation:
    """Put `n` configurations of one space into another, as far as they say something there.

    Args:
        configs: of the one space.
        there: the one space, by which scales are checked; None = not known, and names are trusted.
        here: the other.
        rename: names of the other by the one's, or by the natural ones behind its logarithms.
        optimiser: by which all of them were trained; empty = not known, or one of their hyperparameters.

    Raises:
        UsageError: names that neither has.
    """
    from warmstart.history_store.external_runs import as_columns

    rows: list[Mapping[str, Any]] = list(configs)
    columns = as_columns(rows)
    wishes = Wishes(rename=rename, nearest=True, is_trusted=there is None)
    known = {} if there is None else describe_space(there)
    found, left = match_columns(columns, here, known=known, wishes=wishes)
    lost = np.zeros(len(rows), dtype=np.bool_)
    for each in found.values():
        lost |= each.bad
    trained_by = _trained_by(optimiser, [here[name] for name in here if name not in found])
    matches = [
        found[name].match if name in found else _unmeasured(here[name], len(rows), trained_by.get(name))
        for name in here
    ]
    moved = {name: each.moved for name, each in found.items()}
    for name, choice in trained_by.items():
        moved[name] = np.full(len(rows), str(choice).lower() != optimiser.lower())
    values = {name: each.values for name, each in found.items()}
    return Translation(here, values, moved, lost, (*matches, *left), optimiser, trained_by)


def _trained_by(optimiser: str, unmeasured: Sequence[Any]) -> dict[str, Value]:
    """Return the choice that is an optimiser, for each hyperparameter that chooses one and has it."""
    wanted = {"": (), "adam": ("adam", "adamw")}.get(optimiser.lower(), (optimiser.lower(),))
    found: dict[str, Value] = {}
    for each in unmeasured:
        if each.name.rpartition(".")[2].lower() in OPTIMISER_NAMES:
            choices = {str(choice).lower(): choice for choice in getattr(each, "choices", ())}
            if chosen := [choices[name] for name in wanted if name in choices]:
                found[each.name] = chosen[0]
    return found


def _unmeasured(hyperparameter: Any, n: int, trained_by: Value | None) -> Match:
    """Say of a hyperparameter that the history never measured what becomes of it."""
    if hasattr(hyperparameter, "value"):
        return Match(None, hyperparameter.name, "filled", f"not measured; {hyperparameter.value}, the only value")
    if trained_by is not None:
        return Match(None, hyperparameter.name, "filled", f"{trained_by}, by which all was trained there", filled=n)
    return Match(None, hyperparameter.name, "filled", "not measured; varied over the suggestions", filled=n)


def _pair(match: Match) -> str:
    """Write a pair for people: both names, the scale, and what was a guess."""
    if match.here == match.there and match.action != "rescaled":
        return str(match.here)
    scale = f" as {match.reason.partition(';')[0]}" if match.action == "rescaled" else ""
    guess = "; `rename` can change that" if match.rule == BROADER_RULE else ""
    return f"{match.here} (from {match.there}{scale}{guess})"
