"""Read reports of `warmstart evaluate`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, MissingPathError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.wording import in_words

PARTS = ("mean", "low", "high")
_VERSION = 1
_HEAD = ("protocol", "n_datasets", "n_groups", "n_configs", "times", "horizon")


def read_reports(path: Path) -> list[dict[str, Any]]:
    """Read the reports of a file, one or several.

    Raises:
        MissingPathError: no such file.
        DataError: not JSON, not a report, or another version.
    """
    document = read_json(path, expected="a report of `warmstart evaluate --out FILE.json`")
    is_object = isinstance(document, dict)
    if is_object and document.get("schema_version") != _VERSION:
        msg = f"{path}: expected a report with schema_version {_VERSION}, got {document.get('schema_version')!r}. Evaluate again, or upgrade warmstart."
        raise DataError(msg)
    reports = document.get("reports", [document]) if is_object else []
    if not reports or not all(
        isinstance(report, dict) and isinstance(report.get("rivals"), dict) for report in reports
    ):
        msg = f"{path}: expected a report of `warmstart evaluate --out FILE.json`, got JSON without rivals. Evaluate again."
        raise DataError(msg)
    return list(reports)


def read_json(path: Path, *, expected: str) -> Any:
    """Read a JSON file.

    Raises:
        MissingPathError: no such file.
        DataError: no JSON.
    """
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        msg = f"{path}: expected {expected}, got nothing there. Check the path."
        raise MissingPathError(msg) from error
    except (OSError, ValueError) as error:
        msg = f"{path}: expected {expected}, got {in_words(error)}. Write it again."
        raise DataError(msg) from error


def check_report(report: Mapping[str, Any]) -> None:
    """Check that a report has all that is drawn.

    Raises:
        DataError: it has not; the message names what is lacking.
    """
    missing = [key for key in _HEAD if key not in report]
    for name, method in report.get("rivals", {}).items():
        curve = method.get("curve", {})
        missing += [f"rivals/{name}/curve/{part}" for part in PARTS if not isinstance(curve.get(part), list)]
    for number, difference in enumerate(report.get("differences", ())):
        missing += [
            f"differences/{number}/{key}" for key in ("first", "second", "measure", *PARTS) if key not in difference
        ]
    if missing or not report.get("rivals"):
        msg = f"plot regret: expected a report of `warmstart evaluate --out FILE.json`, got one without {(missing or ['rivals'])[0]}. Evaluate again with this version."
        raise DataError(msg)


def table_stems(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the pictures of reports by their tables: the stem of each, with a number from the second of a name on."""
    stems = [Path(report.get("table", "report")).stem for report in reports]
    counts = [stems[: number + 1].count(stem) for number, stem in enumerate(stems)]
    return [stem if count == 1 else f"{stem}-{count}" for stem, count in zip(stems, counts, strict=True)]
