"""Registry of importers. To add one, write an `Importer` and name it in `IMPORTERS` or by an entry point."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from warmstart.history_store.errors import DataError, MissingPathError, UsageError, WarmstartError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import first_bytes, ordinary_file
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.registry import Registry
from warmstart.history_store.wording import in_words
from warmstart.integrations.importers.hpob import read_hpob

READ = "tables of runs (.csv, .parquet), studies of Optuna, experiments of MLflow and Ray Tune, runs of Weights & Biases, SMAC3, timm, Ultralytics, Lightning, Hugging Face's Trainer, Keras Tuner, Ax, Syne Tune and TensorBoard, tables of HPO-B"
_STEP = "Save its runs as a table: a column a hyperparameter, and one of the error."
_MOST_FILES = 2000
_MOST_BYTES = 1 << 26
_IN_FOLDERS: Mapping[str, str] = {
    r"oracle\.json|tuner\d+\.json|build_config\.json": "Keras Tuner without a trial",
    r"tuner\.dill|.*\.syne_tune.*": "Syne Tune without results.csv.zip",
    r"learner\.pkl|predictor\.pkl": "AutoGluon",
    r"configs\.json": "HpBandSter",
    r"clearml\.conf|task_session\.json": "ClearML",
}
"""Names of files by which a tool's folder is known."""
_FILES: Mapping[str, str] = {
    r".*\.ipynb": "a notebook",
    r".*\.(pkl|pickle|joblib|dill)": "a pickle, which is never opened, as it can run programs",
    r".*\.(xlsx?|ods)": "a spreadsheet: save it as CSV",
    r"events\.out\.tfevents\..*": "a log of TensorBoard: give its folder",
    r"wandb-summary\.json": "the summary of a run of Weights & Biases without its settings: give the folder `wandb`",
    r".*\.(txt|log|md)": "a text",
}


def refuse_other(source: str, **_: object) -> Any:
    """Raise the error of runs that are none of a tool that is read; it names the tool if its files tell.

    Raises:
        DataError: always.
    """
    path = Path(source)
    raise _other(source, _folder_kind(path) if path.is_dir() else _file_kind(path))


def is_other_json(source: str) -> bool:
    """Return whether a JSON file is none of HPO-B: no mapping of spaces, datasets, and `X` and `y`."""
    path = Path(source)
    if path.suffix.lower() != ".json" or not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return False
    try:
        content = parse_json(ordinary_file(path).read_bytes())
    except ValueError:
        return True
    if not isinstance(content, Mapping):
        return True
    if {"study", "storage", "trials"} <= content.keys():
        return False  # a report of warmstart, of which the reader tells how to import the study
    tables = [table for space in content.values() if isinstance(space, Mapping) for table in space.values()]
    return not any(isinstance(table, Mapping) and table.keys() & {"X", "y"} for table in tables)


def is_foreign_file(source: str) -> bool:
    """Return whether a file is named like none of Optuna's: a database or a journal may have any other name."""
    name = Path(source).name.lower()
    return any(re.fullmatch(pattern, name) for pattern in _FILES)


def _other(source: str, kind: str) -> DataError:
    return DataError(f"{source}: expected runs of a tool that is read ({READ}), got {kind}. {_STEP}")


def _folder_kind(path: Path) -> str:
    names = [file.name for file in islice(path.rglob("*"), _MOST_FILES)]
    for pattern, tool in _IN_FOLDERS.items():
        if name := next((name for name in names if re.fullmatch(pattern, name)), None):
            return f"a folder of {tool} ({name})"
    if "metadata.json" in names and b"metric_names" in first_bytes(path / "metadata.json", _MOST_BYTES):
        return "a folder of Syne Tune without results.csv.zip (metadata.json)"
    return "a folder without their files" if names else "an empty folder"


def _file_kind(path: Path) -> str:
    if kind := next((kind for pattern, kind in _FILES.items() if re.fullmatch(pattern, path.name.lower())), None):
        return kind
    if path.suffix.lower() != ".json":
        return f"a file {path.suffix}" if path.suffix else "another file"
    head = first_bytes(path, 4096)
    if b'"Experiment"' in head or b'"__type"' in head:
        return "an object of Ax that is no experiment"
    if b'"oracle"' in head or b'"hyperparameters"' in head:
        return "a file of Keras Tuner"
    if head.startswith(b"[[") and b'"submitted"' in head:
        return "results of HpBandSter"
    return "another JSON file"


Runs = tuple[ForeignRuns, tuple[DatasetInfo, ...]]
"""Runs, and the datasets that their source describes."""
TABLES = (".csv", ".parquet", ".pq")


