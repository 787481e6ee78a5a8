"""Check that an export replaces nothing but an older export."""

from functools import partial
from pathlib import Path

from warmstart.arguments import check_replaceable
from warmstart.history_store.json_text import parse_json

COLUMNS = {"dataset", "status", "error", "duration", "seed"}
"""Columns of every table of evaluations or trials."""
START = '<!doctype html>\n<html lang="en"><head>'
"""Beginning of HTML pages."""
_HEAD = 1_000_000
"""Most characters read of the first line."""
_STUDY, _COMPANION = {"study", "settings", "running"}, {"format", "datasets"}
"""Keys of a study's JSON export, which tell it from its report, and of the JSON file of a table of evaluations."""


def check_exportable(path: Path, *companions: Path) -> None:
    """Check that an export replaces nothing but an older one.

    Args:
        path: of the table, the JSON or the page.
        companions: further files of the export.

    Raises:
        UsageError: another file exists there.
    """
    for file, keys in ((path, _STUDY), *((companion, _COMPANION) for companion in companions)):
        check_replaceable("out", file, partial(_read_export, keys=keys), "an export")


def _read_export(path: Path, *, keys: set[str]) -> None:
    """Read the head of an export; raises `OSError` or `ValueError` for another file, as JSON without `keys`."""
    kind = path.suffix.lower()
    if kind in (".parquet", ".pq"):
        try:
            from pyarrow import parquet
        except ImportError:  # writing needs it too
            return
        is_ours = set(parquet.read_schema(path).names) >= COLUMNS
    elif kind == ".json":
        document = parse_json(path.read_text(encoding="utf-8"))
        is_ours = isinstance(document, dict) and keys <= document.keys()
    else:
        with path.open(encoding="utf-8") as file:
            head = file.read(len(START)) if kind == ".html" else file.readline(_HEAD)
        is_ours = head == START if kind == ".html" else set(head.strip().split(",")) >= COLUMNS
    if not is_ours:
        raise ValueError
