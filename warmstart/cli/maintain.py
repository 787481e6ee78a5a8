"""`history create | embed | verify | compact | upgrade`: the file of a history."""

from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.options import HistoryArgument, HistoryByName, HistoryFile, ModelUse, SeedOption, one_of
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.history_store.errors import HistoryDamagedError, UsageError
from warmstart.history_store.file.layout import restore_hint
from warmstart.history_store.history import History
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.space import load_space
from warmstart.history_store.verify import restore as bring_back
from warmstart.history_store.verify import upgrade as rewrite
from warmstart.history_store.verify import verify as check
from warmstart.history_store.wording import counted
from warmstart.locations import history_path, shipped_history
from warmstart.spaces import space_text


@takes_options
def create(
    history: HistoryFile,
    *,
    space: Annotated[
        str | None,
        typer.Option("--space", help="compact, paper or a file of a space (YAML, JSON); compact when left out."),
    ] = None,
    configs: Annotated[
        int | None, typer.Option("--configs", min=0, help="Number of shared Sobol configurations to add now.")
    ] = None,
    stored_size: Annotated[
        int | None, typer.Option("--stored-size", min=8, help="Side of the stored images in pixels; 32 when left out.")
    ] = None,
    from_default: Annotated[
        bool,
        typer.Option("--from-default", help="Start with everything that is in the shipped history, over its space."),
    ] = False,
    seed: SeedOption = 0,
    shell: Shell,
) -> None:
    """Create a history: empty, or a copy of the shipped one."""
    path = Path(history)
    if path.exists():
        msg = f"{path}: expected a path where nothing lies, got an existing file. Choose another name; nothing was changed."
        raise UsageError(msg)
    new_file_options = {"--space": space, "--configs": configs, "--stored-size": stored_size}
    if from_default:
        named = [option for option, value in new_file_options.items() if value is not None]
        if named:
            msg = f"--from-default cannot be used with {' or '.join(named)}: the shipped history has its own."
            raise UsageError(msg)
        with History.open(shipped_history()) as shipped:
            shipped.copy_as_new(path)
    else:
        text = space_text(space or "compact")
        drawn = sobol_configs(load_space(text), configs, seed=seed) if configs else []
        History.create(path, text, configs=drawn, stored_size=stored_size or 32).close()
    with History.open(path) as created:
        row = {
            "history": str(path),
            "id": created.id,
            "configs": len(created.configs),
            "stored_size": created.stored_size,
        }
        counts = {"datasets": len(created.names), "n_evaluations": created.n_evaluations}
    shell.result({"schema_version": 1, **row, **counts}, [{**row, **counts} if from_default else row])


@takes_options
def embed(
    history: HistoryFile,
    *,
    use: ModelUse,
    shell: Shell,
) -> None:
    """Store missing embeddings and statistics of the datasets, so that later calls are faster."""
    from warmstart.suggestions.advisor import Advisor

    with shell.images_progress() as progress:
        names = Advisor(history, **vars(use), progress=progress).refresh()
    row = {"history": history, "embedded": len(names)}
    shell.result({"schema_version": 1, **row, "datasets": list(names)}, [row])


@takes_options
def verify(
    path: HistoryArgument = None,
    *,
    history: HistoryByName = None,
    restore: Annotated[bool, typer.Option("--restore", help="Restore a damaged history from its backup.")] = False,
    shell: Shell,
) -> None:
    """Check every byte of a history; exit code 4 if it is damaged."""
    named = one_of("history", path, history)
    location = history_path(named) if not restore else Path(named or history_path())
    report = bring_back(location) if restore else check(location)
    remarks = list(report.remarks)
    if report.ok:
        remarks += _check_answers(location, mend_them=restore)
    else:
        # Every problem may end with it; the message says it once.
        advice = restore_hint(report.path)
        texts = [problem.message.replace(advice, "").strip().rstrip(".") for problem in report.problems]
        problems = "; ".join(
            f"{problem.location}: {text}" for problem, text in zip(report.problems, texts, strict=True)
        )
        msg = f"{location}: expected a sound history, got {counted(len(report.problems), 'problem')}: {problems}. {restore_hint(str(location))}"
        raise HistoryDamagedError(msg)
    counts = {name: getattr(report, name) for name in ("n_datasets", "n_configs", "n_evaluations", "n_images")}
    document = {"history": str(location), "ok": True, **counts, "remarks": remarks}
    for remark in remarks:
        shell.detail(remark) if not restore else shell.note(remark)
    shell.result({"schema_version": 1, **document}, [{"history": str(location), "ok": True, **counts}])


def _check_answers(path: Path, *, mend_them: bool) -> list[str]:
    """Raise if a sound history holds what a suggestion would stumble over, or leave that out of its answers; return remarks."""
    from warmstart.histories.usable import index_remarks, mend, unusable_parts

    with History.open(path) as history:
        problems = unusable_parts(history)
    if problems and mend_them:
        with History.open(path, write=True) as history:
            mend(history)
            problems = unusable_parts(history)
    if problems:
        msg = f"{path}: expected a history that can be answered with, got {'; '.join(problems)}. {restore_hint(str(path))}"
        raise HistoryDamagedError(msg)
    return index_remarks(path)


@takes_options
def compact(
    history: HistoryFile,
    *,
    drop_images: Annotated[bool, typer.Option("--drop-images", help="Leave the images out.")] = False,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Write a copy to this file instead.")] = None,
    shell: Shell,
) -> None:
    """Write the journal into the file, or write a copy.

    Images that are left out stay in the backup until the next write.
    """
    path = history_path(history)
    with History.open(path, write=out is None) as opened:
        before, dropped = path.stat().st_size, drop_images and out is None and opened.holds_images
        opened.compact(drop_images=drop_images, path=out)
    if dropped:
        shell.note(
            f"{path.resolve()}.bak keeps the images until the next write to the history; copy it first if you need them."
        )
    target = path if out is None else Path(out)
    row = {"history": str(target), "bytes_before": before, "bytes": target.stat().st_size, "images": not drop_images}
    shell.result({"schema_version": 1, **row}, [row])


@takes_options
def upgrade(
    history: HistoryFile,
    *,
    shell: Shell,
) -> None:
    """Upgrade a history to the newest version.

    The old file becomes the backup.
    """
    path = history_path(history)
    row = {"history": str(path), "upgraded": rewrite(path)}
    shell.result({"schema_version": 1, **row}, [row])
