"""Paths of a study's report, the files beside it, and the log of its trials."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Collection, Set
from pathlib import Path
from typing import Any, Literal

from warmstart.arguments import check_replaceable
from warmstart.exports import START
from warmstart.history_store.errors import MissingPathError, StorageError, UsageError
from warmstart.locations import PathLike
from warmstart.studies.execution.joined_log import TITLE as TRIAL_TITLE
from warmstart.studies.execution.trial_folder import remove_trial_folders
from warmstart.studies.results.report import JOINT_TITLE, TITLE
from warmstart.studies.results.study_record import is_report
from warmstart.studies.state.removal import remove_study
from warmstart.studies.state.storage import Store

_BESIDE = (".json", ".html", ".log")
"""Endings of the files that are written beside a report."""
TRIALS = "trials"
"""Folder beside a report in which each trial has one."""
_LOGS = ("", ".log", ".txt", ".out", ".err")
"""Endings of files to which a log may be appended, whatever they contain."""


def check_log(log: PathLike | None) -> None:
    """Check that the log of the trials can be written.

    Raises:
        UsageError: a file that is no log, such as a script.
        MissingPathError, StorageError: as `check_writable`.
    """
    if log is None:
        return
    check_writable("log", log)
    path = Path(log)
    if path.suffix.lower() in _LOGS or not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(len(TRIAL_TITLE))
    if head not in (b"", TRIAL_TITLE.encode()):
        msg = f"expected a new file, or a log to append to, got {path}, which is something else. Name a .log file."
        raise UsageError(msg, param="log")


def check_report_path(report: PathLike | Literal[True] | None) -> None:
    """Check that a report and the files beside it can be written.

    Raises:
        UsageError: a file that one of these would overwrite.
        MissingPathError: a folder, or a file in a folder that does not exist.
        StorageError: the folder or file is read-only.
    """
    if report is None or report is True:
        return
    check_writable("report", report)
    path = Path(report)
    if path.suffix.lower() in _BESIDE:
        msg = f"expected a file for Markdown, got {os.fspath(report)}; {', '.join(_BESIDE)} are for what lies beside it. Give a .md file."
        raise UsageError(msg, param="report")
    check_replaceable("report", path, _read_markdown, "a report")
    check_replaceable("report", path.with_suffix(".json"), _read_numbers, "the JSON of a report")
    if not path.exists():
        check_replaceable("report", path.with_suffix(".html"), _read_page, "the page of a report")
    check_writable("report", log_beside(report))


def check_writable(name: str, path: PathLike) -> None:
    """Check that a file can be written.

    Raises:
        MissingPathError: a folder, or a file in a folder that does not exist.
        StorageError: the folder or file is read-only.
    """
    folder = Path(path).absolute().parent
    if Path(path).is_dir() or not folder.is_dir():
        msg = f"expected a file in a folder that is there, got {os.fspath(path)}. Make the folder first, and name a file in it."
        raise MissingPathError(msg, param=name)
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        msg = f"expected a place that can be written, got {os.fspath(path)}, which is read-only. Name another file."
        raise StorageError(msg, param=name)


def check_distinct(**paths: PathLike | Literal[True] | None) -> None:
    """Check that the files of a study differ, with its storage and those beside its report; raises `UsageError`."""
    owners: dict[Path, str] = {}
    for name, path in paths.items():
        if not isinstance(path, str | os.PathLike):
            continue
        resolved = Path(path).resolve()
        beside = {resolved.with_suffix(ending) for ending in (".json", ".html")} if name == "report" else set()
        if name == "report" and paths.get("log") is None:
            beside.add(log_beside(resolved))
        for file in {resolved, *beside}:
            if file in owners:
                msg = (
                    f"expected a file of its own, got {file.name}, which `{owners[file]}` takes too. Name another one."
                )
                raise UsageError(msg, param=name)
            owners[file] = name


def study_folder(storage: Path | None, name: str, members: Collection[str] = ()) -> Path:
    """Return the folder of a study's report and log: `STORAGE-reports/STUDY`; for a server in the working folder.

    Where another study uses that folder, as the names differ in signs only, it is the next free one: `STUDY-2`.

    Args:
        storage: file of the studies; None = a database server's.
        name: of the study, or of several studies together.
        members: names of these studies.
    """
    beside = storage or Path.cwd() / "warmstart"
    first = beside.with_name(f"{beside.stem}-reports") / re.sub(r"[^\w.-]+", "-", name).strip(".")
    folders = itertools.chain([first], (first.with_name(f"{first.name}-{n}") for n in itertools.count(2)))
    return next(folder for folder in folders if _is_free_for(folder, storage, set(members) or {name}))


def delete_study(store: Store, name: str) -> int:
    """Remove a study, its trials and their folders; return the number of trials. Raises as `remove_study`."""
    n_trials = remove_study(store, name)
    remove_trial_folders(study_folder(store.path, name) / TRIALS, name)
    return n_trials


def log_beside(report: PathLike) -> Path:
    """Return the path of the trials' log beside a report."""
    return Path(report).with_name("trials.log")


def _is_free_for(folder: Path, storage: Path | None, studies: Set[str]) -> bool:
    """Tell whether a folder has no report of other studies or of another storage."""
    try:
        report = _read_numbers(folder / "report.json")
    except (OSError, ValueError):
        return True
    storage_name = Path(str(report.get("storage"))).name  # the folder as a whole may have moved
    names = {record.get("study") for record in report.get("studies", [report])}
    return names == studies and (storage is None or storage_name == storage.name)


def _read_markdown(path: Path) -> None:
    """Check the first line of a report; raises `ValueError` if it is no report's."""
    with path.open(encoding="utf-8") as file:
        if not file.readline().startswith((TITLE, JOINT_TITLE)):
            raise ValueError


def _read_page(path: Path) -> None:
    """Check the first lines of a page; raises `ValueError` if it is no report's."""
    with path.open(encoding="utf-8") as file:
        if file.read(len(START)) != START:
            raise ValueError


def _read_numbers(path: Path) -> dict[str, Any]:
    """Read the JSON of a report; raises `ValueError` if it is no report's."""
    record = json.loads(path.read_text(encoding="utf-8"))
    if not is_report(record):
        raise ValueError
    return dict(record)
