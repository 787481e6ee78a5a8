"""The CNN as a workload; torch is imported where a dataset is prepared or a file read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from warmstart.history_store.errors import UsageError
from warmstart.history_store.extras import require_extra
from warmstart.history_store.records import Config
from warmstart.training.workloads.base import Budget as AnyBudget
from warmstart.training.workloads.base import Classifier, Member, Prepared, Report, TrainingResult, Workload
from warmstart.training.workloads.cnn.budget import BUDGETS, Budget
from warmstart.training.workloads.cnn.config import TargetConfig, multiply_adds
from warmstart.training.workloads.cnn.space import SPACES, SpaceName, target_space
from warmstart.training.workloads.dataset import Dataset

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from torch import nn

    from warmstart.training.workloads.cnn.train import TargetData

IMAGE_SIZE = 32
"""Pixels a side where the dataset leaves the choice; that of the shipped history."""


class CNN(Workload):
    """The six-dimensional CNN family of the warm-start paper, trained from scratch with Adam."""

    name: ClassVar[str] = "cnn"
    spaces: ClassVar[tuple[str, ...]] = SPACES
    budgets: ClassVar[tuple[str, ...]] = tuple(BUDGETS)
    network: ClassVar[str] = "a CNN from scratch"
    optimiser: ClassVar[str] = "Adam"

    def space(self, name: str | None = None) -> ConfigurationSpace:
        """Build `compact` or `paper`; see `target_space`."""
        return target_space(cast("SpaceName", name or SPACES[0]))

    def budget(self, name: str | None = None, *, amount: float | None = None) -> Budget:
        """Return a budget by name; an amount is updates, over which the learning rate decays as over the whole run."""
        name = name or self.budgets[0]
        if name not in BUDGETS:
            msg = f"expected one of {', '.join(BUDGETS)}, got {name!r}. Leave it out for the first."
            raise UsageError(msg, param="target_budget", given=name, choices=BUDGETS)
        budget = BUDGETS[name]
        return budget if amount is None else replace(budget, updates=max(int(amount), 1), epochs=None)

    def check(self, config: Config) -> None:
        """Check that all six hyperparameters are there and in their ranges."""
        TargetConfig.of(config)

    def cost(self, config: Config, budget: AnyBudget, *, n_train: int) -> float:
        """Count multiply-adds of the updates on colour images of `IMAGE_SIZE`."""
        cast_config = TargetConfig.of(config)
        batch = min(cast_config.batch_size, n_train)
        length = _own(budget).length(n_train, batch)
        return 3.0 * length * batch * multiply_adds(cast_config, channels=3, size=IMAGE_SIZE)

    def steps(self, budget: AnyBudget, *, config: Config | None = None, n_train: int | None = None) -> int | None:
        """Count the updates; epochs need the batch size and the number of images for it."""
        own = _own(budget)
        if own.updates is not None:
            return own.updates
        if config is None or n_train is None:
            return None
        return own.length(n_train, min(TargetConfig.of(config).batch_size, n_train))

    def check_installed(self) -> None:
        """Check that torch is there."""
        require_extra("pictures", "The workload cnn", ["torch"])

    def prepare(self, dataset: Dataset, *, device: str | None = None) -> PreparedCNN:
        """Standardise the images, at their stored size or `IMAGE_SIZE`, and put them onto the device."""
        self.check_installed()
        from warmstart.metafeat.device import open_device
        from warmstart.training.workloads.cnn.train import TargetData

        where = open_device(device)
        images = dataset.images(dataset.size or IMAGE_SIZE)
        classes = dataset.class_names
        data = TargetData.of(images, dataset.labels, dataset.split, n_classes=len(classes), device=where)
        return PreparedCNN(data, classes)

    def load(self, path: Path) -> Classifier:
        """Read networks, those that releases before 0.2 saved too."""
        self.check_installed()
        from warmstart.training.workloads.cnn.classifier import Networks

        return Networks.load(path)

    def length(self, budget: AnyBudget) -> str:
        """Say how many updates or epochs."""
        own = _own(budget)
        return f"{own.epochs} epochs" if own.updates is None else f"{own.updates} updates"

    def origin(self, budget: AnyBudget) -> str:
        """Name the budget alone, as before there were other workloads."""
        return f"collect/{budget.name}"


class PreparedCNN(Prepared):
    """Standardised images on a device."""

    def __init__(self, data: TargetData, classes: Sequence[str]) -> None:
        self.data, self.classes = data, tuple(classes)

    def train(
        self,
        config: Config,
        *,
        seed: int,
        budget: AnyBudget,
        report: Report | None = None,
        timeout_s: float = math.inf,
        keep: bool = False,
    ) -> TrainingResult:
        """Train once; the curve counts updates."""
        from warmstart.training.workloads.cnn.train import train_target

        kept: list[nn.Module] = []
        result = train_target(
            self.data,
            config,
            _own(budget),
            seed=seed,
            timeout=timeout_s,
            report=report,
            keep=kept.append if keep else None,
        )
        model = kept[0] if kept else None
        return TrainingResult(result.error, result.status, result.duration, result.curve, model=model)

    def constant_error(self) -> float:
        """Compute the validation error of the most frequent training class."""
        return self.data.constant_error()

    def combine(self, members: Sequence[Member], models: Sequence[object], *, error: float | None = None) -> Classifier:
        """Join networks; their probabilities are averaged."""
        from warmstart.training.workloads.cnn.classifier import Networks

        return Networks.of(members, cast("Sequence[nn.Module]", models), self.data, self.classes, error=error)


def _own(budget: AnyBudget) -> Budget:
    """Return a budget that is the CNN's.

    Raises:
        UsageError: when it is another workload's.
    """
    if not isinstance(budget, Budget):
        msg = f"cnn: expected a budget of the workload 'cnn', got {budget!r}. Take one from CNN().budget()."
        raise UsageError(msg)
    return budget
