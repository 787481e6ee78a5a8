"""`classify`: a folder of pictures in, a classifier out."""

import contextlib
import sys
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.bar import is_terminal, progress_on_stderr
from warmstart.classification.options import ClassifyOptions
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell

if TYPE_CHECKING:
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


@contextmanager
def _plain_progress(shell: Shell, pictures: str) -> "Iterator[Callable[[PlainProgress], object]]":
    """Show what is done in plain words: a bar on a terminal, elsewhere a line for each phase and minute."""
    if shell.quiet:
        yield lambda _now: None
        return
    from warmstart.classification.progress import PlainBar

    bar = PlainBar("looking at pictures")

    def tell(now: "PlainProgress") -> None:
        if bar.tell(now) and not is_terminal():
            sys.stderr.write(bar.line() + "\n")
            sys.stderr.flush()

    if not is_terminal():
        shell.note(f"Looking at the pictures of {pictures}.")
    with progress_on_stderr(bar):
        yield tell
