"""`history list | show`: show the content of a history."""

from typing import Annotated, Any

import typer

from warmstart.cli.options import (
    Format,
    FormatOption,
    HistoryArgument,
    HistoryOption,
    ModelOption,
    QuietOption,
    SeedOption,
    ShippedOfOption,
    VerboseOption,
    one_history,
)
from warmstart.cli.shell import Shell, write
from warmstart.history_store.wording import counted, in_short


def list_(
    path: HistoryArgument = None,
    *,
    history: HistoryOption = None,
    workload: ShippedOfOption = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Show only the first so many datasets.")] = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """List the datasets of a history."""
    from warmstart.histories.listing import dataset_rows
    from warmstart.history_store.history import History
    from warmstart.locations import measured_history

    shell = Shell(format, quiet=quiet, verbose=verbose)
    with History.open(measured_history(workload, one_history(path, history))) as opened:
        rows, n = dataset_rows(opened, limit), len(opened.names)
        where = str(opened.path)
    shown = "" if len(rows) == n else f"the first {len(rows)} of "
    title = f"{where}: {shown}{counted(n, 'dataset')}\n"
    optional = ("n_test", "n_val", "n_train", "n_classes", "group")
    shell.result({"schema_version": 1, "history": where, "datasets": rows}, rows, title=title, optional=optional)


def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A dataset, or FILE.h5::NAME; the history as a whole when left out."),
    ] = None,
    *,
    history: HistoryOption = None,
    workload: ShippedOfOption = None,
    model: ModelOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Show a history, or one dataset of it.

    Of a dataset: record, runs, best configurations, where errors are high (CCoV), nearest datasets.
    """
    from warmstart.histories.listing import describe, summary
    from warmstart.history_store.history import History
    from warmstart.locations import measured_history, stored_hash

    shell = Shell(format, quiet=quiet, verbose=verbose)
    if name is not None and history is None and "::" in name:
        history, _, name = name.rpartition("::")
    elif name is not None and history is None and name.endswith((".h5", ".hdf5")):
        history, name = name, None
    with History.open(measured_history(workload, history)) as opened:
        known = None if name is None else stored_hash(opened.model_hashes, model)
        found = summary(opened) if name is None else describe(opened, name, model_hash=known)
    apart = (
        ()
        if format is not Format.TABLE
        else ("best_configs", "best_config", "ccov", "ccov_in_words", "nearest", "errors")
    )
    shown = {
        key: value
        for key, value in found.items()
        if value not in ("", None, {}, []) and (name is None or key not in apart)
    }
    rows = [{"field": key, "value": _plain(value)} for key, value in shown.items()]
    shell.result({"schema_version": 1, **found}, rows)
    if name is not None and format is Format.TABLE:
        _print_parts(shell, found)


def _print_parts(shell: Shell, found: dict[str, Any]) -> None:
    """Write what has a table of its own: errors, best configurations, where errors gather, what it resembles."""
    if found["errors"]:
        write("")
        shell.table([found["errors"]], title="Errors over the configurations")
    if found["best_configs"]:
        rows = []
        for best in found["best_configs"]:
            plain = {key.removeprefix("log10_"): value for key, value in best["config"].items()}
            rows.append({"error": best["error"], **plain, **best["natural"]})
        write("")
        shell.table(rows, title="Best configurations")
    if found["ccov_in_words"]:
        said = [
            {"hyperparameter": key, "CCoV": found["ccov"][key], "in words": text}
            for key, text in found["ccov_in_words"].items()
        ]
        write("")
        shell.table(said, title="Where errors gather")
    if found["nearest"]:
        rows = [{**near, "sibling": "yes" if near["sibling"] else "no"} for near in found["nearest"]]
        write("")
        shell.table(rows, title="It resembles, by the model's distance")


def _plain(value: object) -> object:
    """Write nested values on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(str(_plain(inner)) for inner in value)
    return in_short(value) if isinstance(value, float) else value
