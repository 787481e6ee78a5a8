"""Read JSON files of other tools, with the file's name in errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, MissingPathError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import ordinary_file
from warmstart.history_store.wording import in_words


def read_json(path: Path, content: str) -> Any:
    """Read a JSON file; `NaN` and `Infinity` are allowed, since Python's writer makes them.

    Args:
        path: of the file.
        content: expected content, for messages.

    Raises:
        MissingPathError: it does not exist, or cannot be opened.
        DataError: no JSON.
    """
    try:
        return parse_json(ordinary_file(path).read_bytes())
    except OSError as error:
        msg = f"{path}: expected {content}, got {in_words(error)}. Check the path."
        raise MissingPathError(msg) from error
    except ValueError as error:
        msg = f"{path}: expected {content}, got {in_words(error)}. Write it anew."
        raise DataError(msg) from error
