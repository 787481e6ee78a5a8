"""Progress of a command: a bar on a terminal, a line a minute elsewhere."""

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

from warmstart.history_store.wording import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_S = 60.0
"""Seconds between two lines off a terminal."""
REFRESHES = 4
"""Of the bar, a second."""


class Show(Protocol):
    """Takes how far a command is; see `Bar.show`."""

    def __call__(
        self,
        done: float,
        total: float | None,
        text: str,
        *,
        left_s: float = math.nan,
        since: float | None = None,
        more: str = "",
        ended: float | None = None,
    ) -> None:
        """Show it."""


@dataclass(frozen=True, slots=True)
class Stand:
    """What was shown last, and when.

    Attributes:
        done: units that are done; a part of one counts as a part.
        total: units in all; None = unknown.
        text: what runs.
        since: time at which that began; None = not known.
        more: what else there is to say.
        left_s: seconds that were left then; NaN = unknown.
        at: time at which this was said.
        ended: units that ended; None = all of `done` that is whole.
    """

    done: float = 0.0
    total: float | None = None
    text: str = ""
    since: float | None = None
    more: str = ""
    left_s: float = math.nan
    at: float = 0.0
    ended: float | None = None


class Bar:
    """Says what runs, how much is done and the wall time left, at any time between two updates."""

    def __init__(self, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at nothing.

        Args:
            what: the command in a word, e.g. ``tuning``.
            clock: seconds, as `time.monotonic`.
        """
        self.what, self._clock = what, clock
        self._now = self._first = Stand(at=clock())

    def show(
        self,
        done: float,
        total: float | None,
        text: str,
        *,
        left_s: float = math.nan,
        since: float | None = None,
        more: str = "",
        ended: float | None = None,
    ) -> None:
        """Take how far the command is.

        Args:
            done: units that are done; a part of one counts as a part.
            total: units in all; None = unknown.
            text: what runs, e.g. ``trial 7``.
            left_s: seconds that are left; NaN = estimated from the pace so far, infinity = nobody knows.
            since: `time.monotonic` when what runs began.
            more: what else there is to say.
            ended: units that ended, where parts of several are in `done`; None = all of it that is whole.
        """
        now = Stand(done, total, text, since, more, left_s, self._clock(), ended)
        if total != self._first.total or done < self._now.done:  # another phase
            self._first = now
        if math.isnan(left_s) and total is not None and done > self._first.done:
            pace = (now.at - self._first.at) / (done - self._first.done)
            now = replace(now, left_s=pace * (total - done))
        self._now = now

    @property
    def done(self) -> float:
        """Return the units that are done by now: between two updates, at the pace that is expected, within a unit."""
        now = self._now
        if now.total is None or not now.left_s > 0:
            return now.done
        gone = (self._clock() - now.at) / now.left_s * (now.total - now.done)
        return max(now.done, min(now.done + gone, math.floor(now.done) + 0.95, now.total))

    @property
    def left(self) -> str:
        """Return the wall time left in words; empty while it is unknown."""
        left_s = self._now.left_s - (self._clock() - self._now.at)
        is_over = self._now.total is not None and self._now.done >= self._now.total
        if is_over or not 0 <= left_s < math.inf:  # what takes longer than was said may take as long again
            return ""
        return f"{duration(left_s)} left"

    @property
    def count(self) -> str:
        """Return how many are done of how many."""
        total = "" if self._now.total is None else f"/{math.floor(self._now.total)}"
        return f"{math.floor(self._now.done if self._now.ended is None else self._now.ended)}{total}"

    @property
    def doing(self) -> str:
        """Return what runs and for how long, and what else there is to say."""
        now = self._now
        spent = "" if now.since is None else f" for {duration(self._clock() - now.since)}"
        return ", ".join(part for part in (f"{now.text}{spent}" if now.text else "", now.more) if part)

    def line(self) -> str:
        """Return all of it on one line."""
        return ", ".join(part for part in (f"{self.what}: {self.count}", self.doing, self.left) if part)

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
            Text(self.what),
            ProgressBar(total=None if total is None else max(total, 1e-9), completed=self.done, pulse=total is None),
            Text(self.count),
            Text(self.left),
        )
        return Group(grid, Text(self.doing)) if self.doing else grid


@contextmanager
def progress_on_stderr(what: str) -> Iterator[Show]:
    """Show how far a command is: on a terminal that can move its cursor by a bar, elsewhere by a line a minute.

    Args:
        what: the command in a word.
    """
    bar = Bar(what)
    if sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown"):
        with _drawn(bar):
            yield bar.show
        return
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(bar, over), daemon=True)
    teller.start()
    try:
        yield bar.show
    finally:
        over.set()
        teller.join()


@contextmanager
def _drawn(bar: Bar) -> Iterator[None]:
    """Draw the bar again and again; it is wiped away in the end, whatever that is."""
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


def _tell(bar: Bar, over: threading.Event) -> None:
    while not over.wait(LINE_S):
        sys.stderr.write(bar.line() + "\n")
        sys.stderr.flush()
