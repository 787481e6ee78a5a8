"""What a command says: the result on stdout, everything else on stderr."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shell:
    """The two streams of a command.

    Attributes:
        format: ``table``, ``json``, ``yaml`` or ``csv``.
        quiet: say nothing on stderr.
        verbose: 1 = details.
    """

    format: str
    quiet: bool = False
    verbose: int = 0

    def note(self, text: str) -> None:
        """Say one line on stderr, unless quiet."""
        if not self.quiet:
            sys.stderr.write(text + "\n")

    def detail(self, text: str) -> None:
        """Say one line on stderr under ``-v``."""
        if self.verbose:
            self.note(text)

    def result(self, document: Mapping[str, Any], rows: Sequence[Row], *, title: str = "") -> None:
        """Write a result to stdout.

        Args:
            document: the whole, for json and yaml; native types.
            rows: the same as a table, for csv and people.
            title: a line above the table.
        """
        if self.format == "table":
            print_table(rows, title=title)
        else:
            from warmstart.formats import to_csv, to_json, to_yaml

            write(
                to_csv(rows)
                if self.format == "csv"
                else to_json(document)
                if self.format == "json"
                else to_yaml(document)
            )

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int | None, str], None]]:
        """Show a bar on stderr where that is a terminal, else nothing.

        Yields: a function of (done, total, text).
        """
        if self.quiet or not sys.stderr.isatty():
            yield lambda done, total, text: None  # noqa: ARG005
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),  # the total is unknown until the first call
            TimeRemainingColumn(),
        )
        with Progress(*columns, TextColumn("{task.fields[said]}"), console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=None, said="")
            yield lambda done, total, text: bar.update(task, completed=done, total=total, said=text)


def write(text: str) -> None:
    """Write text to stdout, with one newline at its end."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def console() -> "Console":
    """Give a console on stdout that cuts nothing off where stdout is no terminal."""
    from rich.console import Console

    return Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() else 200,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def print_table(rows: Sequence[Row], *, title: str = "") -> None:
    """Print rows as a table; their keys are its heads."""
    from rich import box
    from rich.table import Table

    out = console()
    if title:
        out.print(title)
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    heads = list(dict.fromkeys(key for row in rows for key in row))
    for head in heads:
        numeric = all(isinstance(row.get(head), int | float | None) for row in rows)
        table.add_column(head, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(row.get(head)) for head in heads))
    out.print(table)


def cell(value: Any) -> str:
    """Write one value for people: numbers to four digits, nothing for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
