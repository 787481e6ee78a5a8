"""Progress of a call in plain words, whatever runs below."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warmstart.bar import Bar
from warmstart.history_store.wording import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from warmstart.studies.results.progress import StudyProgress

LOOKING, READING, COMPARING = "looking at pictures", "reading them for the networks", "comparing networks"
TRAINING, REPORTING = "training the one that is saved", "writing the report"


@dataclass(frozen=True, slots=True)
class PlainProgress:
    """Where a call is.

    Attributes:
        phase: what it does.
        share: of the phase, in [0, 1].
        detail: further words.
        ends: `time.monotonic` at which the call ends at the latest.
        at: `time.monotonic` of this state.
        share_ends: `time.monotonic` at which the phase ends; infinite = unknown.
    """

    phase: str
    share: float = 0.0
    detail: str = ""
    ends: float = math.inf
    at: float = field(default_factory=time.monotonic)
    share_ends: float = math.inf


@dataclass(slots=True)
class Teller:
    """Turns what happens into `PlainProgress`.

    Attributes:
        tell: called with it.
        on_message: called with what to expect.
        began: `time.monotonic` when the call began.
        ends: when it ends at the latest.
    """

    tell: Callable[[PlainProgress], object]
    on_message: Callable[[str], object]
    began: float
    ends: float
    _has_expected: bool = field(default=False, init=False)

    def looked(self, n: int, total: int) -> None:
        """Tell how many pictures were looked at."""
        self.tell(PlainProgress(LOOKING, n / max(total, 1), f"{n:,} of {total:,}", self.ends))

    def reading(self) -> None:
        """Tell that the networks' input is made."""
        self.tell(PlainProgress(READING, 0.0, "", self.ends))

    def compared(self, now: StudyProgress) -> None:
        """Tell the best network so far."""
        if now.expected is not None and not self._has_expected:
            self._has_expected = True
            best = now.expected.best
            low, high = round(100 * (1 - best.high)), round(100 * (1 - best.low))
            self.on_message(f"Expect {low} to {high} of 100 right, by what similar pictures gave.")
        error = None if now.best is None else now.best.error
        detail = "" if error is None else f"{round(100 * error)} of 100 wrong so far"
        spent, whole = time.monotonic() - self.began, self.ends - self.began
        share = min(now.done / now.total, 1.0) if math.isfinite(now.total) else min(spent / whole, 1.0)
        self.tell(PlainProgress(COMPARING, share, detail, self.ends))

    def training(self) -> None:
        """Tell that the network to save is trained."""
        self.tell(PlainProgress(TRAINING, 0.0, "", self.ends, share_ends=self.ends))

    def reporting(self) -> None:
        """Tell that the report is written."""
        self.tell(PlainProgress(REPORTING, 0.0, "", self.ends))


class PlainBar(Bar):
    """A bar that says what is done, how good it is so far, and how long it takes at most."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._detail, self._ends, self._phase_began, self._phase_ends = "", math.inf, time.monotonic(), math.inf

    def tell(self, now: PlainProgress) -> bool:
        """Show a state; return whether it begins a phase."""
        is_new = now.phase != self.title
        if is_new:
            self._phase_began = now.at
        self.title, self._detail, self._ends, self._phase_ends = now.phase, now.detail, now.ends, now.share_ends
        self.show(now.share, 1.0, "")
        return is_new

    @property
    def share(self) -> float:
        """Return the finished part of the phase; of one with an end by the clock."""
        if math.isinf(self._phase_ends):
            return self.completed
        spent, whole = time.monotonic() - self._phase_began, self._phase_ends - self._phase_began
        return min(max(spent / whole, 0.0), 1.0) if whole > 0 else 1.0

    @property
    def count(self) -> str:
        """Return the words on how far, or how good."""
        return self._detail or (f"{100 * self.share:.0f} %" if math.isfinite(self._phase_ends) else "")

    @property
    def left(self) -> str:
        """Return how long the whole call takes at most."""
        left_s = self._ends - time.monotonic()
        return f"at most {duration(max(left_s, 1.0))} left" if math.isfinite(left_s) else ""

    def line(self) -> str:
        """Return the progress on one line."""
        return ", ".join(filter(None, (f"{self.title} {self.count}".strip() if self.title == "looking at pictures" else f"{self.title}: {self.count}" if self.count else self.title, self.left)))  # fmt: skip

    def render(self) -> RenderableType:
        """Draw the bar on one line."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True)
        words = " · ".join(filter(None, (self.count, self.left)))
        grid.add_row(Text(self.title), ProgressBar(total=1.0, completed=self.share), Text(words))
        return grid
