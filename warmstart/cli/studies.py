"""`studies list | show | plot | export | delete | rename`: the studies of a storage."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli.options import RawOption, SeedOption, one_of
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, display_path, write
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.quoting import with_config
from warmstart.history_store.wording import counted, in_shell

if TYPE_CHECKING:
    from warmstart.studies.objectives.metric import Metric
    from warmstart.studies.results.study_record import StudyRecord

_MAX_ROWS = 10
StorageArgument = Annotated[
    str | None, typer.Argument(metavar="STORAGE", help="The same as --storage, without its name.")
]
StorageOption = Annotated[
    str | None,
    typer.Option("--storage", help="Path (SQLite or journal) or URL; warmstart-studies.db when left out."),
]
StudyArgument = Annotated[
    str | None, typer.Argument(metavar="STUDY", help="Its name; may be left out where there is one only.")
]

StudyOption = Annotated[str | None, typer.Option("--study", help="The same as STUDY, by its name.")]


@takes_options
def list_(
    path: StorageArgument = None,
    *,
    storage: StorageOption = None,
    shell: Shell,
) -> None:
    """List the studies of a storage: dataset, trials, best result. Nothing is changed."""
    from warmstart.studies.results.study_record import read_study_record, study_names
    from warmstart.studies.state.reading import open_to_read

    with open_to_read(one_of("storage", path, storage)) as store:
        storage_name = store.display_name
        studies = [_study_rows(store, name, read_study_record, shell) for name in study_names(store)]
    rows = [row for row, _ in studies]
    count = f"{len(rows)} {'study' if len(rows) == 1 else 'studies'}"
    brief = [short for _, short in studies] if shell.format == "table" else rows
    document = {"schema_version": 1, "storage": storage_name, "studies": rows}
    shell.result(document, brief, title=f"{display_path(storage_name)}: {count}", optional=("updated", "failed"))


def _study_rows(store: Any, name: str, read: Any, shell: Shell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of a study, and the one for people; for one that cannot be read its name alone, with a note."""
    try:
        record: StudyRecord = read(store, name)
    except WarmstartError as error:
        shell.note(str(error))
        return {"study": name}, {"study": name}
    row, best = record.row(), record.best
    short = {
        **{head: row[head] for head in ("study", "dataset", "trials", "failed")},
        "best": None if best is None or best.error is None else _said(record, best.error),
        "updated": None if record.updated is None else record.updated[:16].replace("T", " "),
    }
    return row, short


def _said(record: "StudyRecord", error: float) -> str:
    """Write a result for people, with its name."""
    said = record.shown_metric.said(error)
    return f"error {said}" if record.shown_metric.is_plain else said


@takes_options
def show(
    study: StudyArgument = None,
    *,
    named: StudyOption = None,
    storage: StorageOption = None,
    trials: Annotated[
        int, typer.Option("--trials", min=0, help="How many of the best trials are shown; 0 = all.")
    ] = _MAX_ROWS,
    shell: Shell,
) -> None:
    """Show a study: its best trials, what was expected of them, failures."""
    from warmstart.studies.results.study_record import choose_study, read_study_record, unended_rows
    from warmstart.studies.state.reading import open_to_read

    with open_to_read(storage) as store:
        record = read_study_record(store, choose_study(store, one_of("study", study, named)))
        running, interrupted = unended_rows(store, record.name)
    every = record.rows()
    ranked = sorted(
        (row for row in every if row["error"] is not None and row["feasible"]), key=lambda row: row["error"]
    )
    metric = record.shown_metric if shell.format == "table" else record.metric
    best = [_trial_row(row, record, metric) for row in (ranked if trials == 0 else ranked[:trials])]
    document = {
        "schema_version": 1,
        "storage": record.storage,
        **record.row(),
        "counts": record.counts,
        "expected_error": None if record.expected is None else record.expected.best.to_dict(),
        "expectation": None if record.expected is None else record.expected.to_dict(),
        "settings": dict(record.settings or {}),
        "all": every,
        "under_way": running,
        "to_run_again": interrupted,
    }
    shell.result(document, best, title=_title(record), optional=("seconds",))
    if shell.format == "table":
        _print_warm_trials(shell, record, every)
        _print_unended(shell, running, interrupted)
        _print_failures(shell, record, every)


