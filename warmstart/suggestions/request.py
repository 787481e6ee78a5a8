"""The options of a suggestion: number of configurations, strategy, space, time limit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmstart.arguments import check_arguments, check_renames, check_space, check_text, check_whole
from warmstart.bo.transfer.designs import WITH_DISTANCES, WITHOUT_DISTANCES
from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.history_store.errors import UsageError
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.location import Location

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike
    from warmstart.timing.plan import TimeLimit

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
