"""Progress of a command: a bar on a terminal, one line per minute elsewhere."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from warmstart.history_store.quoting import in_line
from warmstart.history_store.wording import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_S = 60.0
"""Seconds between two lines off a terminal."""
REFRESHES = 4
"""Redraws of the bar per second."""


class Show(Protocol):
    """Callback for the progress of a command; see `Bar.show`."""

    def __call__(
        self,
        completed: float,
        total: float | None,
        text: str = "",
        *,
        left_s: float = math.nan,
        since: float | None = None,
        more: str = "",
        ended: float | None = None,
    ) -> None:
        """Show the progress."""


@dataclass(frozen=True, slots=True)
class BarState:
    """The last update of a bar, with its time.

    Attributes:
        completed: units completed; part of a unit counts as a part.
        total: units in all; None = unknown.
        text: what runs.
        since: time at which it began; None = unknown.
        more: further text.
        left_s: seconds that were left then; NaN = unknown.
        at: time of the update.
        ended: units that ended; None = the whole part of `completed`.
    """

    completed: float = 0.0
    total: float | None = None
    text: str = ""
    since: float | None = None
    more: str = ""
    left_s: float = math.nan
    at: float = 0.0
    ended: float | None = None


class Bar:
    """A progress bar: what runs, units completed and the wall time left, also between two updates."""

    def __init__(self, title: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start a bar without progress.

        Args:
            title: the command in a word, e.g. ``tuning``.
            clock: seconds, as `time.monotonic`.
        """
        self.title, self._clock = title, clock
        self._now = self._phase_start = BarState(at=clock())

    def show(
        self,
        completed: float,
        total: float | None,
        text: str = "",
        *,
        left_s: float = math.nan,
        since: float | None = None,
        more: str = "",
        ended: float | None = None,
    ) -> None:
        """Update the progress.

        Args:
            completed: units completed; part of a unit counts as a part.
            total: units in all; None = unknown.
            text: what runs, e.g. ``trial 7``.
            left_s: seconds that are left; NaN = estimated from the pace so far, infinity = nobody knows.
            since: `time.monotonic` when what runs began.
            more: further text.
            ended: units that ended, where `completed` has parts of several; None = its whole part.
        """
        now = BarState(completed, total, text, since, more, left_s, self._clock(), ended)
        # Another total, or fewer units: a new phase with its own pace.
        if total != self._phase_start.total or completed < self._now.completed:
            self._phase_start = now
        if math.isnan(left_s) and total is not None and completed > self._phase_start.completed:
            pace = (now.at - self._phase_start.at) / (completed - self._phase_start.completed)
            now = replace(now, left_s=pace * (total - completed))
        self._now = now

    @property
    def completed(self) -> float:
        """Return the units completed by now, extrapolated at the expected pace within a unit."""
        now = self._now
        if now.total is None or not now.left_s > 0:
            return now.completed
        progress = (self._clock() - now.at) / now.left_s * (now.total - now.completed)
        # At most 95 % of the current unit: only an update completes it.
        return max(now.completed, min(now.completed + progress, math.floor(now.completed) + 0.95, now.total))

    @property
    def left(self) -> str:
        """Return the wall time left in words; empty while it is unknown."""
        left_s = self._now.left_s - (self._clock() - self._now.at)
        is_over = self._now.total is not None and self._now.completed >= self._now.total
        # Past the estimate: it may take as long again.
        if is_over or not 0 <= left_s < math.inf:
            return ""
        return f"{duration(left_s)} left"

    @property
    def count(self) -> str:
        """Return the units that ended and the total, e.g. ``3/10``."""
        total = "" if self._now.total is None else f"/{math.floor(self._now.total)}"
        return f"{math.floor(self._now.completed if self._now.ended is None else self._now.ended)}{total}"

    @property
    def doing(self) -> str:
        """Return what runs, for how long, and further text."""
        now = self._now
        spent = "" if now.since is None else f" for {duration(self._clock() - now.since)}"
        return in_line(", ".join(part for part in (f"{now.text}{spent}" if now.text else "", now.more) if part))

    def line(self) -> str:
        """Return the progress on one line."""
        return ", ".join(part for part in (f"{self.title}: {self.count}", self.doing, self.left) if part)

    def render(self) -> RenderableType:
        """Draw the bar, with what runs below it."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1)
        for _ in range(2):
            grid.add_column(no_wrap=True)
        total = self._now.total
        grid.add_row(
            Text(self.title),
            ProgressBar(
                # rich divides by the total, which may be 0.
                total=None if total is None else max(total, 1e-9),
                completed=self.completed,
                pulse=total is None,
            ),
            Text(self.count),
            Text(self.left),
        )
        return Group(grid, Text(self.doing)) if self.doing else grid


def is_terminal() -> bool:
    """Tell whether stderr is a terminal that can move its cursor."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")


@contextmanager
def progress_on_stderr(title: str | Bar) -> Iterator[Show]:
    """Show the progress of a command: a bar on a terminal that can move its cursor, elsewhere a line per minute.

    Args:
        title: the command in a word, or its own bar.
    """
    bar = title if isinstance(title, Bar) else Bar(title)
    if is_terminal():
        with _redraw(bar):
            yield bar.show
        return
    over = threading.Event()
    reporter = threading.Thread(target=_report, args=(bar, over), daemon=True)
    reporter.start()
    try:
        yield bar.show
    finally:
        over.set()
        reporter.join()


@contextmanager
def _redraw(bar: Bar) -> Iterator[None]:
    """Redraw the bar until the block ends; then erase it."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Live(
        get_renderable=bar.render,
        console=console,
        refresh_per_second=REFRESHES,
        transient=True,
    ):
        yield


def _report(bar: Bar, over: threading.Event) -> None:
    while not over.wait(LINE_S):
        sys.stderr.write(bar.line() + "\n")
        sys.stderr.flush()
