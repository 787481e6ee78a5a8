"""Translate configurations of a history into another space: match names and values, vary the rest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.space.completion import Completion
from warmstart.history_store.external_runs import as_columns
from warmstart.history_store.hyperparameter_names import BROADER_RULE
from warmstart.history_store.mapping import NO_PLACE, Match, Wishes, describe_space, match_columns
from warmstart.history_store.records import Value
from warmstart.history_store.space import dump_space, load_space, natural
from warmstart.suggestions.records import WHY_EVEN, InitialDesign

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.bo.transfer.strategies import Choice
    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.embedded_history import EmbeddedHistory

OPTIMISER_NAMES = frozenset({"optimizer", "optimiser", "opt"})
"""Last parts, in lower case, of the names of hyperparameters that choose the optimiser."""


@dataclass(frozen=True, slots=True)
class TranslatedConfig:
    """A configuration of the other space.

    Attributes:
        choice: of the history's configuration that it comes from; None without one.
        config: values by name.
        not_measured: names whose values are not those of that configuration.
    """

    choice: "Choice | None"
    config: Mapping[str, Value]
    not_measured: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """The configurations of a history translated into another space.

    Attributes:
        space: the other.
        columns: values of the history's `n` configurations, by the other space's name; None = unknown.
        moved: `n` bool by the same name, whether the value was clipped, rounded or snapped to what the space allows;
            of `trained_by` too.
        lost: `n` bool, whether the configuration has a value that the other space lacks.
        matches: of the hyperparameters; `there` is the history, `here` the other space.
        optimiser: of all runs of the history; empty = unknown, or a hyperparameter of it.
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
        """Tell whether a configuration means the same in both spaces; inactive hyperparameters do not count."""
        telling = [match for match in self.matches if match.there is not None or match.here in config]
        return all(match.action in ("kept", "renamed", "rescaled") and not match.rounded for match in telling)

    @property
    def has_overlap(self) -> bool:
        """Tell whether the history has any hyperparameter of the other space with usable values."""
        varied = [name for name in self.columns if not hasattr(self.space[name], "value")]
        return bool(varied) and not self.lost.all()

    @property
    def unfit(self) -> tuple[Match, ...]:
        """Return the history's hyperparameters that have a counterpart by name, but no value, scale or single match."""
        left = (match for match in self.matches if match.here is None)
        return tuple(match for match in left if not match.reason.startswith(NO_PLACE))

    def pick(self, choose: "Callable[[int], Sequence[Choice]]", *, k: int, seed: int) -> list[TranslatedConfig]:
        """Pick k distinct configurations, best first; fewer if the space has no more.

        Hyperparameters that the history lacks are spread evenly over them; the first has the defaults. If too few of the
        history's configurations differ in this space, they are repeated with other values of those hyperparameters;
        then a Sobol sequence follows.

        Args:
            choose: returns the n best configurations of the history, best first.
            k: number of configurations.
            seed: of the spread values.
        """
        n_chosen, translated = k, list[TranslatedConfig]()
        while True:
            completion = Completion(self.space, n=k, rng=np.random.default_rng(seed))
            if self.has_overlap:
                translated = self._complete_distinct(choose(n_chosen), completion, k)
            if len(translated) == k or not self.has_overlap or n_chosen >= len(self.lost):
                break
            n_chosen = min(2 * n_chosen, len(self.lost))
        translated += self._repeat_with_variation(translated, completion, k - len(translated))
        filling = completion.fill(k - len(translated)) if len(translated) < k else []
        return translated + [TranslatedConfig(None, config, self._unmeasured_names(config, None)) for config in filling]

    def _complete_distinct(
        self, choices: "Sequence[Choice]", completion: "Completion", k: int
    ) -> list[TranslatedConfig]:
        """Complete the history's configurations that differ in their translated values, at most k."""
        translated: list[TranslatedConfig] = []
        keys: set[tuple[tuple[str, Value], ...]] = set()
        for choice in choices:
            values = self.values_of(choice.row)
            key = tuple(values.items())
            if self.lost[choice.row] or key in keys:
                continue
            keys.add(key)
            config = completion.complete(values)
            if config is not None:
                translated.append(TranslatedConfig(choice, config, self._unmeasured_names(config, choice.row)))
            if len(translated) == k:
                break
        return translated

    def _repeat_with_variation(
        self, translated: Sequence[TranslatedConfig], completion: "Completion", n: int
    ) -> list[TranslatedConfig]:
        """Repeat configurations in turn with other values of the unmeasured hyperparameters."""
        repeats: list[TranslatedConfig] = []
        sources = [source for source in translated if source.choice is not None]
        while sources and len(repeats) < n:
            for source in sources[: n - len(repeats)]:
                assert source.choice is not None  # noqa: S101  for mypy
                config = completion.complete(self.values_of(source.choice.row))
                if config is None:
                    sources.remove(source)
                    break
                repeats.append(
                    TranslatedConfig(source.choice, config, self._unmeasured_names(config, source.choice.row))
                )
        return repeats

    def values_of(self, row: int) -> dict[str, Value]:
        """Return the translated values of a configuration of the history."""
        values = {name: self.columns[name][row] for name in self.columns}
        return {**{name: value for name, value in values.items() if value is not None}, **self.trained_by}

    def _unmeasured_names(self, config: Mapping[str, Value], row: int | None) -> tuple[str, ...]:
        """Return the hyperparameters of a configuration whose values were not measured."""
        values = {} if row is None else self.values_of(row)
        return tuple(
            name
            for name in config
            if (name not in values and not hasattr(self.space[name], "value"))
            or (name in values and row is not None and bool(self.moved[name][row]))
        )

    def designs(
        self, designs: Sequence[InitialDesign], translated: Sequence[TranslatedConfig]
    ) -> tuple[InitialDesign, ...]:
        """Translate suggestions, one per translated configuration with a choice.

        Errors and forecasts stay only where no value was changed.
        """
        measured: Iterator[InitialDesign] = iter(designs)
        return tuple(
            InitialDesign(
                item.config, natural(item.config), measured=False, not_measured=item.not_measured, why=WHY_EVEN
            )
            if item.choice is None
            else self._design(next(measured), item)
            for item in translated
        )

    def _design(self, design: InitialDesign, translated: TranslatedConfig) -> InitialDesign:
        design = replace(design, config=translated.config, natural=natural(translated.config))
        if not translated.not_measured:
            return (
                design
                if self.is_exact(translated.config)
                else replace(design, expected_regret=None, expected_error=None)
            )
        why = f"{design.why}, with other values of {', '.join(translated.not_measured)}"
        return replace(
            design,
            source_error=None,
            expected_regret=None,
            expected_error=None,
            measured=False,
            not_measured=translated.not_measured,
            why=why,
        )

    def notes(self, translated: Sequence[TranslatedConfig], k: int) -> list[str]:
        """Describe the translation in a few notes."""
        fewer = [f"Only {len(translated)} of {k} suggestions differ in your space."] if len(translated) < k else []
        pairs = [match for match in self.matches if match.there is not None and match.here is not None]
        unfit = self.unfit
        if not self.has_overlap:
            reasons = "".join(f" {match.there}: {match.reason}." for match in (*unfit, *(m for m in pairs if m.lost)))
            even = (
                f"The history knows nothing about your space: the first configurations fill it evenly (Sobol).{reasons}"
            )
            return [even, *fewer]
        notes = [f"Known from the history: {', '.join(map(_pair, pairs))}."]
        moved = {name: self._moved_ranks(name, translated) for name in self.columns}
        if any(moved.values()):
            ranks_of = ", ".join(
                f"{name} ({'suggestion' if len(ranks) == 1 else 'suggestions'} {', '.join(map(str, ranks))})"
                for name, ranks in moved.items()
                if ranks
            )
            notes.append(f"Moved to the nearest value that your space allows: {ranks_of}.")
        varied = [str(match.here) for match in self.matches if match.there is None and match.filled]
        varied = [n for n in varied if n not in self.trained_by and any(n in item.config for item in translated)]
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

    def _moved_ranks(self, name: str, translated: Sequence[TranslatedConfig]) -> list[int]:
        """Return the ranks of the suggestions with a moved value of a hyperparameter."""
        return [
            rank
            for rank, item in enumerate(translated, start=1)
            if item.choice is not None and name in item.config and self.moved[name][item.choice.row]
        ]


