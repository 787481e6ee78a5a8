"""`history bundle | merge | quarantine`: share and merge histories."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.cli.options import HistoryFile
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.history_store.bundle.file import write_bundle
from warmstart.history_store.history import History
from warmstart.history_store.wording import in_shell, some_of
from warmstart.locations import history_path

if TYPE_CHECKING:
    from warmstart.histories.merge import MergePlan

_MAX_LINES = 20
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the report and write nothing.")]


@takes_options
def bundle(
    history: HistoryFile,
    *,
    out: Annotated[
        str, typer.Option("--out", "-o", help="The file to write, compressed if it ends in .gz; or a folder.")
    ],
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", "-d", help="Share this dataset of the history alone; may be repeated."),
    ] = None,
    own: Annotated[
        bool, typer.Option("--own", help="Leave out what was merged, and what came with the shipped history.")
    ] = False,
    shell: Shell,
) -> None:
    """Write the runs and features of a history as one file to share, without images and paths.

    In a folder the file is named by its content.
    """
    from warmstart.histories.bundle import bundle_history

    path = history_path(history)
    with History.open(path) as opened, shell.images_progress() as progress:
        summary = bundle_history(opened, datasets=dataset, own=own, progress=progress)
        licences = {name: opened.dataset(name).licence for name in summary.datasets}
    target = write_bundle(summary.bundle, out)
    if summary.without_features:
        shell.note(
            f"Known by their runs alone, so that nobody can compare their images with these: {some_of(summary.without_features)}."
        )
    unstated = [name for name, licence in licences.items() if licence == "not stated"]
    if unstated:
        shell.note(f"Licence not stated: {some_of(unstated)}.")
    row = {
        "bundle": str(target),
        "sha256": summary.bundle.id,
        "datasets": len(summary.datasets),
        "runs": summary.n_runs,
        "bytes": target.stat().st_size,
    }
    document = {"history": str(path), **row, "datasets": list(summary.datasets)}
    shell.result({"schema_version": 1, **document, "without_features": list(summary.without_features)}, [row])


@takes_options
def merge(
    history: Annotated[
        str,
        typer.Argument(metavar="HISTORY", help="The history file; made where there is none, over the bundles' space."),
    ],
    bundles: Annotated[
        list[str],
        typer.Argument(metavar="BUNDLE", help="Files that `history bundle` wrote, or folders of them, in any order."),
    ],
    *,
    dry_run: _DryRun = False,
    shell: Shell,
) -> None:
    """Merge bundles into a history, all or none.

    The order does not matter, nor does merging twice. What does not fit is kept in quarantine, with a reason.
    """
    from warmstart.histories.merge import merge_files

    plan = merge_files(Path(history), bundles, dry_run=dry_run)
    _print_conflicts(shell, plan, history)
    row = {
        "history": history,
        "new_records": plan.new_records,
        "new_datasets": len(plan.new_datasets),
        "contributed_runs": plan.answering,
        "repeated": plan.repeated,
        "contradictions": len(plan.contradictions),
        "quarantined": len(plan.quarantined),
    }
    title = "Would be merged; nothing was written." if dry_run else ""
    document = {"schema_version": 1, "history": history, "bundles": bundles, "dry_run": dry_run, **plan.to_dict()}
    shell.result(document, [row], title=title)


@takes_options
def quarantine(
    history: HistoryFile,
    *,
    release: Annotated[
        list[str] | None,
        typer.Option(
            "--release", help="Let this answer: the id of a run, a dataset or a contributor; may be repeated."
        ),
    ] = None,
    shell: Shell,
) -> None:
    """List merged runs in quarantine, which are not used because they do not fit; or release them."""
    from warmstart.histories.merge import quarantine_of
    from warmstart.histories.merge import release as let_answer

    path = history_path(history)
    with History.open(path, write=bool(release)) as opened:
        before = quarantine_of(opened)
        held = let_answer(opened, release).quarantined if release else before
    released = len(before) - len(held)
    rows = [{"id": run.id, "dataset": run.dataset, "by": run.by, "error": run.error, "why": run.why} for run in held]
    if not before:
        shell.note("Nothing is quarantined.")
    if release:
        shell.note(f"Released {released} {'run' if released == 1 else 'runs'}; {len(held)} stay in quarantine.")
    document = {"schema_version": 1, "history": str(path), "released": released}
    shell.result({**document, "quarantined": [run.to_dict() for run in held]}, rows)


def _print_conflicts(shell: Shell, plan: "MergePlan", history: str) -> None:
    """Print the first quarantined runs and the first contradictions of a merge."""
    reasons: dict[tuple[str, str, str], int] = {}
    for run in plan.quarantined:
        key = (run.dataset, run.by, run.why)
        reasons[key] = reasons.get(key, 0) + 1
    for (name, by, why), count in list(reasons.items())[:_MAX_LINES]:
        shell.note(f"  quarantined: {name}, {count} {'run' if count == 1 else 'runs'} from {by}: {why}")
    for contradiction in plan.contradictions[:_MAX_LINES]:
        errors = ", ".join(f"{by} {error:.4g}" for by, error in contradiction["errors"].items())
        shell.note(
            f"  contradiction: {contradiction['dataset']}: {errors}; {' and '.join(contradiction['answers'])} counts"
        )
    more = max(0, len(reasons) - _MAX_LINES) + max(0, len(plan.contradictions) - _MAX_LINES)
    if more:
        shell.note(f"  and {more} more: --format json lists all.")
    if reasons:
        shell.note(f"`warmstart history quarantine {in_shell(history)}` lists the quarantined runs and releases them.")
