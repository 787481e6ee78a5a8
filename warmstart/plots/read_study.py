"""Read the input of `plot run`: a study of a storage or report, or a saved run of the optimiser."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warmstart.history_store.canonical import home_path
from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.wording import in_words
from warmstart.studies.results.study_record import (
    StudyRecord,
    choose_study,
    is_report,
    is_storage,
    read_study_record,
    records_of_report,
)
from warmstart.studies.state.reading import open_to_read


def read_run_or_study(source: str, *, study: str | None = None) -> StudyRecord | dict[str, Any]:
    """Read a study from a storage or a report, or the document of a saved run.

    Args:
        source: path or URL of a storage, `STORAGE::STUDY`, a report's `.json` or `.md`, or a saved run.
        study: its name, where there are several.

    Raises:
        MissingPathError: no such file.
        UsageError: a study name for a run, or none for several studies.
        DataError: another kind of file, or no such study.
        StorageError: a storage that cannot be read.
    """
    head, separator, tail = source.partition("::")
    if separator and not Path(source).exists():
        source, study = head, study or tail
    path = home_path(source)
    if "://" in source or (path.is_file() and is_storage(path)):
        with open_to_read(source) as store:
            return read_study_record(store, choose_study(store, study))
    if path.suffix.lower() in (".md", ".html"):
        path = path.with_suffix(".json")
    document = read_json(
        path, expected="a storage of studies, a report of `warmstart tune`, or a run, what Optimizer.to_dict gave"
    )
    if is_report(document):
        return _select_study(records_of_report(document, str(path)), study, path)
    if study is not None:
        msg = f"expected a storage or a report to take study {study!r} from, got {path}. Leave it out."
        raise UsageError(msg, param="study")
    if not isinstance(document, dict):
        msg = f"{path}: expected a report or a run, got {type(document).__name__}. Give what `warmstart tune` or Optimizer.to_dict wrote."
        raise DataError(msg)
    return document


def _select_study(records: Sequence[StudyRecord], study: str | None, path: Path) -> StudyRecord:
    names = [record.name for record in records]
    if study is None and len(records) > 1:
        msg = f"expected the name of one of the studies {', '.join(names)} of {path}, got none. Name one."
        raise UsageError(msg, param="study")
    if study is not None and study not in names:
        msg = f"{path}: expected one of the studies {', '.join(names)}, got {study!r}. Check the name."
        raise DataError(msg)
    return records[0] if study is None else records[names.index(study)]


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
