"""The report that `warmstart evaluate` wrote, read back."""

import json
from pathlib import Path
from typing import Any

from history_store.errors import DataError, MissingPathError

_VERSION = 1


def read_report(path: Path) -> dict[str, Any]:
    """Read a report.

    Raises:
        MissingPathError: nothing there.
        DataError: no JSON, no report, or one of another version.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        msg = f"{path}: expected a report of `warmstart evaluate --out FILE.json`, got nothing there. Check the path."
        raise MissingPathError(msg) from error
    except (OSError, ValueError) as error:
        msg = f"{path}: expected a report of `warmstart evaluate --out FILE.json`, got a file that cannot be read as JSON ({error}). Evaluate again."
        raise DataError(msg) from error
    if not isinstance(found, dict) or not isinstance(found.get("rivals"), dict) or not found["rivals"]:
        msg = f"{path}: expected a report of `warmstart evaluate --out FILE.json`, got JSON without rivals. Evaluate again."
        raise DataError(msg)
    if found.get("schema_version") != _VERSION:
        msg = f"{path}: expected a report with schema_version {_VERSION}, got {found.get('schema_version')!r}. Evaluate again, or upgrade warmstart."
        raise DataError(msg)
    return found
