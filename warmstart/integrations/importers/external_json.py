"""JSON files of other tools: read, or refused with the file's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, MissingPathError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.wording import in_words


def read_json(path: Path, what: str) -> Any:
    """Read a JSON file; `NaN` and `Infinity` are taken, as Python's own writer makes them.

    Args:
        path: of the file.
        what: should be in it, for messages.

    Raises:
        MissingPathError: nothing there, or it cannot be opened.
        DataError: no JSON.
    """
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path}: expected {what}, got {in_words(error)}. Check the path."
        raise MissingPathError(msg) from error
    except ValueError as error:
        msg = f"{path}: expected {what}, got {in_words(error)}. Write it anew."
        raise DataError(msg) from error
