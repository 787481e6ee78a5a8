"""`fit-similarity`: fit a meta-feature model to a history."""

from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.options import HistoryByName, one_of
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.history_store.errors import UsageError
from warmstart.locations import history_path
from warmstart.models.recipe import Recipe
from warmstart.models.train import TrainingRun, train_model


@takes_options
def fit_similarity(
    path: Annotated[str | None, typer.Argument(metavar="HISTORY", help="The history; it must hold images.")] = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="The model file to write (.safetensors).")],
    hold_out_group: Annotated[
        list[str] | None,
        typer.Option(
            "--hold-out-group", help="Validate on this sibling group; may be repeated. Random groups when left out."
        ),
    ] = None,
    history: HistoryByName = None,
    recipe: Recipe,
    run: TrainingRun,
    shell: Shell,
) -> None:
    """Learn from a history which datasets are alike, for `suggest`.

    The distances of the fitted model imitate how differently the same configurations perform on two datasets.

    Writes OUT, the learning curves OUT.curves.json and, where matplotlib is installed, OUT.curves.png, and the embeddings
    of all datasets into the history.
    """
    named = one_of("history", path, history)
    if named is None:
        msg = "Give a history: `warmstart fit-similarity mine.h5 --out mine.safetensors`."
        raise UsageError(msg)
    with shell.progress("training") as show:
        report = train_model(
            history_path(named),
            Path(out),
            recipe=recipe,
            hold_out_groups=hold_out_group or (),
            run=run,
            progress=show,
        )
    for note in report.pop("notes"):
        shell.note(note)
    row = {name: value for name, value in report.items() if name not in ("held_out", "quality")}
    shell.result({"schema_version": 1, **report}, [row | (report["quality"] or {})])
