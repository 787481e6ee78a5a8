"""What `plot run` draws, whatever was named: a study of a storage, one of a report, or a saved run of the optimiser."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def read_any(named: str, *, study: str | None = None) -> StudyRecord | dict[str, Any]:
    """Read a study from a storage or a report; a saved run of the optimiser is given as it is.

    Args:
        named: path or URL of a storage, `STORAGE::STUDY`, a report's `.json` or `.md`, or a saved run.
        study: its name, where there are several.

    Raises:
        MissingPathError: nothing there.
        UsageError: a name where there is none to choose, or none where there are several.
        DataError: it is something else, or there is no such study.
        StorageError: a storage that cannot be read.
    """
    head, separator, tail = named.partition("::")
    if separator and not Path(named).exists():
        named, study = head, study or tail
    path = Path(named).expanduser()
    if "://" in named or (path.is_file() and is_storage(path)):
        with open_to_read(named) as store:
            return read_study_record(store, choose_study(store, study))
    if path.suffix.lower() in (".md", ".html"):
        path = path.with_suffix(".json")
    found = read_json(
        path, what="a storage of studies, a report of `warmstart tune`, or a run, what Optimizer.to_dict gave"
    )
    if is_report(found):
        return _chosen(records_of_report(found, str(path)), study, path)
    if study is not None:
        msg = f"expected a storage or a report to take study {study!r} from, got {path}. Leave it out."
        raise UsageError(msg, param="study")
    if not isinstance(found, dict):
        msg = f"{path}: expected a report or a run, got {type(found).__name__}. Give what `warmstart tune` or Optimizer.to_dict wrote."
        raise DataError(msg)
    return found


def _chosen(records: Sequence[StudyRecord], study: str | None, path: Path) -> StudyRecord:
    names = [record.name for record in records]
    if study is None and len(records) > 1:
        msg = f"expected the name of one of the studies {', '.join(names)} of {path}, got none. Name one."
        raise UsageError(msg, param="study")
    if study is not None and study not in names:
        msg = f"{path}: expected one of the studies {', '.join(names)}, got {study!r}. Check the name."
        raise DataError(msg)
    return records[0] if study is None else records[names.index(study)]
