"""Suggestions for a space that is not the history's: what the two have in common, and what was done about the rest."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from history_store.errors import UsageError
from history_store.mapping import Match, Wishes, describe_space, map_configs
from history_store.records import Value
from history_store.space import load_space, natural
from warmstart.suggestion import InitialDesign

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from bo.strategies import Choice
    from warmstart.session import Memory


@dataclass(frozen=True, slots=True)
class Translation:
    """The configurations of a history in another space.

    Attributes:
        space_json: ConfigSpace JSON of the other space.
        configs: one for each of the history's; None where the other space cannot express it.
        matches: what became of each hyperparameter; `there` is the history, `here` the other space.
    """

    space_json: str
    configs: tuple[Mapping[str, Value] | None, ...]
    matches: tuple[Match, ...]

    @property
    def is_exact(self) -> bool:
        """Tell whether a configuration says the same in either space."""
        return all(match.action in ("kept", "renamed", "rescaled") and not match.rounded for match in self.matches)

    def choose(self, choose: "Callable[[int], Sequence[Choice]]", k: int) -> "list[Choice]":
        """Choose k that differ in the other space; fewer where there are no more.

        Args:
            choose: gives the best so many of the history's configurations, best first.
            k: how many are wanted.
        """
        asked = k
        while True:
            found: dict[tuple[tuple[str, Value], ...], Choice] = {}
            for choice in choose(asked):
                config = self.configs[choice.row]
                if config is not None:
                    found.setdefault(tuple(config.items()), choice)
            if len(found) >= k or asked >= len(self.configs):
                return list(found.values())[:k]
            asked = min(2 * asked, len(self.configs))

    def apply(self, design: InitialDesign, row: int) -> InitialDesign:
        """Put a suggestion, the history's configuration `row`, into the other space.

        What was promised of it holds there only where nothing was lost.
        """
        config = dict(self.configs[row] or {})
        promised = design.expected_regret if self.is_exact else None
        return replace(design, config=config, natural=natural(config), expected_regret=promised)

    def notes(self, found: int, wanted: int) -> list[str]:
        """Say in a line or two what was done, for people."""
        changed = [match for match in self.matches if match.action not in ("kept", "renamed")]
        said = "; ".join(f"{match.there or match.here} ({match.action}: {match.reason})" for match in changed)
        common = sum(match.there is not None and match.here is not None for match in self.matches)
        notes = [f"Put into your space by the {common} hyperparameters in common{'; ' + said if said else ''}."]
        if found < wanted:
            notes.append(f"Only {found} of {wanted} suggestions differ in your space.")
        return notes


def translate(
    memory: "Memory", space: "str | os.PathLike[str] | ConfigurationSpace", rename: Mapping[str, str]
) -> Translation:
    """Put all configurations of a history into another space.

    Args:
        memory: of the history.
        space: the other: a file of ConfigSpace JSON, ``compact``, ``paper``, or itself.
        rename: names of the other space by the history's.

    Raises:
        UsageError: no such file, names that neither space has, or no configuration that the other space can express.
        DataError: a file that is no space, or spaces with nothing in common.
    """
    from history_store.foreign import as_columns
    from warmstart.spaces import space_text

    text = space_text(space)
    configs: list[Mapping[str, Any]] = list(memory.configs)
    mapped = map_configs(
        as_columns(configs),
        load_space(text),
        n=len(configs),
        known=describe_space(load_space(memory.space_json)),
        wishes=Wishes(rename=rename),
        where="--space",
    )
    if not any(mapped.configs):
        msg = f"--space: expected a space that can express configurations of {memory.path}, got one that cannot: {'; '.join(mapped.lost)}. Widen it."
        raise UsageError(msg)
    return Translation(text, mapped.configs, mapped.matches)