def translate(embedded: "EmbeddedHistory", space: "SpaceLike", rename: Mapping[str, str]) -> Translation:
    """Translate all configurations of a history into another space.

    Args:
        embedded: the history.
        space: the other; see `warmstart.spaces.read_space`.
        rename: names of the other space by the history's, or by the natural ones behind its logarithms.

    Raises:
        UsageError: no such file, or names that neither space has.
        DataError: a file that is no space.
    """
    from warmstart.spaces import read_space

    measured_with = embedded.measured_with
    optimiser = "" if measured_with is None else measured_with.optimiser or ""
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
    """Translate `n` configurations of one space into another.

    Args:
        configs: of the one space.
        there: the one space, to check scales; None = unknown, names are trusted.
        here: the other.
        rename: names of the other by the one's, or by the natural ones behind its logarithms.
        optimiser: of all of them; empty = unknown, or one of their hyperparameters.

    Raises:
        UsageError: names that neither has.
    """
    rows: list[Mapping[str, Any]] = list(configs)
    columns = as_columns(rows)
    wishes = Wishes(rename=rename, nearest=True, is_trusted=there is None)
    descriptions = {} if there is None else describe_space(there)
    matched, left = match_columns(columns, here, known=descriptions, wishes=wishes)
    lost = np.zeros(len(rows), dtype=np.bool_)
    for column in matched.values():
        lost |= column.bad
    trained_by = _trained_by(optimiser, [here[name] for name in here if name not in matched])
    matches = [
        matched[name].match if name in matched else _unmeasured(here[name], len(rows), trained_by.get(name))
        for name in here
    ]
    moved = {name: column.moved for name, column in matched.items()}
    for name, choice in trained_by.items():
        moved[name] = np.full(len(rows), str(choice).lower() != optimiser.lower())
    values = {name: column.values for name, column in matched.items()}
    return Translation(here, values, moved, lost, (*matches, *left), optimiser, trained_by)


