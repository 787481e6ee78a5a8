"""CNN workload; torch is imported on use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from warmstart.history_store.errors import UsageError
from warmstart.history_store.extras import require_extra
from warmstart.history_store.records import Config
from warmstart.metafeat.device import open_device
from warmstart.training.workloads.base import Budget as AnyBudget
from warmstart.training.workloads.base import Classifier, Member, Prepared, Report, TrainingResult, Workload
from warmstart.training.workloads.cnn.budget import BUDGETS, Budget
from warmstart.training.workloads.cnn.config import TargetConfig, multiply_adds
from warmstart.training.workloads.cnn.space import HYPERPARAMETERS, SPACES, SpaceName, target_space
from warmstart.training.workloads.dataset import Dataset

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from torch import nn

    from warmstart.training.workloads.cnn.train import TargetData

IMAGE_SIZE = 32
"""Image size for datasets without a stored one, pixels of a side; that of the shipped history."""


class CNN(Workload):
    """Six-dimensional CNN family of the warm-start paper, trained from scratch with Adam."""

    name: ClassVar[str] = "cnn"
    spaces: ClassVar[tuple[str, ...]] = SPACES
    budgets: ClassVar[tuple[str, ...]] = tuple(BUDGETS)
    network: ClassVar[str] = "a CNN from scratch"
    optimiser: ClassVar[str] = "Adam"

    def space(self, name: str | None = None) -> ConfigurationSpace:
        """Build `compact` or `paper`; see `target_space`."""
        return target_space(cast("SpaceName", name or SPACES[0]))

    def usual_names(self) -> Sequence[str]:
        """Return the six hyperparameters in the order of the space, without building it."""
        return sorted(HYPERPARAMETERS)

    def budget(self, name: str | None = None, *, amount: float | None = None) -> Budget:
        """Return a budget by name; an amount sets the updates, over which the learning rate decays fully."""
        name = name or self.budgets[0]
        if name not in BUDGETS:
            msg = f"expected one of {', '.join(BUDGETS)}, got {name!r}. Leave it out for the first."
            raise UsageError(msg, param="target_budget", given=name, choices=BUDGETS)
        budget = BUDGETS[name]
        return budget if amount is None else replace(budget, updates=max(int(amount), 1), epochs=None)

    def in_words(self, config: Config) -> dict[str, str | None]:
        """Describe a configuration: the learning rate and its decay, batch size, dropout and layers."""
        cast_config = TargetConfig.of(config)
        return {
            "learning rate": f"{cast_config.learning_rate:.2g}",
            "its decay": f"{cast_config.decay_rate:.2g}",
            "batch": str(cast_config.batch_size),
            "dropout": f"{cast_config.dropout:.2f}",
            "layers": f"{cast_config.n_conv} conv, {cast_config.n_fc} dense",
        }

    def check(self, config: Config) -> None:
        """Check that all six hyperparameters are present and in their ranges."""
        TargetConfig.of(config)

    def cost(self, config: Config, budget: AnyBudget, *, n_train: int) -> float:
        """Count the multiply-adds of all updates on colour images of `IMAGE_SIZE`."""
        cast_config = TargetConfig.of(config)
        batch = min(cast_config.batch_size, n_train)
        length = _cnn_budget(budget).length(n_train, batch)
        return 3.0 * length * batch * multiply_adds(cast_config, channels=3, size=IMAGE_SIZE)

    def steps(self, budget: AnyBudget, *, config: Config | None = None, n_train: int | None = None) -> int | None:
        """Return the number of updates; for epochs it needs configuration and number of images."""
        cnn_budget = _cnn_budget(budget)
        if cnn_budget.updates is not None:
            return cnn_budget.updates
        if config is None or n_train is None:
            return None
        return cnn_budget.length(n_train, min(TargetConfig.of(config).batch_size, n_train))

    def check_installed(self) -> None:
        """Check that torch is there."""
        require_extra("pictures", "The workload cnn", ["torch"])

    def prepare(self, dataset: Dataset, *, device: str | None = None) -> PreparedCNN:
        """Standardise the images, at their stored size or `IMAGE_SIZE`, on the device."""
        self.check_installed()
        from warmstart.training.workloads.cnn.train import TargetData

        torch_device = open_device(device)
        images = dataset.images(dataset.size or IMAGE_SIZE)
        classes = dataset.class_names
        data = TargetData.of(images, dataset.labels, dataset.split, n_classes=len(classes), device=torch_device)
        return PreparedCNN(data, classes)

    def load(self, path: Path) -> Classifier:
        """Read saved networks, also of releases before 0.2."""
        self.check_installed()
        from warmstart.training.workloads.cnn.classifier import Networks

        return Networks.load(path)

    def length(self, budget: AnyBudget) -> str:
        """Describe a budget in updates or epochs."""
        cnn_budget = _cnn_budget(budget)
        return f"{cnn_budget.epochs} epochs" if cnn_budget.updates is None else f"{cnn_budget.updates} updates"

    def origin(self, budget: AnyBudget) -> str:
        """Return an origin without the name of the workload, as in the first histories."""
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
        """Train a configuration; the curve is by updates."""
        from warmstart.training.workloads.cnn.train import train_target

        networks: list[nn.Module] = []
        result = train_target(
            self.data,
            config,
            _cnn_budget(budget),
            seed=seed,
            timeout=timeout_s,
            report=report,
            keep=networks.append if keep else None,
        )
        model = networks[0] if networks else None
        return TrainingResult(result.error, result.status, result.duration, result.curve, model=model)

    def constant_error(self) -> float:
        """Compute the validation error of the most frequent training class."""
        return self.data.constant_error()

    def combine(self, members: Sequence[Member], models: Sequence[object], *, error: float | None = None) -> Classifier:
        """Join networks to a classifier, which averages their probabilities."""
        from warmstart.training.workloads.cnn.classifier import Networks

        return Networks.of(members, cast("Sequence[nn.Module]", models), self.data, self.classes, error=error)


def _cnn_budget(budget: AnyBudget) -> Budget:
    """Return the budget, checked to be one of the CNN.

    Raises:
        UsageError: when it belongs to another workload.
    """
    if not isinstance(budget, Budget):
        msg = f"cnn: expected a budget of the workload 'cnn', got {budget!r}. Take one from CNN().budget()."
        raise UsageError(msg)
    return budget
