"""`history list | show`: show the content of a history."""

from typing import Annotated, Any

import typer

from warmstart.cli.options import HistoryArgument, HistoryOptions, ModelOptions, one_of
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, write
from warmstart.history_store.wording import counted, in_short
from warmstart.locations import stored_hash


@takes_options
def list_(
    path: HistoryArgument = None,
    *,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Show only the first so many datasets.")] = None,
    source: HistoryOptions,
    shell: Shell,
) -> None:
    """List the datasets of a history."""
    from warmstart.default_workload import measured_history
    from warmstart.histories.listing import dataset_rows
    from warmstart.history_store.history import History

    with History.open(measured_history(source.workload, one_of("history", path, source.history))) as opened:
        rows, n = dataset_rows(opened, limit), len(opened.names)
        location = str(opened.path)
    extent = "" if len(rows) == n else f"the first {len(rows)} of "
    title = f"{location}: {extent}{counted(n, 'dataset')}"
    optional = ("n_test", "n_val", "n_train", "n_classes", "group")
    shell.result({"schema_version": 1, "history": location, "datasets": rows}, rows, title=title, optional=optional)


@takes_options
def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A dataset, or FILE.h5::NAME; the history as a whole when left out."),
    ] = None,
    *,
    source: ModelOptions,
    shell: Shell,
) -> None:
    """Show a history, or one dataset of it.

    Of a dataset: record, runs, best configurations, where errors are high (CCoV), nearest datasets.
    """
    from warmstart.default_workload import measured_history
    from warmstart.histories.listing import describe, summary
    from warmstart.history_store.history import History

    history = source.history
    if name is not None and history is None and "::" in name:
        history, _, name = name.rpartition("::")
    elif name is not None and history is None and name.endswith((".h5", ".hdf5")):
        history, name = name, None
    with History.open(measured_history(source.workload, history)) as opened:
        model_hash = None if name is None else stored_hash(opened.model_hashes, source.model)
        description = summary(opened) if name is None else describe(opened, name, model_hash=model_hash)
    separate = (
        () if shell.format != "table" else ("best_configs", "best_config", "ccov", "ccov_in_words", "nearest", "errors")
    )
    fields = {
        key: value
        for key, value in description.items()
        if value not in ("", None, {}, []) and (name is None or key not in separate)
    }
    rows = [{"field": key, "value": _plain(value)} for key, value in fields.items()]
    shell.result({"schema_version": 1, **description}, rows)
    if name is not None and shell.format == "table":
        _print_parts(shell, description)


def _print_parts(shell: Shell, description: dict[str, Any]) -> None:
    """Print the tables of a dataset: errors, best configurations, CCoV, nearest datasets."""
    if description["errors"]:
        write("")
        shell.table([description["errors"]], title="Errors over the configurations")
    if description["best_configs"]:
        rows = []
        for best in description["best_configs"]:
            plain = {key.removeprefix("log10_"): value for key, value in best["config"].items()}
            rows.append({"error": best["error"], **plain, **best["natural"]})
        write("")
        shell.table(rows, title="Best configurations")
    if description["ccov_in_words"]:
        gathered = [
            {"hyperparameter": key, "CCoV": description["ccov"][key], "in words": text}
            for key, text in description["ccov_in_words"].items()
        ]
        write("")
        shell.table(gathered, title="Where errors gather")
    if description["nearest"]:
        rows = [{**near, "sibling": "yes" if near["sibling"] else "no"} for near in description["nearest"]]
        write("")
        shell.table(rows, title="It resembles, by the model's distance")


def _plain(value: object) -> object:
    """Write a nested value on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(str(_plain(inner)) for inner in value)
    return in_short(value) if isinstance(value, float) else value
