"""Locations of history and model: given by name, from the environment, or shipped."""

import os
from collections.abc import Sequence
from pathlib import Path

from warmstart.glance import glance
from warmstart.history_store.errors import MissingPathError, StorageError, UsageError

PathLike = str | os.PathLike[str]
HISTORY_VARIABLE = "WARMSTART_HISTORY"
MODEL_VARIABLE = "WARMSTART_MODEL"
_DEFAULTS = Path(__file__).parent / "defaults"
_OF_WORKLOADS = {"transfer": "transfer"}
"""Shipped files, without suffix, of workloads that have their own."""


def history_path(given: str | os.PathLike[str] | None = None, *, workload: str | None = None) -> Path:
    """Find the history: the given one, else ``$WARMSTART_HISTORY``, else the shipped one; that of a workload where it has its own.

    Whether a named file is there, and what helps if not, is told where it is opened.

    Raises:
        StorageError: when none is named and none was shipped.
    """
    shipped = _DEFAULTS / f"{_OF_WORKLOADS.get(workload or '', 'history')}.h5"
    return _find(given, HISTORY_VARIABLE, shipped, "history", "warmstart history create")


def measured_history(workload: str | None, given: str | os.PathLike[str] | None = None) -> Path:
    """Find a history as `history_path` does, and where a workload is named, one that measured it.

    Raises:
        UsageError: no such workload, or the given history never measured it.
        StorageError: as `history_path`, or what a history that cannot be read raises.
    """
    from warmstart.training.workloads import measures

    usual = history_path(given)
    if workload is None or measures(glance(usual).space_json, workload):
        return usual
    own = history_path(given, workload=workload)
    if own == usual or not measures(glance(own).space_json, workload):
        raise never_measured(workload, usual)
    return own


def never_measured(workload: str, path: Path | str) -> UsageError:
    """Refuse a history for a workload."""
    msg = f"expected a history that measured {workload}, got {path}, which never did. Name one that did, or leave this out."
    return UsageError(msg, param="workload")


def shipped_history() -> Path:
    """Find the history that came with the package.

    Raises:
        StorageError: none did.
    """
    path = _DEFAULTS / "history.h5"
    if not path.is_file():
        msg = f"{path}: expected the shipped history, got nothing. Install warmstart anew."
        raise StorageError(msg)
    return path


def shipped_model() -> Path:
    """Name the model that came with the package, whether it is there or not."""
    return _DEFAULTS / "model.safetensors"


def is_shipped(path: Path) -> bool:
    """Tell whether a path lies in the installed package."""
    return path.resolve().is_relative_to(_DEFAULTS.resolve())


def usual_model(history: Path, given: str | os.PathLike[str] | None = None) -> Path:
    """Find the model that goes with a history: the given one, else ``$WARMSTART_MODEL``, else the shipped one that it was stored with.

    A history of a workload that has a model of its own goes with that one, too, where its images are large enough for it.

    Raises: as `model_path`; what a history that cannot be read raises.
    """
    if given is None and not os.environ.get(MODEL_VARIABLE):
        for workload in _OF_WORKLOADS:
            own = model_path(workload=workload)
            if _goes_with(own, history, workload):
                return own
    return model_path(given)


def _goes_with(model: Path, history: Path, workload: str) -> bool:
    """Tell whether a history holds embeddings by a workload's model, or is of the workload, with images that are large enough."""
    from warmstart.metafeat.model_file import read_header
    from warmstart.training.workloads import measures

    if not history.is_file():
        return False
    header, about = read_header(model), glance(history)
    if header.hash in about.model_hashes or not header.spec.accepts_size(about.stored_size):
        return header.hash in about.model_hashes
    return measures(about.space_json, workload)


def model_path(given: str | os.PathLike[str] | None = None, *, workload: str | None = None) -> Path:
    """Find the meta-feature model: the given one, else ``$WARMSTART_MODEL``, else the shipped one; that of a workload where it has its own.

    Raises:
        MissingPathError: when a named file is not there.
        StorageError: when none is named and none was shipped.
    """
    shipped = _DEFAULTS / f"{_OF_WORKLOADS.get(workload or '', 'model')}.safetensors"
    path = _find(given, MODEL_VARIABLE, shipped, "model", "warmstart train")
    if not path.is_file():
        got = "a folder" if path.is_dir() else "no such file"
        msg = f"{path}: expected a model file, got {got}. Check `model` and ${MODEL_VARIABLE}; `warmstart train` makes one."
        raise MissingPathError(msg)
    return path


def stored_hash(known: Sequence[str], given: str | None) -> str | None:
    """Choose whose stored embeddings of a history to show.

    Args:
        known: hashes of the models whose embeddings the history holds.
        given: a model file named by the caller; else the only one that is known, or among several that of the usual model.

    Returns: the hash; None where that model's embeddings are not stored.

    Raises:
        MissingPathError: the named file is not there.
        ModelError: it is no model.
    """
    if given is None and len(known) <= 1:
        return known[0] if known else None
    from warmstart.metafeat.model_file import read_header

    try:
        usual = read_header(model_path(given)).hash
    except (StorageError, MissingPathError):
        if given is not None:
            raise
        return None
    return usual if usual in known else None


def _find(given: str | os.PathLike[str] | None, variable: str, shipped: Path, what: str, maker: str) -> Path:
    named = given if given is not None else os.environ.get(variable) or None
    if named is not None:
        return Path(named)
    if not shipped.is_file():
        msg = f"{shipped}: expected the shipped {what}, got nothing. Install warmstart anew, or name one with `{what}` or ${variable} (`{maker}` makes one)."
        raise StorageError(msg)
    return shipped
