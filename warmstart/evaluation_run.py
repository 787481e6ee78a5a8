"""From a history, or tables of errors, to the report of an evaluation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_store.errors import UsageError

if TYPE_CHECKING:
    from training.metrics import Metric
    from training.protocol import Protocol
    from training.rivals import Rival
    from training.table import ErrorTable

Show = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to evaluate; the options of the command.

    Attributes:
        protocol: `leave-source-out` or `in-source`.
        rivals: names; none = all.
        ours: the rival that differences are taken of; None = the one that `suggest` asks.
        horizon: evaluations; `repeats` of what is random; `seed` of all of it.
        only: datasets to ask; none = all.
        workers: processes.
        surrogate: of the searches.
        paper_figure: play the runs of the paper's figures too.
    """

    protocol: "Protocol" = "leave-source-out"
    rivals: tuple[str, ...] = ()
    ours: str | None = None
    horizon: int = 20
    repeats: int = 5
    seed: int = 0
    only: tuple[str, ...] = ()
    workers: int = 1
    surrogate: str = "gp"
    paper_figure: bool = False


def evaluate_table(path: Path, plan: Plan, *, progress: Show | None = None) -> dict[str, Any]:
    """Replay a table of errors with the meta-features and distances that its file gives.

    Raises:
        UsageError: an unknown name, or numbers out of range.
        MissingPathError: no such file.
        DataError: a file that is no table, or too little in it.
    """
    from training.metrics import feature_metric, given_metric
    from training.table import read_table

    table = read_table(path)
    metrics: dict[str, Metric] = {name: given_metric(matrix) for name, matrix in table.distances.items()}
    if table.meta_features is not None:
        metrics["handcrafted"] = feature_metric(table.meta_features)
    ours_by = "learned" if "learned" in metrics else next(iter(metrics), None)
    return _report(table, metrics, plan, ours_by, figure_metrics={name: name for name in metrics}, progress=progress)


def _report(
    table: "ErrorTable",
    metrics: "Mapping[str, Metric]",
    plan: Plan,
    ours_by: str | None,
    *,
    figure_metrics: Mapping[str, str],
    progress: Show | None,
) -> dict[str, Any]:
    """Play the rivals, and the runs of the figures where they are wanted, and summarise."""
    from training.replay import evaluate
    from training.report import make_figures, make_report
    from training.rivals import choose_rivals, make_paper_rivals, make_rivals, our_rival

    rivals = choose_rivals(make_rivals(list(metrics), ours_by, has_unit=table.unit is not None), plan.rivals)
    ours = plan.ours or our_rival(ours_by)
    if plan.ours is None and ours not in rivals:
        ours = next(iter(rivals))

    def play(some: "Mapping[str, Rival]", note: str) -> Any:
        show = None if progress is None else (lambda done, total, text: progress(done, total, f"{note}{text}"))
        return evaluate(
            table,
            some,
            protocol=plan.protocol,
            metrics=metrics,
            horizon=plan.horizon,
            repeats=plan.repeats,
            seed=plan.seed,
            only=plan.only,
            workers=plan.workers,
            surrogate=plan.surrogate,
            progress=show,
        )

    figures = None
    if plan.paper_figure:
        if table.unit is None:
            msg = f"--paper-figure: expected a table with configurations X, got none in {table.name}. Add the array, or leave the option out."
            raise UsageError(msg)
        runs = {f"{a}/{start}": rival for (a, start), rival in make_paper_rivals(figure_metrics).items()}
        figures = make_figures(play(runs, "figures: "))
    return make_report(play(rivals, ""), ours=ours, figures=figures)


def as_document(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the JSON document: the report itself, or a list of several."""
    return dict(reports[0]) if len(reports) == 1 else {"schema_version": 1, "reports": list(reports)}


def check_places(out: Path | None, plots: Path | None) -> None:
    """Refuse places that cannot be written before hours are spent.

    Raises:
        UsageError: a folder that does not exist, or plots without what draws them.
    """
    for name, folder in (("--out", None if out is None else out.parent), ("--plots", plots)):
        if folder is not None and not folder.is_dir():
            msg = f"{name}: expected a place in a folder that exists, got {folder}. Make the folder first."
            raise UsageError(msg)
    if plots is not None and find_spec("matplotlib") is None:
        msg = "--plots: expected matplotlib, got none. Install it with pip install 'warmstart[plots]'."
        raise UsageError(msg)


def keep(reports: Sequence[Mapping[str, Any]], out: Path | None, plots: Path | None) -> list[str]:
    """Write and draw reports where that is wanted.

    Returns: what to tell.

    Raises:
        StorageError: a place that cannot be written.
    """
    notes = []
    if out is not None:
        from metafeat.files import replace_file
        from warmstart.formats import to_json

        replace_file(out, (to_json(as_document(reports)) + "\n").encode())
        notes.append(f"Wrote {out}.")
    if plots is not None:
        from warmstart.plots.regret import draw_regret

        for report in reports:
            stem = "regret" if len(reports) == 1 else f"{Path(report['table']).stem}-regret"
            notes.extend(f"Wrote {path}." for path in draw_regret(report, plots, stem=stem))
    return notes
