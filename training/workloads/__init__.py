"""Workloads: training jobs that a history measures and a study tunes.

A custom workload is a subclass of `Workload`, in one file, and one line in your package's metadata:
`[project.entry-points."warmstart.workloads"]`, `mine = "package.module:MyWorkload"`.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.limits import PIXELS
from warmstart.history_store.registry import Registry
from warmstart.history_store.wording import FaultError
from warmstart.training.workloads.base import (
    Budget,
    Classifier,
    Examination,
    Member,
    Prepared,
    Report,
    TrainingResult,
    Workload,
)
from warmstart.training.workloads.classifier_file import not_a_classifier, read_header
from warmstart.training.workloads.dataset import Dataset, Sample, SampledDataset, SourceDataset, StoredDataset

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

DEFAULT = "cnn"
"""Workload of the shipped history."""

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
"""Classes of the workloads by name."""


def get_workload(name: str = DEFAULT) -> Workload:
    """Return a new workload by name.

    Raises:
        UsageError: when the name is unknown, or its package cannot be imported.
    """
    return WORKLOADS.find(name, param="workload")()


def measures(space: str, workload: str) -> bool:
    """Tell whether a space, as ConfigSpace JSON, has the hyperparameters of a workload.

    Raises:
        UsageError: as `get_workload`.
    """
    names = [hyperparameter["name"] for hyperparameter in json.loads(space).get("hyperparameters", ())]
    return not get_workload(workload).missing_names(names)


def named_space(text: str) -> "ConfigurationSpace | None":
    """Build a space by its name: ``compact``, ``paper``, a workload, or ``WORKLOAD:SPACE``.

    Returns: the space, or None for another text.

    Raises:
        UsageError: when the workload has no such space, or its package cannot be imported.
    """
    usual = get_workload()
    if text in usual.spaces:
        return usual.space(text)
    name, _, space = text.partition(":")
    return get_workload(name).space(space or None) if name in WORKLOADS else None


def workload_named_by(space: object) -> str | None:
    """Return the workload in the name of a space, ``WORKLOAD`` or ``WORKLOAD:SPACE``; None without one."""
    name = space.partition(":")[0] if isinstance(space, str) else ""
    return name if name in WORKLOADS else None


def space_names() -> list[str]:
    """Return the names of all spaces of `named_space`."""
    return [*get_workload().spaces, *(name for name in WORKLOADS if name != DEFAULT)]


def load_classifier(path: str | Path) -> Classifier:
    """Read a saved classifier of any workload.

    Raises:
        MissingPathError: when the file is missing.
        ModelError: when the file is of another kind, damaged or of a newer version.
        UsageError: when the workload that wrote it is not installed.
    """
    header = read_header(path)
    classifier = get_workload(header["workload"]).load(Path(path))
    try:
        _check_answers(classifier)
    except WarmstartError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError) as error:
        raise not_a_classifier(path, error) from error
    classifier.dataset = header.get("dataset")
    return classifier


def _check_answers(classifier: Classifier) -> None:
    """Check that a classifier that was read answers: one probability for each of its classes, whatever its file says.

    Raises:
        ValueError: it does not.
    """
    PIXELS.check(classifier.size**2, "the classifier's pictures")
    if classifier.channels not in (1, 3):
        msg = f"pictures of {classifier.channels} channels"
        raise FaultError(msg)
    blank = np.zeros((1, classifier.size, classifier.size, classifier.channels), dtype=np.uint8)
    probabilities, _ = classifier.answer(blank)
    classes = classifier.classes
    if len({*classes}) < len(classes) or not all(isinstance(name, str) for name in classes):
        msg = "classes that are not distinct texts"
        raise FaultError(msg)
    if probabilities.shape != (1, len(classes)) or not np.isfinite(probabilities).all():
        msg = "answers that are no probabilities of its classes"
        raise FaultError(msg)


__all__ = [
    "DEFAULT",
    "WORKLOADS",
    "Budget",
    "Classifier",
    "Dataset",
    "Examination",
    "Member",
    "Prepared",
    "Report",
    "Sample",
    "SampledDataset",
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
