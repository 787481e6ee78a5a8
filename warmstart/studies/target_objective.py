"""The built-in objective: the target network on an image dataset."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from history_store.errors import UsageError
from history_store.records import Config
from history_store.space import target_space
from training.budget import BUDGETS, COMPACT, Budget
from warmstart.studies.objective import Report

if TYPE_CHECKING:
    from training.target import TargetData
IMAGE_SIZE = 32
"""Pixels a side of the images of the shipped history."""


@dataclass(slots=True)
class TargetObjective:
    """Trains the target network and gives its validation error; the dataset is read once a child.

    A trial's budget is its number of updates, over which the learning rate decays as over the whole run.

    Attributes:
        dataset: path in any layout.
        budget: name in `training.budget.BUDGETS`, that of the shipped history if left out.
        device: ``cpu``, ``cuda`` or ``auto``.
        image_size: pixels a side, that of the shipped history if left out.
        threads: of torch on a CPU.
        skip_broken: go on without pictures that cannot be decoded.
    """

    dataset: str
    budget: str = COMPACT.name
    device: str = "auto"
    image_size: int = IMAGE_SIZE
    threads: int = 1
    skip_broken: bool = False
    _data: TargetData | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the budget's name.

        Raises:
            UsageError: when there is none of that name.
        """
        if self.budget not in BUDGETS:
            msg = f"expected one of {', '.join(BUDGETS)}, got {self.budget!r}. Leave it out for the first."
            raise UsageError(msg, param="target_budget")

    def prepare(self) -> None:
        """Read the dataset.

        Raises:
            MissingPathError: when there is nothing at the path.
            DataError: when what is there cannot be used.
            UsageError: when torch has no such device.
        """
        import torch

        torch.set_num_threads(self.threads)
        self._data, _ = read_target_data(
            self.dataset, size=self.image_size, device=self.device, skip_broken=self.skip_broken
        )

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Train once; raises `Pruned` where a report is answered by it."""
        from training.target import train_target

        if self._data is None:
            self.prepare()
        assert self._data is not None  # noqa: S101  prepared
        result = train_target(self._data, config, run_length(self.budget, budget), seed=seed, report=report)
        return {"error": result.error, "duration": result.duration, "status": result.status.value}


def read_target_data(
    dataset: str, *, size: int = IMAGE_SIZE, device: str = "auto", skip_broken: bool = False
) -> tuple[TargetData, tuple[str, ...]]:
    """Read a dataset as the target network sees it, and the names of its classes.

    Raises:
        MissingPathError: when there is nothing at the path.
        DataError: when what is there cannot be used.
        UsageError: when torch has no such device.
    """
    import torch

    from history_store.splits import split_codes
    from training.target import TargetData
    from warmstart.contribution import read_all
    from warmstart.device import resolve_device
    from warmstart.embedding import check_contrast
    from warmstart.query import open_path

    where = torch.device(resolve_device(device))
    source = open_path(dataset)
    read, own = read_all(source, size, skip_broken=skip_broken)
    check_contrast(read.labels, source.location)
    codes, _ = split_codes(read.labels, own)
    data = TargetData.of(read.images, read.labels, codes, n_classes=len(read.class_names), device=where)
    return data, tuple(read.class_names)


def run_length(name: str, updates: float | None) -> Budget:
    """Give the length of a run: that of a budget by name, or so many updates of it."""
    budget = BUDGETS[name]
    return budget if updates is None else replace(budget, updates=max(int(updates), 1), epochs=None)


def check_target_names(names: Collection[str]) -> None:
    """Check that a space has the hyperparameters of the target network.

    Raises:
        UsageError: when one is missing.
    """
    missing = [name for name in target_space() if name not in names]
    if missing:
        msg = f"expected the target network's hyperparameters, got none named {', '.join(missing)}. Give `objective` or `command` with a space of your own."
        raise UsageError(msg, param="space")
