"""`studies list | show | plot | export`: what a storage of studies holds."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli.options import Format, FormatOption, QuietOption, SeedOption, VerboseOption
from warmstart.cli.shell import Shell, shown_path, write
from warmstart.history_store.wording import in_shell

if TYPE_CHECKING:
    from warmstart.studies.results.study_record import StudyRecord

_SHOWN = 10
StorageArgument = Annotated[
    str | None, typer.Argument(metavar="[STORAGE]", help="The same as --storage, without its name.")
]
StorageOption = Annotated[
    str | None,
    typer.Option("--storage", help="Path (SQLite or journal) or URL; warmstart-studies.db when left out."),
]
StudyArgument = Annotated[
    str | None, typer.Argument(metavar="[STUDY]", help="Its name; may be left out where there is one only.")
]


def list_(
    place: StorageArgument = None,
    *,
    storage: StorageOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """List the studies of a storage: what each is of, its trials, its best. Nothing is changed."""
    from warmstart.studies.results.study_record import read_study_record, study_names
    from warmstart.studies.state.reading import open_to_read

    shell = Shell(format, quiet=quiet, verbose=verbose)
    with open_to_read(place or storage) as store:
        shown = store.display_name
        rows = [_listed(store, name, read_study_record, shell) for name in study_names(store)]
    count = f"{len(rows)} {'study' if len(rows) == 1 else 'studies'}"
    heads = ("study", "dataset", "trials", "failed", "metric", "best", "updated")
    brief = [{head: row.get(head) for head in heads} for row in rows] if format == Format.TABLE else rows
    document = {"schema_version": 1, "storage": shown, "studies": rows}
    shell.result(document, brief, title=f"{shown_path(shown)}: {count}\n", optional=("updated", "failed", "metric"))


def _listed(store: Any, name: str, read: Any, shell: Shell) -> dict[str, Any]:
    """Return the line of a study; one that cannot be read is named, and the others are shown."""
    from warmstart.history_store.errors import WarmstartError

    try:
        row: dict[str, Any] = read(store, name).row()
    except WarmstartError as error:
        shell.note(str(error))
        return {"study": name}
    return row


def show(
    study: StudyArgument = None,
    *,
    storage: StorageOption = None,
    trials: Annotated[
        int, typer.Option("--trials", min=0, help="How many of the best trials are shown; 0 = all.")
    ] = _SHOWN,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Show a study: what it is of, its best trials, what the warm ones promised and what came, what went wrong."""
    from warmstart.studies.results.study_record import choose_study, read_study_record, unended_rows
    from warmstart.studies.state.reading import open_to_read

    shell = Shell(format, quiet=quiet, verbose=verbose)
    with open_to_read(storage) as store:
        found = read_study_record(store, choose_study(store, study))
        running, interrupted = unended_rows(store, found.name)
    every = found.rows()
    ranked = sorted(
        (row for row in every if row["error"] is not None and row["feasible"]), key=lambda row: row["error"]
    )
    best = [_flat(row, found) for row in (ranked if trials == 0 else ranked[:trials])]
    document = {
        "schema_version": 1,
        "storage": found.storage,
        **found.row(),
        "counts": found.counts,
        "expected_error": None if found.expected is None else found.expected.best.to_dict(),
        "expectation": None if found.expected is None else found.expected.to_dict(),
        "settings": dict(found.settings or {}),
        "all": every,
        "under_way": running,
        "to_run_again": interrupted,
    }
    shell.result(document, best, title=_about(found), optional=("seconds",))
    if format == Format.TABLE:
        _tell_more(shell, found, every)
        _tell_unended(shell, running, interrupted)
        _tell_rest(shell, found, every)


def _flat(row: dict[str, Any], found: "StudyRecord") -> dict[str, Any]:
    """Return the line of a trial for people."""
    from warmstart.suggestions.formats import with_config

    warm = {} if not found.warm else {"warm": "yes" if row["warm"] else None}
    metric = found.metric.name
    return with_config({"trial": row["trial"], metric: row[metric], **warm, "seconds": row["duration"]}, row["config"])


