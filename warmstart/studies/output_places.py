"""Where a study puts its report, the pictures and numbers beside that, and the log of its trials."""

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
from warmstart.studies.execution.trial_process import TRIAL_TITLE
from warmstart.studies.results.report import JOINT_TITLE, TITLE
from warmstart.studies.results.study_record import is_report

_BESIDE = (".json", ".html", ".log")
"""Endings of what is written beside a report."""
_LOGS = ("", ".log", ".txt", ".out", ".err")
"""Endings of files to which a log may be appended whatever they hold."""


def check_log(log: PathLike | None) -> None:
    """Check that there is a place for what the trials print.

    Raises:
        UsageError: a file with something that is no log, such as a script.
        MissingPathError, StorageError: as `check_place`.
    """
    if log is None:
        return
    check_place("log", log)
    place = Path(log)
    if place.suffix.lower() in _LOGS or not place.is_file():
        return
    with place.open("rb") as file:
        begins = file.read(len(TRIAL_TITLE))
    if begins not in (b"", TRIAL_TITLE.encode()):
        msg = f"expected a new file, or a log to append to, got {place}, which is something else. Name a .log file."
        raise UsageError(msg, param="log")


def check_report_place(report: PathLike | Literal[True] | None) -> None:
    """Check that there is a place for a report and for what is written beside it.

    Raises:
        UsageError: a file that one of these would overwrite.
        MissingPathError: a folder, or a file in one that is not there.
        StorageError: nothing can be written there.
    """
    if report is None or report is True:
        return
    check_place("report", report)
    place = Path(report)
    if place.suffix.lower() in _BESIDE:
        msg = f"expected a file for Markdown, got {os.fspath(report)}; {', '.join(_BESIDE)} are for what lies beside it. Give a .md file."
        raise UsageError(msg, param="report")
    check_replaceable("report", place, _read_markdown, "a report")
    check_replaceable("report", place.with_suffix(".json"), _read_numbers, "the JSON of a report")
    if not place.exists():
        check_replaceable("report", place.with_suffix(".html"), _read_page, "the page of a report")
    check_place("report", log_beside(report))


def check_place(name: str, path: PathLike) -> None:
    """Check that a file can be written.

    Raises:
        MissingPathError: a folder, or a file in one that is not there.
        StorageError: nothing can be written there.
    """
    folder = Path(path).absolute().parent
    if Path(path).is_dir() or not folder.is_dir():
        msg = f"expected a file in a folder that is there, got {os.fspath(path)}. Make the folder first, and name a file in it."
        raise MissingPathError(msg, param=name)
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        msg = f"expected a place that can be written, got {os.fspath(path)}, which is read-only. Name another file."
        raise StorageError(msg, param=name)


def check_apart(**places: PathLike | Literal[True] | None) -> None:
    """Check that no two of the files that a study writes, its storage and what lies beside its report among them, are one; raises `UsageError`."""
    taken: dict[Path, str] = {}
    for name, path in places.items():
        if not isinstance(path, str | os.PathLike):
            continue
        whole = Path(path).resolve()
        beside = {whole.with_suffix(ending) for ending in (".json", ".html")} if name == "report" else set()
        if name == "report" and places.get("log") is None:
            beside.add(log_beside(whole))
        for each in {whole, *beside}:
            if each in taken:
                msg = f"expected a file of its own, got {each.name}, which `{taken[each]}` takes too. Name another one."
                raise UsageError(msg, param=name)
            taken[each] = name


def study_folder(storage: Path | None, name: str, members: Collection[str] = ()) -> Path:
    """Name the folder of a study's report and log: `STORAGE-reports/STUDY` beside a local storage, else in the working folder.

    Where another study has that, as its name differs in signs only, it is the next one that is free: `STUDY-2`.

    Args:
        storage: file of the studies; None = a server's.
        name: of the study, or of several together.
        members: names of these.
    """
    beside = storage or Path.cwd() / "warmstart"
    first = beside.with_name(f"{beside.stem}-reports") / re.sub(r"[^\w.-]+", "-", name).strip(".")
    places = itertools.chain([first], (first.with_name(f"{first.name}-{n}") for n in itertools.count(2)))
    return next(place for place in places if _may_hold(place, storage, set(members) or {name}))


def log_beside(report: PathLike) -> Path:
    """Name the log of the trials beside a report."""
    return Path(report).with_name("trials.log")


def _may_hold(folder: Path, storage: Path | None, studies: Set[str]) -> bool:
    """Tell whether no report of other studies, or of another storage, lies in a folder."""
    try:
        found = _read_numbers(folder / "report.json")
    except (OSError, ValueError):
        return True
    kept_in = Path(str(found.get("storage"))).name  # the folder as a whole may have moved
    told = {each.get("study") for each in found.get("studies", [found])}
    return told == studies and (storage is None or kept_in == storage.name)


def _read_markdown(path: Path) -> None:
    """Read the first line of a report; raises `ValueError` where it is none."""
    with path.open(encoding="utf-8") as file:
        if not file.readline().startswith((TITLE, JOINT_TITLE)):
            raise ValueError


def _read_page(path: Path) -> None:
    """Read the first lines of a page; raises `ValueError` where it is none of ours."""
    with path.open(encoding="utf-8") as file:
        if file.read(len(START)) != START:
            raise ValueError


def _read_numbers(path: Path) -> dict[str, Any]:
    """Read the JSON of a report; raises `ValueError` where it is none."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not is_report(found):
        raise ValueError
    return dict(found)
