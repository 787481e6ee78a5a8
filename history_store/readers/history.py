"""The images of one dataset inside a history: ``FILE.h5::name``."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np

from warmstart.history_store.canonical import home_path
from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.history_store.history import History
from warmstart.history_store.readers.arrays import ArraySource, Block
from warmstart.history_store.readers.labels import encode_labels
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.splits import SPLIT_NAMES


def open_stored(path: Path, name: str) -> ArraySource:
    """Open a dataset of a history as a collection; its parts are its splits.

    Raises:
        MissingPathError: when the file does not exist.
        UsageError: when the history has no dataset of that name.
        ImagesMissingError: when the history holds no images of it.
        StorageError: when the file is damaged or of another version.
    """
    if not path.is_file():
        msg = f"{path}: expected a history file, got a path that does not exist. Check the part before '::'."
        raise MissingPathError(msg)
    with History.open(path) as history:
        if name not in history.names:
            near = difflib.get_close_matches(name, history.names, n=3) or list(history.names[:5])
            step = f"Did you mean {', '.join(near)}?" if near else "Add one with warmstart history add."
            msg = f"{path}: expected the name of a dataset in it, got {name!r}. {step}"
            raise UsageError(msg)
        stored = history.images(name)
    # No class is dropped in a complete dataset; one that is absent here would leave a gap in the numbering.
    labelling = encode_labels(stored.labels, f"{path}::{name}", n=len(stored.labels), class_names=stored.class_names)
    splits = {split: np.flatnonzero(stored.split == code) for code, split in enumerate(SPLIT_NAMES)}
    return ArraySource(
        f"{path}::{name}",
        "history",
        blocks=[Block(f"{path}::{name}", len(stored.labels), lambda: stored.array)],
        labels=labelling.labels,
        class_names=labelling.class_names,
        splits={split: rows.astype(np.int64) for split, rows in splits.items() if len(rows)},
    )


def _open_location(location: Place) -> ArraySource:
    file, _, name = location.text.partition("::")
    return open_stored(home_path(file), name)


READER = Reader(lambda location: location.path is None and "::" in location.text, _open_location)
