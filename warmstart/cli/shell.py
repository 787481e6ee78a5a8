"""The output of a command: the result on stdout, everything else on stderr."""

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from warmstart.cli.errors import in_options
from warmstart.cli.table import Row, table
from warmstart.history_store.quoting import in_json, in_line, in_yaml, to_csv
from warmstart.option import option

if TYPE_CHECKING:
    from warmstart.bar import Show
    from warmstart.history_store.records import Config

WIDTH = 100
"""Columns of a stream that is not a terminal."""
_ENDS = re.compile(r"(?<=[a-z0-9)'\"`%][.!?]) (?=[A-Z`'\"])")
"""The space between two sentences; not after an abbreviation of one letter."""


@dataclass(frozen=True, slots=True)
class Shell:
    """The two streams of a command, as its options say."""

    TITLE: ClassVar[str] = "Output"
    format: str = option(
        "table",
        "Format of the result on stdout.",
        flags=("--format", "-f"),
        choices=("table", "json", "yaml", "csv"),
    )
    quiet: bool = option(False, "Write only errors to stderr.", flags=("--quiet", "-q"))
    verbose: int = option(0, "Write more to stderr; -vv shows tracebacks.", flags=("--verbose", "-v"), is_counted=True)
    _notes: set[str] = field(default_factory=set, repr=False, compare=False)

    def note(self, text: str) -> None:
        """Write a note to stderr unless quiet: one sentence per line, each only once, arguments spelled as options."""
        for sentence in sentences(in_options(text)):
            if not self.quiet and sentence not in self._notes:
                self._notes.add(sentence)
                sys.stderr.write(wrapped(sentence, columns(sys.stderr)) + "\n")

    def detail(self, text: str) -> None:
        """Write a line to stderr under ``-v``."""
        if self.verbose:
            self.note(text)

    def table(self, rows: Sequence[Row], *, title: str | Sequence[str] = "", optional: Sequence[str] = ()) -> None:
        """Write rows as a table to stdout, as wide as the terminal.

        Args:
            rows: values by head.
            title: a line above, or several; long ones are wrapped.
            optional: heads that may be left out to save width, the first one first; ``-v`` keeps all.
        """
        width = columns(sys.stdout) or WIDTH
        drawn = table(rows, width, optional=() if self.verbose else optional)
        for line in (title,) if isinstance(title, str) and title else title:
            write(line, width=width)
        write(*drawn.lines)
        if drawn.left_out:
            sys.stdout.flush()
            self.note(f"Left out for want of room: {', '.join(drawn.left_out)} (-v shows them).")

    def cells(self, config: "Config") -> dict[str, Any]:
        """Return a configuration for a row: natural values for people; values of the space and natural ones for programs."""
        from warmstart.history_store.space import natural, shown

        if self.format == "table":
            return shown(config)
        return {**config, **{name: value for name, value in natural(config).items() if name not in config}}

    def say(self, text: str) -> None:
        """Write sentences of the result to stdout, one per line, wrapped at spaces."""
        write(*sentences(in_options(text)), width=columns(sys.stdout) or WIDTH)

    def line(self, text: str) -> None:
        """Write a line of the result to stdout, wrapped at spaces."""
        write(in_options(text), width=columns(sys.stdout) or WIDTH)

    def result(
        self,
        document: Mapping[str, Any],
        rows: Sequence[Row],
        *,
        title: str | Sequence[str] = "",
        optional: Sequence[str] = (),
    ) -> None:
        """Write a result to stdout.

        Args:
            document: the whole, for json and yaml; native types.
            rows: the same as a table, for csv and people.
            title: a line above the table, or several.
            optional: as for `table`.
        """
        if self.format == "table":
            self.table(rows, title=title, optional=optional)
        else:
            write_program(
                to_csv(rows)
                if self.format == "csv"
                else in_json(document)
                if self.format == "json"
                else in_yaml(dict(document))
            )

    @contextmanager
    def progress(self, title: str) -> Iterator["Show"]:
        """Show the progress of a command on stderr, unless quiet; see `warmstart.bar`.

        Yields: `Bar.show`.
        """
        if self.quiet:
            yield _ignore
            return
        from warmstart.bar import progress_on_stderr

        with progress_on_stderr(title) as show:
            yield show

    @contextmanager
    def images_progress(self, title: str = "computing features") -> Iterator[Callable[[float, float], None]]:
        """Show on a terminal, unless quiet, the number of images that a network has embedded.

        Most calls find all features in the cache: the bar appears with the first image and goes with the last.

        Args:
            title: before the bar.

        Yields: a function of the number of images completed and of all images.
        """
        if self.quiet or not sys.stderr.isatty():
            yield _ignore
            return
        with ExitStack() as opened:
            bars: list[Show] = []

            def tell(completed: float, total: float) -> None:
                if not bars:
                    bars.append(opened.enter_context(self.progress(title)))
                bars[0](completed, total, "")
                if completed >= total:
                    opened.close()
                    bars.clear()

            yield tell


def _ignore(*_position: object, **_named: object) -> None:
    """Show nothing."""


def write(*lines: str, width: int | None = None) -> None:
    """Write lines for people to stdout, quoted, wrapped at a width."""
    for line in [in_line(line) for line in lines]:
        sys.stdout.write(wrapped(line, width) + "\n")


def write_program(text: str) -> None:
    """Write text for programs to stdout, as it is, with one newline at its end."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def columns(stream: TextIO) -> int | None:
    """Return the columns of a stream's terminal; None for a file or pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(text: str, width: int | None) -> str:
    """Wrap a line at its spaces, with the indent of the line."""
    if width is None or len(text) <= width:
        return text
    tail = text[len(text.rstrip()) :]
    space = text[: len(text) - len(text.lstrip())]
    # Aligned with the text of a list item.
    indent = space if len(space) != 2 else " " * 5
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + tail


def sentences(text: str) -> list[str]:
    """Split a text into sentences, quoted for people; an indented one, a list's item, stays whole."""
    line = in_line(text)
    return [line] if line.startswith(" ") else [part for part in _ENDS.split(line) if part]


def display_path(path: str) -> str:
    """Return a path relative to the working folder if it lies below it, else unchanged."""
    return str(Path(path).relative_to(Path.cwd())) if Path(path).is_relative_to(Path.cwd()) else path