def _about(found: "StudyRecord") -> str:
    counts = found.counts_line or "no trial yet"
    lines = [f"{found.name} in {shown_path(found.storage)}: {counts}"]
    lines += [f"  dataset: {found.dataset}"] if found.dataset else []
    lines += [f"  objective: {found.evaluated}" if found.evaluated else "  made by another program"]
    if found.settings:
        lines.append(f"  search: {', '.join(f'{name} {value}' for name, value in found.settings.items())}")
    best = found.best
    if best is not None:
        lines.append(f"  best: {found.metric.name} {found.value(best):.5g}, trial {best.number}")
    return "\n".join([*lines, ""])


def _tell_more(shell: Shell, found: "StudyRecord", every: list[dict[str, Any]]) -> None:
    if found.pruned_line:
        write("")
        shell.say(found.pruned_line)
    tried = [row for row in every if row["warm"]]
    if tried:
        write("\nWarm configurations\n")
        to_value, came = found.metric.to_value, "error" if found.metric.is_plain else found.metric.name
        promised = [None if row["promised"] is None else to_value(row["promised"]) for row in tried]
        pairs = zip(tried, promised, strict=True)
        shell.table([{"trial": row["trial"], "source": row["source"], "promised": value, "came": row[came]} for row, value in pairs])  # fmt: skip
    if found.expected is not None:
        write("")
        shell.say(found.expected_line)


def _tell_unended(shell: Shell, running: list[dict[str, Any]], interrupted: list[dict[str, Any]]) -> None:
    if running:
        write("\nUnder way\n")
        shell.table(running)
    if interrupted:
        write("\nInterrupted, to run again in the next call\n")
        shell.table(interrupted)


def _tell_rest(shell: Shell, found: "StudyRecord", every: list[dict[str, Any]]) -> None:
    failures = [row for row in every if row["note"] and row["status"] != "pruned"]
    if failures:
        write("\nWhat went wrong\n")
        for row in failures[-_SHOWN:]:
            shell.say(f"trial {row['trial']}, {row['status']}: {row['note']}")
    if found.best is not None:
        write("")
        shell.say(
            f"Pictures: warmstart studies plot {in_shell(found.name)} --storage {in_shell(shown_path(found.storage))}"
        )


def plot(
    study: StudyArgument = None,
    *,
    storage: StorageOption = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="The first picture, .png or .svg; the others lie beside it."),
    ] = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Draw a study: best so far, importance, parallel coordinates, slices, learning curves."""
    from pathlib import Path

    from warmstart.plots.style import check_target
    from warmstart.studies.results.study_record import choose_study, file_stem, read_study_record
    from warmstart.studies.state.reading import open_to_read

    shell = Shell(format, quiet=quiet, verbose=verbose)
    if out is not None:
        check_target(Path(out))
    with open_to_read(storage) as store:
        found = read_study_record(store, choose_study(store, study))
    target = Path(out or f"{file_stem(found.name)}.png")
    check_target(target)
    draw(shell, found, target, seed=seed)


def draw(shell: Shell, found: "StudyRecord", target: Any, *, seed: int) -> None:
    """Draw a study, and say which files were written."""
    from warmstart.plots.study import draw_study

    files, notes = draw_study(found, target.parent, stem=target.stem, suffix=target.suffix, seed=seed)
    for note in notes:
        shell.note(note)
    names = [str(file) for file in files]
    document = {"schema_version": 1, "study": found.name, "storage": found.storage, "files": names}
    shell.result(document, [{"file": name} for name in names])


def export(
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="The file to write: .csv, .parquet, .json, or .html with pictures.")
    ],
    study: StudyArgument = None,
    *,
    storage: StorageOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Write the trials of a study as a table, as JSON, or as a page with pictures that needs no network."""
    from pathlib import Path

    from warmstart.studies.results.export import check_export, write_trials
    from warmstart.studies.results.study_record import choose_study, read_study_record
    from warmstart.studies.state.reading import open_to_read

    shell = Shell(format, quiet=quiet, verbose=verbose)
    target = Path(out)
    check_export(target)
    with open_to_read(storage) as store:
        found = read_study_record(store, choose_study(store, study))
    if target.suffix.lower() == ".html":
        from warmstart.plots.study_page import write_page

        for note in write_page(target, [found], title=f"Study {found.name}", seed=seed):
            shell.note(note)
    else:
        write_trials(target, found)
    row = {"study": found.name, "to": out, "trials": len(found.trials)}
    shell.result({"schema_version": 1, "storage": found.storage, **row}, [row])