class Read(Protocol):
    """Function that reads the runs of a source."""

    def __call__(self, source: str, *, study: str | None, metric: str | None) -> Runs:
        """Read runs, and the datasets that the source describes.

        Args:
            source: file, folder, URL or name, as given.
            study: one of several studies or spaces; None without this option.
            metric: the objective that is the error; None without this option.

        Raises:
            UsageError: an option that does not fit the source.
            DataError: the runs cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Importer:
    """Importer of one kind of source.

    Attributes:
        matches: tells quickly whether a source is of this kind; importers are tried in order, ours first.
        read: reads the runs.
        options: which of ``study`` and ``metric`` can be used.
    """

    matches: Callable[[str], bool]
    read: Read
    options: Collection[str] = ("study", "metric")


def by_metric(read: Callable[..., ForeignRuns]) -> Read:
    """Return a `Read` from a function of a path and a metric, without dataset descriptions."""

    def read_source(source: str, *, study: str | None, metric: str | None) -> Runs:  # noqa: ARG001  the interface
        return read(Path(source), metric=metric), ()

    return read_source


def find_importer(source: str) -> Importer:
    """Return the importer of a source.

    Raises:
        MissingPathError: the path does not exist, and no importer matches.
    """
    for importer in IMPORTERS.values():
        if importer.matches(source):
            return importer
    if not Path(source).exists():
        msg = f"{source}: expected runs to import, got nothing there. Check the path."
        raise MissingPathError(msg)
    return next(importer for importer in _BY_SHAPE if importer.matches(source))


def _check_options(importer: Importer, source: str, **values: str | None) -> None:
    for option, value in values.items():
        if value is not None and option not in importer.options:
            msg = f"cannot be used with {source}."
            raise UsageError(msg, param=option)


def read_source(source: str, *, study: str | None = None, metric: str | None = None) -> Runs:
    """Read the runs of a source of any kind, and the datasets that it describes.

    Raises:
        UsageError: an option that does not fit the source.
        MissingPathError: the source does not exist.
        DataError: the runs cannot be read.
        StorageError: a storage cannot be read.
    """
    try:
        importer = find_importer(source)
        _check_options(importer, source, study=study, metric=metric)
        return importer.read(source, study=study, metric=metric)
    except (WarmstartError, MemoryError):
        raise
    except OSError as error:
        msg = f"{source}: expected runs that can be read, got {in_words(error)} ({error.filename}). Check the path, and who may read it."
        raise DataError(msg) from error
    # A file of another program may hold a value of any kind in any place, and its reader may raise anything.
    except Exception as error:
        msg = f"{source}: expected runs as their tool writes them, got values of another kind ({type(error).__name__}: {in_words(error)}). Export or copy them again."
        raise DataError(msg) from error


def _read_optuna(source: str, *, study: str | None, metric: str | None) -> Runs:
    from warmstart.integrations.optuna.trials import read_study

    return read_study(source, study=study, metric=metric), ()


def _read_table(source: str, *, study: str | None, metric: str | None) -> Runs:  # noqa: ARG001  the interface
    from warmstart.history_store.external_table import read_table
    from warmstart.integrations.importers.run_folders import is_maximised

    runs, described = read_table(Path(source), metric=metric)
    # Without a metric the column is `error`, to minimise; a name such as `val_acc` says its direction.
    return replace(runs, maximised=False if metric is None else is_maximised(metric)), described


@by_metric
def _read_smac(source: Path, *, metric: str | None) -> ForeignRuns:
    from warmstart.integrations.importers.smac import read_runhistory

    return read_runhistory(source, metric=metric)


@by_metric
def _read_ray(source: Path, *, metric: str | None) -> ForeignRuns:
    from warmstart.integrations.importers.ray_results import read_results

    return read_results(source, metric=metric)


def _read_hpob(source: str, *, study: str | None, metric: str | None) -> Runs:  # noqa: ARG001  the interface

    return read_hpob(Path(source), study=study), ()


def _is_smac(source: str) -> bool:
    path = Path(source)
    return (path / "runhistory.json").is_file() or (path.name == "runhistory.json" and path.exists())


def _lazy(module: str, options: Collection[str] = ("study", "metric")) -> Importer:
    """Return an importer whose module, with its `IMPORTER`, is loaded at first use."""

    def load() -> Importer:
        importer: Importer = import_module(f"warmstart.integrations.importers.{module}").IMPORTER
        return importer

    def read(source: str, *, study: str | None, metric: str | None) -> Runs:
        return load().read(source, study=study, metric=metric)

    return Importer(lambda source: load().matches(source), read, options)


IMPORTERS: Registry[Importer] = Registry(
    "warmstart.importers",
    "importer",
    {
        "mlflow": _lazy("mlflow_runs"),
        "optuna-url": Importer(lambda source: "://" in source, _read_optuna),
        "table": Importer(lambda source: Path(source).suffix.lower() in TABLES, _read_table, ("metric",)),
        "ultralytics": _lazy("ultralytics_runs", ("metric",)),
        "keras-tuner": _lazy("keras_tuner", ("metric",)),
        "syne-tune": _lazy("syne_tune", ("metric",)),
        "ax": _lazy("ax_experiment", ("metric",)),
        "smac": Importer(_is_smac, _read_smac, ("metric",)),
        "timm": _lazy("timm_runs", ("metric",)),
        "hf-trainer": _lazy("hf_trainer", ("metric",)),
        "lightning": _lazy("lightning_logs", ("metric",)),
        "wandb": _lazy("wandb_runs", ("metric",)),
        "tensorboard": _lazy("tensorboard_logs", ("metric",)),
    },
    check=lambda entry: isinstance(entry, Importer),
    requirement="a warmstart.integrations.importers.registry.Importer",
)
"""Importers of sources with recognisable content, in the order in which they are tried."""

_BY_SHAPE = (
    Importer(lambda source: any(Path(source).glob("*/params.json")), _read_ray, ("metric",)),
    Importer(is_other_json, refuse_other),
    Importer(lambda source: Path(source).suffix.lower() == ".json", _read_hpob, ("study",)),
    Importer(lambda source: Path(source).is_file() and not is_foreign_file(source), _read_optuna),
    Importer(lambda _: True, refuse_other),
)
"""Importers tried last, by the shape of a source."""
