"""The file of a classifier over several calls: a better one replaces it, one of other pictures is kept beside it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart.arguments import check_replaceable
from warmstart.metafeat.files import replace_file
from warmstart.training.workloads.classifier_file import read_header

_JUDGED = "classifier.json"
"""File in the study's folder: how the saved classifier was judged, for a call whose own is no better."""


@dataclass(slots=True)
class Keeper:
    """Decides whether a new classifier takes the place of the file.

    Attributes:
        path: of the file.
        on_message: called with each line.
        stays: whether the file of an earlier call stayed.
    """

    path: Path
    on_message: Callable[[str], object]
    stays: bool = field(default=False, init=False)

    @property
    def new(self) -> Path:
        """Return the path at which a new classifier is written first."""
        return self.path.with_name(f".{self.path.stem}.new.safetensors")

    def check(self) -> None:
        """Check that the file is none of something else; raises `UsageError`."""
        check_replaceable("out", self.path, read_header, "a classifier")

    def accept(self, *, is_of_study: bool) -> bool:
        """Put a new classifier in its place, unless that has one at least as good; return whether there is one.

        Args:
            is_of_study: whether the file there is of the same study.
        """
        is_there = self.path.is_file() and self.path.stat().st_size > 0
        if not self.new.is_file():
            self.stays = is_there and is_of_study
            return self.stays
        if is_there:
            before, after = read_header(self.path), read_header(self.new)
            if not is_of_study or any(before.get(name) != after.get(name) for name in ("dataset", "classes")):
                self._move_away()
            elif float(before["error"]) <= float(after["error"]):
                self.stays = True
                self.new.unlink()
                return True
        self.new.replace(self.path)
        return True

    def _move_away(self) -> None:
        """Keep the classifier of other pictures, or of another study, under the next free name."""
        names = (self.path.with_stem(f"{self.path.stem}-{number}") for number in itertools.count(1))
        backup = next(name for name in names if not name.exists())
        self.path.rename(backup)
        self.on_message(f"{self.path.name} was of other pictures, or of another study: it is kept as {backup.name}.")


def store_judged(folder: Path, record: Mapping[str, Any]) -> None:
    """Store how the saved classifier was judged."""
    replace_file(folder / _JUDGED, (json.dumps(record) + "\n").encode(), durable=False)


def judged_before(folder: Path) -> dict[str, Any] | None:
    """Return what `store_judged` stored; None without it."""
    try:
        record: dict[str, Any] = json.loads((folder / _JUDGED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record
