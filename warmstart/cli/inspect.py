"""`history list | show`: what a history holds."""

from typing import Annotated

import typer

from warmstart.cli.options import (
    Format,
    FormatOption,
    HistoryArgument,
    HistoryOption,
    QuietOption,
    SeedOption,
    VerboseOption,
)
from warmstart.cli.shell import Shell


def list_(
    path: HistoryArgument = None,
    *,
    history: HistoryOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """List the datasets of a history."""
    from history_store.history import History
    from warmstart.inventory import dataset_rows
    from warmstart.locations import history_path

    shell = Shell(format, quiet=quiet, verbose=verbose)
    with History.open(history_path(path or history)) as opened:
        rows = dataset_rows(opened)
        where = str(opened.path)
    title = f"{where}: {len(rows)} datasets\n"
    shell.result({"schema_version": 1, "history": where, "datasets": rows}, rows, title=title)


def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A dataset, or FILE.h5::NAME; the history as a whole when left out."),
    ] = None,
    *,
    history: HistoryOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Show a history, or one dataset of it: record, runs, best configuration, centre of errors (CCoV)."""
    from history_store.history import History
    from warmstart.inventory import describe, summary
    from warmstart.locations import history_path

    shell = Shell(format, quiet=quiet, verbose=verbose)
    if name is not None and history is None and "::" in name:
        history, _, name = name.rpartition("::")
    elif name is not None and history is None and name.endswith((".h5", ".hdf5")):
        history, name = name, None
    with History.open(history_path(history)) as opened:
        found = summary(opened) if name is None else describe(opened, name)
    rows = [{"field": key, "value": _plain(value)} for key, value in found.items() if value not in ("", None, {}, [])]
    shell.result({"schema_version": 1, **found}, rows)


def _plain(value: object) -> object:
    """Write nested values on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(str(_plain(inner)) for inner in value)
    return f"{value:.4g}" if isinstance(value, float) else value
