"""The file of a classifier over several calls: a better one replaces it, one of other pictures is kept beside it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart.metafeat.files import replace_file
from warmstart.training.workloads import Classifier
from warmstart.training.workloads.classifier_file import read_header

_JUDGED = "classifier.json"
"""File in the study's folder: how the saved classifier was judged, for a call whose own is no better."""


@dataclass(slots=True)
class Keeper:
    """Decides whether a new classifier is written.

    Attributes:
        path: of the file.
        on_message: called with each line.
        stays: whether the file of an earlier call stayed.
    """

    path: Path
    on_message: Callable[[str], object]
    stays: bool = field(default=False, init=False)

    def may_replace(self, new: Classifier) -> bool:
        """Return whether a new classifier is to be written; move one of other pictures out of its way."""
        if not self.path.exists() or not self.path.stat().st_size:
            return True
        header = read_header(self.path)
        if header.get("dataset") != new.dataset or header.get("classes") != list(new.classes):
            kept = next(free for number in itertools.count(1) if not (free := self.path.with_stem(f"{self.path.stem}-{number}")).exists())  # fmt: skip
            self.path.rename(kept)
            self.on_message(f"{self.path.name} was of other pictures: it is kept as {kept.name}.")
            return True
        self.stays = float(header["error"]) <= new.error
        return not self.stays


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
