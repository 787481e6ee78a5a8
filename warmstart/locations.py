"""Where the history and the model lie: named, from the environment, or shipped."""

import os
from pathlib import Path

from history_store.errors import MissingPathError, StorageError

HISTORY_VARIABLE = "WARMSTART_HISTORY"
MODEL_VARIABLE = "WARMSTART_MODEL"
_DEFAULTS = Path(__file__).parent / "defaults"


def history_path(given: str | os.PathLike[str] | None = None) -> Path:
    """Find the history: the given one, else ``$WARMSTART_HISTORY``, else the shipped one.

    Raises:
        MissingPathError: when a named file is not there.
        StorageError: when none is named and none was shipped.
    """
    return _find(given, HISTORY_VARIABLE, _DEFAULTS / "history.h5", "history", "warmstart history create")


def model_path(given: str | os.PathLike[str] | None = None) -> Path:
    """Find the meta-feature model: the given one, else ``$WARMSTART_MODEL``, else the shipped one.

    Raises:
        MissingPathError: when a named file is not there.
        StorageError: when none is named and none was shipped.
    """
    return _find(given, MODEL_VARIABLE, _DEFAULTS / "model.safetensors", "model", "warmstart train")


def _find(given: str | os.PathLike[str] | None, variable: str, shipped: Path, what: str, maker: str) -> Path:
    if given is not None:
        path, where = Path(given), f"--{what}"
    elif os.environ.get(variable):
        path, where = Path(os.environ[variable]), f"${variable}"
    elif shipped.is_file():
        return shipped
    else:
        msg = f"{shipped}: expected the shipped {what}, got nothing. Install warmstart anew, or name one with --{what} ({maker} makes one)."
        raise StorageError(msg)
    if not path.exists():
        msg = f"{path}: expected a {what} file ({where}), got no such file. Check the path; {maker} makes one."
        raise MissingPathError(msg)
    if path.is_dir():
        msg = f"{path}: expected a {what} file ({where}), got a folder. Name the file in it."
        raise MissingPathError(msg)
    return path
