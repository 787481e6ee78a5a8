"""Paths of history and model (given, from the environment, or shipped), and the fields of a history that select its model."""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.history_store.errors import MissingPathError, StorageError, UsageError

if TYPE_CHECKING:
    from warmstart.history_store.file.base import Glance

PathLike = str | os.PathLike[str]
HISTORY_VARIABLE = "WARMSTART_HISTORY"
MODEL_VARIABLE = "WARMSTART_MODEL"
_DEFAULTS = Path(__file__).parent / "defaults"
_OF_WORKLOADS = {"transfer": "transfer"}
"""Names, without suffix, of the shipped files of workloads with their own."""


def history_path(path: str | os.PathLike[str] | None = None, *, workload: str | None = None) -> Path:
    """Return the path of the history: the given one, else ``$WARMSTART_HISTORY``, else the shipped one (of a workload, if any).

    A missing file is reported when it is opened.

    Raises:
        StorageError: none given and none shipped.
    """
    shipped = _DEFAULTS / f"{_OF_WORKLOADS.get(workload or '', 'history')}.h5"
    return _resolve(path, HISTORY_VARIABLE, shipped, "history", "warmstart history create")


def never_measured(workload: str, path: Path | str) -> UsageError:
    """Return the error for a history that never measured a workload."""
    msg = f"expected a history that measured {workload}, got {path}, which never did. Name one that did, or leave this out."
    return UsageError(msg, param="workload")


def shipped_history() -> Path:
    """Return the path of the shipped history.

    Raises:
        StorageError: not installed.
    """
    path = _DEFAULTS / "history.h5"
    if not path.is_file():
        msg = f"{path}: expected the shipped history, got nothing. Install warmstart anew."
        raise StorageError(msg)
    return path


def shipped_model() -> Path:
    """Return the path of the shipped model, without checking that it exists."""
    return _DEFAULTS / "model.safetensors"


def is_shipped(path: Path) -> bool:
    """Tell whether a path lies in the installed package."""
    return path.resolve().is_relative_to(_DEFAULTS.resolve())


def usual_model(history: Path, path: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a history's model: the given one, else ``$WARMSTART_MODEL``, else the shipped one that fits.

    A history of a workload with its own shipped model uses that one, if its images are large enough.

    Raises: as `model_path`; what a history that cannot be read raises.
    """
    if path is None and not os.environ.get(MODEL_VARIABLE):
        for workload in _OF_WORKLOADS:
            of_workload = model_path(workload=workload)
            if _goes_with(of_workload, history, workload):
                return of_workload
    return model_path(path)


def _goes_with(model: Path, history: Path, workload: str) -> bool:
    """Tell whether a workload's model fits a history: by its embeddings, or by workload and image size."""
    from warmstart.metafeat.model_file import read_header
    from warmstart.training.workloads import measures

    if not history.is_file():
        return False
    header, about = read_header(model), glance(history)
    if header.hash in about.model_hashes or not header.spec.accepts_size(about.stored_size):
        return header.hash in about.model_hashes
    return measures(about.space_json, workload)


def model_path(named: str | os.PathLike[str] | None = None, *, workload: str | None = None) -> Path:
    """Return the path of the model: the given one, else ``$WARMSTART_MODEL``, else the shipped one (of a workload, if any).

    Raises:
        MissingPathError: a given file that is not there.
        StorageError: none given and none shipped.
    """
    shipped = _DEFAULTS / f"{_OF_WORKLOADS.get(workload or '', 'model')}.safetensors"
    path = _resolve(named, MODEL_VARIABLE, shipped, "model", "warmstart fit-similarity")
    if not path.is_file():
        got = "a folder" if path.is_dir() else "no such file"
        msg = f"{path}: expected a model file, got {got}. Check `model` and ${MODEL_VARIABLE}; `warmstart fit-similarity` makes one."
        raise MissingPathError(msg)
    return path


def stored_hash(hashes: Sequence[str], model: str | None) -> str | None:
    """Choose the model whose stored embeddings of a history to show.

    Args:
        hashes: hashes of the models with stored embeddings.
        model: a model file; else the only stored one, or of several the one of the usual model.

    Returns: the hash; None if that model's embeddings are not stored.

    Raises:
        MissingPathError: the given file is not there.
        ModelError: not a model.
    """
    if model is None and len(hashes) <= 1:
        return hashes[0] if hashes else None
    from warmstart.metafeat.model_file import read_header

    try:
        usual = read_header(model_path(model)).hash
    except (StorageError, MissingPathError):
        if model is not None:
            raise
        return None
    return usual if usual in hashes else None


def _resolve(path: str | os.PathLike[str] | None, variable: str, shipped: Path, kind: str, maker: str) -> Path:
    source = path if path is not None else os.environ.get(variable) or None
    if source is not None:
        return Path(source)
    if not shipped.is_file():
        msg = f"{shipped}: expected the shipped {kind}, got nothing. Install warmstart anew, or name one with `{kind}` or ${variable} (`{maker}` makes one)."
        raise StorageError(msg)
    return shipped


def glance(history: Path) -> "Glance":
    """Read a few elements of a history, once for each state of its file, as opening it whole is slow.

    Raises: what `History.open` raises.
    """
    return _glance(history, _state(history))


@lru_cache(maxsize=8)
def _glance(history: Path, state: object) -> "Glance":  # noqa: ARG001  the key of the cache
    from warmstart.history_store.file.base import read_glance

    return read_glance(history)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
