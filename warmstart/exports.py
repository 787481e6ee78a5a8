"""Whether an export may be written where a person said: it replaces an older export, and nothing else."""

from functools import partial
from pathlib import Path

from warmstart.arguments import check_replaceable
from warmstart.history_store.json_text import parse_json

COLUMNS = {"dataset", "status", "error", "duration", "seed"}
"""Of every table of evaluations or trials."""
START = '<!doctype html>\n<html lang="en"><head>'
"""How pages begin."""
_HEAD = 1_000_000
"""Characters of the first line, at most."""
_STUDY, _BESIDE = {"study", "settings", "running"}, {"format", "datasets"}
"""Keys of the JSON of a study, which its report does not all have, and of the one beside a table of evaluations."""


def check_exportable(path: Path, *beside: Path) -> None:
    """Check that an export replaces nothing but an older one.

    Args:
        path: of the table, the JSON or the page.
        beside: what is written with it.

    Raises:
        UsageError: something else lies there.
    """
    for each, keys in ((path, _STUDY), *((other, _BESIDE) for other in beside)):
        check_replaceable("out", each, partial(_read_export, keys=keys), "an export")


def _read_export(path: Path, *, keys: set[str]) -> None:
    """Look into an export; raises `OSError` or `ValueError` where it is something else, as JSON without some keys is."""
    kind = path.suffix.lower()
    if kind in (".parquet", ".pq"):
        try:
            from pyarrow import parquet
        except ImportError:  # nothing is written without it, either
            return
        is_ours = set(parquet.read_schema(path).names) >= COLUMNS
    elif kind == ".json":
        found = parse_json(path.read_text(encoding="utf-8"))
        is_ours = isinstance(found, dict) and keys <= found.keys()
    else:
        with path.open(encoding="utf-8") as file:
            head = file.read(len(START)) if kind == ".html" else file.readline(_HEAD)
        is_ours = head == START if kind == ".html" else set(head.strip().split(",")) >= COLUMNS
    if not is_ours:
        raise ValueError
