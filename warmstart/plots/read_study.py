"""Read the input of `plot run`: a study of a storage or report, or a saved run of the optimiser."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warmstart.history_store.canonical import home_path
from warmstart.history_store.errors import DataError, UsageError
from warmstart.plots.read_report import read_json
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