def _trial_row(row: dict[str, Any], record: "StudyRecord", metric: "Metric") -> dict[str, Any]:
    """Return the row of a trial as a table shows it."""
    warm = {} if not record.warm else {"warm": "yes" if row["warm"] else None}
    return with_config(
        {"trial": row["trial"], metric.name: metric.to_value(row["error"]), **warm, "seconds": row["duration"]},
        row["config"],
    )


def _title(record: "StudyRecord") -> list[str]:
    counts = record.counts_line or "no trial yet"
    lines = [f"{record.name} in {display_path(record.storage)}: {counts}"]
    lines += [f"  dataset: {record.row()['dataset']}"] if record.dataset else []
    lines += [f"  objective: {record.evaluated}" if record.evaluated else "  made by another program"]
    if record.settings:
        lines.append(f"  search: {', '.join(f'{name} {value}' for name, value in record.settings.items())}")
    best = record.best
    if best is not None and best.error is not None:
        lines.append(f"  best: {_said(record, best.error)}, trial {best.number}")
    return lines


def _print_warm_trials(shell: Shell, record: "StudyRecord", every: list[dict[str, Any]]) -> None:
    if record.pruned_line:
        write("")
        shell.say(record.pruned_line)
    tried = [row for row in every if row["warm"]]
    if tried:
        write("", "Warm configurations")
        metric = record.shown_metric
        heads = {"promised": "expected", "error": f"{metric.name} here"}
        shown = [head for head in heads if any(row[head] is not None for row in tried)]
        rows = [
            {"trial": row["trial"], "source": row["source"]}
            | {heads[head]: None if row[head] is None else metric.to_value(row[head]) for head in shown}
            for row in tried
        ]
        shell.table(rows)
    if record.expected is not None:
        write("")
        shell.say(record.expected_line)


def _print_unended(shell: Shell, running: list[dict[str, Any]], interrupted: list[dict[str, Any]]) -> None:
    if running:
        write("", "Under way")
        shell.table(running)
    if interrupted:
        write("", "Interrupted, to run again in the next call")
        shell.table(interrupted)


def _print_failures(shell: Shell, record: "StudyRecord", every: list[dict[str, Any]]) -> None:
    failures = [row for row in every if row["note"] and row["status"] != "pruned"]
    if failures:
        write("", "What went wrong")
        for row in failures[-_MAX_ROWS:]:
            shell.say(f"trial {row['trial']}, {row['status']}: {row['note']}")
    if record.best is not None:
        write("")
        shell.say(
            f"Pictures: warmstart studies plot {in_shell(record.name)} --storage {in_shell(display_path(record.storage))}"
        )


@takes_options
def plot(
    study: StudyArgument = None,
    *,
    named: StudyOption = None,
    storage: StorageOption = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="The first picture, .png or .svg; the others lie beside it."),
    ] = None,
    seed: SeedOption = 0,
    shell: Shell,
) -> None:
    """Draw a study: best so far, importance, parallel coordinates, slices, learning curves."""
    from warmstart.plots.style import check_target
    from warmstart.studies.results.study_record import choose_study, file_stem, read_study_record
    from warmstart.studies.state.reading import open_to_read

    if out is not None:
        check_target(Path(out))
    with open_to_read(storage) as store:
        record = read_study_record(store, choose_study(store, one_of("study", study, named)))
    target = Path(out or f"{file_stem(record.name)}.png")
    check_target(target)
    draw(shell, record, target, seed=seed)


