"""Workloads: training jobs that a history measures and a study tunes.

A workload of your own is a subclass of `Workload`, in one file, and one line in your package's metadata:
`[project.entry-points."warmstart.workloads"]`, `mine = "package.module:MyWorkload"`.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.history_store.registry import Registry
from warmstart.training.workloads.base import (
    Budget,
    Classifier,
    Member,
    Prepared,
    Report,
    TrainingResult,
    Workload,
)
from warmstart.training.workloads.classifier_file import read_header
from warmstart.training.workloads.dataset import Dataset, SourceDataset, StoredDataset

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

DEFAULT = "cnn"
"""The workload of the shipped history."""

WORKLOADS: Registry[type[Workload]] = Registry(
    "warmstart.workloads",
    "workload",
    {
        "cnn": "warmstart.training.workloads.cnn.workload:CNN",
        "transfer": "warmstart.training.workloads.transfer.workload:Transfer",
    },
    check=lambda found: isinstance(found, type) and issubclass(found, Workload),
    requirement="a subclass of warmstart.training.workloads.Workload",
)
"""Every workload's class by name."""


def get_workload(name: str = DEFAULT) -> Workload:
    """Make a workload by name.

    Raises:
        UsageError: when there is none of that name, or its package cannot be imported.
    """
    return WORKLOADS.find(name, param="workload")()


def measures(space: str, workload: str) -> bool:
    """Tell whether a space, as ConfigSpace JSON, has the hyperparameters of a workload.

    Raises:
        UsageError: as `get_workload`.
    """
    names = [each["name"] for each in json.loads(space).get("hyperparameters", ())]
    return not get_workload(workload).missing_names(names)


def named_space(text: str) -> "ConfigurationSpace | None":
    """Build the space that a text names: ``compact``, ``paper``, a workload, or ``WORKLOAD:SPACE``.

    Returns: None where it names none.

    Raises:
        UsageError: when the workload has no such space, or its package cannot be imported.
    """
    usual = get_workload()
    if text in usual.spaces:
        return usual.space(text)
    name, _, space = text.partition(":")
    return get_workload(name).space(space or None) if name in WORKLOADS else None


def workload_named_by(space: object) -> str | None:
    """Return the workload whose name a space has before the colon, or alone; None where it is no text of that kind."""
    name = space.partition(":")[0] if isinstance(space, str) else ""
    return name if name in WORKLOADS else None


def space_names() -> list[str]:
    """List the texts that `named_space` knows."""
    return [*get_workload().spaces, *(name for name in WORKLOADS if name != DEFAULT)]


def load_classifier(path: str | Path) -> Classifier:
    """Read a saved classifier, whichever workload wrote it.

    Raises:
        MissingPathError: when there is no such file.
        ModelError: when it is something else, damaged or of a newer version.
        UsageError: when the workload that wrote it is not installed.
    """
    header = read_header(path)
    found = get_workload(header["workload"]).load(Path(path))
    found.dataset = header.get("dataset")
    return found


__all__ = [
    "DEFAULT",
    "WORKLOADS",
    "Budget",
    "Classifier",
    "Dataset",
    "Member",
    "Prepared",
    "Report",
    "SourceDataset",
    "StoredDataset",
    "TrainingResult",
    "Workload",
    "get_workload",
    "load_classifier",
    "measures",
    "named_space",
    "space_names",
    "workload_named_by",
]
