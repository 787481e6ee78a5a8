"""A folder for each trial: its log, its record, and whatever a script keeps there, such as checkpoints."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from warmstart.history_store.errors import StorageError
from warmstart.history_store.wording import in_words
from warmstart.studies.execution.tracking import NO_TRACKING, Tracking
from warmstart.studies.objectives.base import FOLDER, SEED, TRIAL

RECORD, OUTPUT = "trial.json", "output.log"
"""Files in a trial's folder: what the trial is, and what it printed."""
LAST = 5
"""Last lines of a trial that are shown."""
_TAIL = 20_000
"""Bytes at the end of a log in which they are looked for."""


@dataclass(frozen=True, slots=True)
class TrialFolder:
    """A trial and its folder, as its process sees them.

    Attributes:
        number: of the trial.
        path: of the folder.
    """

    number: int
    path: Path

    @property
    def output(self) -> Path:
        """Return the path of the trial's log."""
        return self.path / OUTPUT


def set_variables(folder: TrialFolder | None, seed: int) -> None:
    """Set the environment variables of a trial in this process."""
    values = {SEED: str(seed)}
    if folder is not None:
        values |= {TRIAL: str(folder.number), FOLDER: str(folder.path)}
    for name in (TRIAL, FOLDER, SEED):
        os.environ.pop(name, None)
    os.environ.update(values)


@dataclass(frozen=True, slots=True)
class TrialOutputs:
    """Where the trials of a study, or of several, write.

    Attributes:
        log: of all trials together; None = none.
        path: of the folder in which the trials' folders lie; None = they have none.
        is_shared: whether several studies have their trials there.
        tracking: by other programs.
    """

    log: Path | None = None
    path: Path | None = None
    is_shared: bool = False
    tracking: Tracking = NO_TRACKING

    def heard_by(self, say: Callable[[str], object]) -> Self:
        """Return the same, with a function that is called with lines on trackers."""
        return replace(self, tracking=replace(self.tracking, say=say))

    def make_folder(self, study: str, number: int, seed: int, config: Mapping[str, Any]) -> TrialFolder | None:
        """Make the folder of a trial, or return the one that an interrupted run of the same trial left.

        A folder of another trial, of an earlier study of the name, is left alone: a checkpoint in it is not this trial's.

        Raises:
            StorageError: it cannot be made.
        """
        if self.path is None:
            return None
        record = json.loads(json.dumps({"study": study, "trial": number, "seed": seed, "config": dict(config)}))
        try:
            for path in self._candidates(self.path, study, number):
                before = _read_record(path)
                if before is None:
                    path.mkdir(parents=True, exist_ok=True)
                    (path / RECORD).write_text(json.dumps(record), encoding="utf-8")
                if before in (None, record):
                    return TrialFolder(number, path)
        except OSError as error:
            msg = f"{self.path}: expected a folder in which trials can have theirs, got {in_words(error)}. Free or correct it, and run the same command again."
            raise StorageError(msg) from error
        raise AssertionError

    def last_lines(self, study: str, number: int) -> list[str]:
        """Return the last lines that a trial printed; none if its log cannot be read."""
        if self.path is None:
            return []
        candidates = self._candidates(self.path, study, number)
        paths = itertools.takewhile(lambda path: (path / RECORD).is_file(), candidates)
        with contextlib.suppress(OSError, IndexError):
            with (list(paths)[-1] / OUTPUT).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
                text = file.read().decode(errors="replace")
            return [line.rstrip().expandtabs()[:200] for line in text.splitlines() if line.strip()][-LAST:]
        return []

    def _candidates(self, folder: Path, study: str, number: int) -> Iterator[Path]:
        word = re.sub(r"[^\w.-]+", "-", study).strip(".")
        first = f"{word}-{number}" if self.is_shared else str(number)
        yield folder / first
        for other in itertools.count(2):
            yield folder / f"{first}-{other}"


NO_OUTPUTS = TrialOutputs()
"""Trials of which nothing is kept."""


def remove_trial_folders(path: Path, study: str) -> None:
    """Remove the folders of a study's trials; those of other studies, and what cannot be removed, stay."""
    for record in path.glob(f"*/{RECORD}"):
        if (_read_record(record.parent) or {}).get("study") == study:
            shutil.rmtree(record.parent, ignore_errors=True)
    with contextlib.suppress(OSError):  # not there, or not empty
        path.rmdir()


def _read_record(folder: Path) -> dict[str, Any] | None:
    """Read the record of a trial's folder; None without one."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
