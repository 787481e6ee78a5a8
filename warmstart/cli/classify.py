"""`classify`: a folder of pictures in, a classifier out."""

import contextlib
import math
import sys
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.classification.options import ClassifyOptions
from warmstart.cli.bar import Bar, is_terminal, progress_on_stderr
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.history_store.wording import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from warmstart.classification.progress import PlainProgress


@takes_options
def classify(
    pictures: Annotated[str, typer.Argument(metavar="PICTURES", help="A folder with a folder of pictures a class.")],
    *,
    options: ClassifyOptions,
    shell: Shell,
) -> None:
    """Train a classifier of your pictures, and say how good it is.

    Run the same command again to make it better.
    """
    began = clock.monotonic()
    with _plain_progress(shell, pictures) as tell:
        from warmstart.classification.classify import classify_pictures

        call = replace(options, progress=tell, on_message=shell.note, on_detail=shell.detail)
        try:
            # The result alone is for stdout.
            with contextlib.redirect_stdout(sys.stderr):
                classifier = classify_pictures(pictures, call, began=began)
        except KeyboardInterrupt:
            shell.note("Stopped; what was tried is kept. Run the same command again to continue.")
            raise
    if shell.format == "table":
        for line in classifier.lines:
            shell.line(line)
    else:
        rows = [{"class": each.name, "n": each.n, "right": each.right, "taken_for": each.taken_for} for each in classifier.judgement.classes]  # fmt: skip
        shell.result(classifier.to_dict(), rows)


class PlainBar(Bar):
    """A bar that says what is done, how good it is so far, and how long it takes at most."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._detail, self._ends, self._phase_began, self._phase_ends = "", math.inf, clock.monotonic(), math.inf

    def tell(self, now: "PlainProgress") -> bool:
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
        spent, whole = clock.monotonic() - self._phase_began, self._phase_ends - self._phase_began
        return min(max(spent / whole, 0.0), 1.0) if whole > 0 else 1.0

    @property
    def count(self) -> str:
        """Return the words on how far, or how good."""
        return self._detail or (f"{100 * self.share:.0f} %" if math.isfinite(self._phase_ends) else "")

    @property
    def left(self) -> str:
        """Return how long the whole call takes at most."""
        left_s = self._ends - clock.monotonic()
        return f"at most {duration(max(left_s, 1.0))} left" if math.isfinite(left_s) else ""

    def line(self) -> str:
        """Return the progress on one line."""
        return ", ".join(filter(None, (f"{self.title} {self.count}".strip() if self.title == "looking at pictures" else f"{self.title}: {self.count}" if self.count else self.title, self.left)))  # fmt: skip

    def render(self) -> "RenderableType":
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


@contextmanager
def _plain_progress(shell: Shell, pictures: str) -> "Iterator[Callable[[PlainProgress], object]]":
    """Show what is done in plain words: a bar on a terminal, elsewhere a line for each phase and minute."""
    if shell.quiet:
        yield lambda _now: None
        return
    bar = PlainBar("looking at pictures")

    def tell(now: "PlainProgress") -> None:
        if bar.tell(now) and not is_terminal():
            sys.stderr.write(bar.line() + "\n")
            sys.stderr.flush()

    if not is_terminal():
        shell.note(f"Looking at the pictures of {pictures}.")
    with progress_on_stderr(bar):
        yield tell
