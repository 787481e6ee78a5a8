"""Registry of importers. To add one, write an `Importer` and name it in `IMPORTERS` or by an entry point."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Protocol

from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.registry import Registry

Runs = tuple[ForeignRuns, tuple[DatasetInfo, ...]]
"""Runs, and the datasets that their source describes."""
TABLES = (".csv", ".parquet", ".pq")


class Read(Protocol):
    """Reads the runs of a source."""

    def __call__(self, source: str, *, study: str | None, metric: str | None) -> Runs:
        """Read runs, and the datasets that the source describes.

        Args:
            source: file, folder, URL or name, as given.
            study: one of several studies or spaces; None where the importer knows no such option.
            metric: the objective that is the error; likewise.

        Raises:
            UsageError: when what was asked does not fit the source.
            DataError: when the runs cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Importer:
    """One kind of source of runs.

    Attributes:
        matches: tells at a glance whether a source is of the kind; importers are asked in order, ours first.
        read: reads it.
        options: of ``study`` and ``metric``, those that say something here; the others are refused.
    """

    matches: Callable[[str], bool]
    read: Read
    options: Collection[str] = ("study", "metric")


def by_metric(read: Callable[..., ForeignRuns]) -> Read:
    """Make a `Read` of one that takes a path and the metric, and describes no datasets."""

    def found(source: str, *, study: str | None, metric: str | None) -> Runs:  # noqa: ARG001  the interface
        return read(Path(source), metric=metric), ()

    return found


def find_importer(source: str) -> Importer:
    """Return the importer of a source.

    Raises:
        MissingPathError: when there is nothing at the path, and no importer knows the name.
    """
    for importer in IMPORTERS.values():
        if importer.matches(source):
            return importer
    if not Path(source).exists():
        msg = f"{source}: expected runs to import, got nothing there. Check the path."
        raise MissingPathError(msg)
    return next(importer for importer in _BY_SHAPE if importer.matches(source))


def read_source(source: str, *, study: str | None = None, metric: str | None = None) -> Runs:
    """Read the runs of a source, whatever kind it is, and the datasets that it describes.

    Raises:
        UsageError: when what was asked does not fit the source.
        MissingPathError: when there is nothing at `source`.
        DataError: when the runs cannot be read.
        StorageError: when a storage cannot be read.
    """
    importer = find_importer(source)
    for option, value in (("study", study), ("metric", metric)):
        if value is not None and option not in importer.options:
            msg = f"expected none for {source}, got {value!r}. Leave it out."
            raise UsageError(msg, param=option)
    return importer.read(source, study=study, metric=metric)


def _read_optuna(source: str, *, study: str | None, metric: str | None) -> Runs:
    from warmstart.integrations.optuna.trials import read_study

    return read_study(source, study=study, metric=metric), ()


def _read_table(source: str, *, study: str | None, metric: str | None) -> Runs:  # noqa: ARG001  the interface
    from warmstart.history_store.external_table import read_table
    from warmstart.integrations.importers.run_folders import is_maximised

    runs, described = read_table(Path(source), metric=metric)
    # A column called `error` is one; `val_acc` says by its name that it is none.
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
    from warmstart.integrations.importers.hpob import read_hpob

    return read_hpob(Path(source), study=study), ()


def _is_smac(source: str) -> bool:
    path = Path(source)
    return (path / "runhistory.json").is_file() or (path.name == "runhistory.json" and path.exists())


def _lazy(module: str, options: Collection[str] = ("study", "metric")) -> Importer:
    """Make an importer whose module is loaded when a source is looked at; it has an `IMPORTER`."""

    def found() -> Importer:
        importer: Importer = import_module(f"warmstart.integrations.importers.{module}").IMPORTER
        return importer

    def read(source: str, *, study: str | None, metric: str | None) -> Runs:
        return found().read(source, study=study, metric=metric)

    return Importer(lambda source: found().matches(source), read, options)


IMPORTERS: Registry[Importer] = Registry(
    "warmstart.importers",
    "importer",
    {
        "mlflow": _lazy("mlflow_runs"),
        "optuna-url": Importer(lambda source: "://" in source, _read_optuna),
        "table": Importer(lambda source: Path(source).suffix.lower() in TABLES, _read_table, ("metric",)),
        "smac": Importer(_is_smac, _read_smac, ("metric",)),
        "timm": _lazy("timm_runs", ("metric",)),
        "hf-trainer": _lazy("hf_trainer", ("metric",)),
        "lightning": _lazy("lightning_logs", ("metric",)),
        "wandb": _lazy("wandb_runs", ("metric",)),
    },
    check=lambda found: isinstance(found, Importer),
    requirement="a warmstart.integrations.importers.registry.Importer",
)
"""Importers of sources that say what they are, in the order in which they are asked."""

_BY_SHAPE = (
    Importer(lambda source: Path(source).is_dir(), _read_ray, ("metric",)),
    Importer(lambda source: Path(source).suffix.lower() == ".json", _read_hpob, ("study",)),
    Importer(lambda _: True, _read_optuna),
)
"""Asked last: any folder is taken for Ray's, any JSON file for HPO-B's, any other file for a storage of Optuna."""