def _trained_by(optimiser: str, unmeasured: Sequence[Any]) -> dict[str, Value]:
    """Return the optimiser's choice for every hyperparameter that has it."""
    accepted = {"": (), "adam": ("adam", "adamw")}.get(optimiser.lower(), (optimiser.lower(),))
    trained_by: dict[str, Value] = {}
    for hyperparameter in unmeasured:
        if hyperparameter.name.rpartition(".")[2].lower() in OPTIMISER_NAMES:
            choices = {str(choice).lower(): choice for choice in getattr(hyperparameter, "choices", ())}
            if chosen := [choices[name] for name in accepted if name in choices]:
                trained_by[hyperparameter.name] = chosen[0]
    return trained_by


def _unmeasured(hyperparameter: Any, n: int, trained_by: Value | None) -> Match:
    """Return the match of a hyperparameter that the history never measured."""
    if hasattr(hyperparameter, "value"):
        return Match(None, hyperparameter.name, "filled", f"not measured; {hyperparameter.value}, the only value")
    if trained_by is not None:
        return Match(None, hyperparameter.name, "filled", f"{trained_by}, by which all was trained there", filled=n)
    return Match(None, hyperparameter.name, "filled", "not measured; varied over the suggestions", filled=n)


def _pair(match: Match) -> str:
    """Format a match for people: both names, the scale, and whether it is a guess."""
    if match.here == match.there and match.action != "rescaled":
        return str(match.here)
    scale = f" as {match.reason.partition(';')[0]}" if match.action == "rescaled" else ""
    guess = "; `rename` can change that" if match.rule == BROADER_RULE else ""
    return f"{match.here} (from {match.there}{scale}{guess})"