def draw(shell: Shell, record: "StudyRecord", target: Any, *, seed: int) -> None:
    """Draw a study and print the files written."""
    from warmstart.plots.study import draw_study

    files, notes = draw_study(record, target.parent, stem=target.stem, suffix=target.suffix, seed=seed)
    for note in notes:
        shell.note(note)
    names = [str(file) for file in files]
    document = {"schema_version": 1, "study": record.name, "storage": record.storage, "files": names}
    shell.result(document, [{"file": name} for name in names])


@takes_options
def export(
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="The file to write: .csv, .parquet, .json, or .html with pictures.")
    ],
    study: StudyArgument = None,
    *,
    named: StudyOption = None,
    storage: StorageOption = None,
    raw: RawOption = False,
    seed: SeedOption = 0,
    shell: Shell,
) -> None:
    """Write the trials of a study as a table, as JSON, or as a page with pictures that needs no network."""
    from warmstart.studies.output_paths import study_folder
    from warmstart.studies.results.export import check_export, write_trials
    from warmstart.studies.results.study_record import choose_study, read_study_record
    from warmstart.studies.state.reading import open_to_read

    target = Path(out)
    check_export(target)
    with open_to_read(storage) as store:
        record = read_study_record(store, choose_study(store, one_of("study", study, named)))
        folder = study_folder(store.path, record.name)
    if target.suffix.lower() == ".html":
        from warmstart.plots.study_page import classifier_of_report, write_page

        classifier = classifier_of_report(folder / "report.json")
        for note in write_page(target, [record], title=f"Study {record.name}", seed=seed, classifier=classifier):
            shell.note(note)
    else:
        write_trials(target, record, raw=raw)
    row = {"study": record.name, "to": out, "trials": len(record.trials)}
    shell.result({"schema_version": 1, "storage": record.storage, **row}, [row])


@takes_options
def delete(
    study: StudyArgument = None,
    *,
    named: StudyOption = None,
    storage: StorageOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    shell: Shell,
) -> None:
    """Delete a study with its trials and their folders. Asks first, unless --yes; its report stays."""
    from warmstart.studies.output_paths import delete_study
    from warmstart.studies.results.study_record import choose_study, read_study_record
    from warmstart.studies.state.reading import open_to_read
    from warmstart.studies.state.storage import open_store

    with open_to_read(storage) as store:
        record = read_study_record(store, choose_study(store, one_of("study", study, named)))
    subject = f"{record.name!r} with its {counted(len(record.trials), 'trial')}"
    if not confirmed(f"Delete {subject} from {display_path(record.storage)}?", subject, yes=yes):
        shell.note("Nothing deleted.")
        return
    with closing(open_store(storage)) as store:
        n_trials = delete_study(store, record.name)
    row = {"study": record.name, "trials": n_trials, "deleted": True}
    shell.result({"schema_version": 1, "storage": record.storage, **row}, [row])


@takes_options
def rename(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Its name.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    *,
    storage: StorageOption = None,
    shell: Shell,
) -> None:
    """Give a study another name; its report stays where it is."""
    from warmstart.studies.results.study_record import choose_study
    from warmstart.studies.state.reading import open_to_read
    from warmstart.studies.state.removal import rename_study
    from warmstart.studies.state.storage import open_store

    with open_to_read(storage) as store:  # a wrong name makes no storage
        name, storage_name = choose_study(store, study), store.display_name
    with closing(open_store(storage)) as store:
        n_trials = rename_study(store, name, new)
    row = {"study": new, "before": name, "trials": n_trials}
    shell.result({"schema_version": 1, "storage": storage_name, **row}, [row])


def confirmed(question: str, subject: str, *, yes: bool) -> bool:
    """Ask before something is deleted, unless --yes.

    Raises:
        UsageError: there is no terminal to ask in.
    """
    if not yes and not sys.stdin.isatty():
        msg = f"studies delete: expected --yes, as there is no terminal to ask in, got none. Add --yes to delete {subject}."
        raise UsageError(msg)
    return yes or typer.confirm(question, err=True)
