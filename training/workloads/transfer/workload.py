"""Pretrained backbones as a workload: heads on frozen features, and fine-tuning from them.

torch and timm are imported where a dataset is prepared or a file read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.records import Config
from warmstart.metafeat.pretrained.backbones import build_backbone, check_architecture, find_backbone, require_timm
from warmstart.training.workloads.base import Budget as AnyBudget
from warmstart.training.workloads.base import Classifier, Prepared, Workload
from warmstart.training.workloads.dataset import Dataset
from warmstart.training.workloads.transfer.budget import BUDGETS, TransferBudget, own_budget
from warmstart.training.workloads.transfer.config import (
    BATCH_SIZE,
    FEATURE_NAMES,
    LARGEST,
    SMALLEST,
    TUNING_NAMES,
    TransferConfig,
    error_at_the_end,
    steps_at_the_end,
)
from warmstart.training.workloads.transfer.recipes import RECIPES, write_recipe
from warmstart.training.workloads.transfer.space import (
    BACKBONES,
    IMAGE_SIZES,
    LARGER,
    SPACES,
    STEPS,
    SpaceName,
    transfer_space,
)

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

_GIGA_MULTIPLY_ADDS = {"tf_efficientnet_lite0": 0.41, "tf_efficientnet_lite1": 0.63, "tf_efficientnet_lite2": 0.90}
"""Of one image of 224 pixels a side; another network counts as 1."""
_TUNED = {"learning_rate": 3e-4, "body_lr_multiplier": 1.0, "tuned_stages": "all"}
"""Of the first fine-tuning, beside the defaults: the best of five on two image sets, by a minute and by two on one core."""
_VALIDATION_SHARE = 1 / 3
_SECONDS_A_GIGA = 0.02


class Transfer(Workload):
    """A pretrained backbone of timm: classifiers on its frozen features, or fine-tuning that starts from them.

    Args:
        backbones: choices of the space, as `find_backbone` takes them.
        image_sizes: choices of the space, rising.
    """

    name: ClassVar[str] = "transfer"
    spaces: ClassVar[tuple[str, ...]] = SPACES
    budgets: ClassVar[tuple[str, ...]] = tuple(BUDGETS)
    recipes: ClassVar[tuple[str, ...]] = RECIPES
    network: ClassVar[str] = "classifiers on the features of pretrained networks"
    chooses_image_size: ClassVar[bool] = True

    def __init__(self, backbones: Sequence[str] = BACKBONES, image_sizes: Sequence[int] = IMAGE_SIZES) -> None:
        self.backbones, self.image_sizes = tuple(backbones), tuple(image_sizes)

    def space(self, name: str | None = None) -> ConfigurationSpace:
        """Build `full`, `frozen` or `large`; see `transfer_space`."""
        wanted = cast("SpaceName", name or SPACES[0])
        return transfer_space(wanted, backbones=self.backbones, image_sizes=self.image_sizes)

    def budget(self, name: str | None = None, *, amount: float | None = None) -> TransferBudget:
        """Return ``time`` (60 seconds of fine-tuning at most) or ``steps`` (400 at most), or so much of it."""
        name = name or self.budgets[0]
        if name not in BUDGETS:
            msg = f"expected one of {', '.join(BUDGETS)}, got {name!r}. Leave it out for the first."
            raise UsageError(msg, param="target_budget")
        budget = BUDGETS[name]
        return budget if amount is None else replace(budget, amount=amount)

    def usual_configs(self) -> tuple[Config, ...]:
        """List feature sets to begin with, cheap ones first, and two fine-tunings: at the largest size and at a small one."""
        sizes, first, last = self.image_sizes, self.backbones[0], self.backbones[-1]
        middle, small = sizes[len(sizes) // 2], sizes[(len(sizes) - 1) // 2]
        both = {"backbone": first, "image_size": middle, "depth": "s16+full", "flip_copies": True, "steps": 0}
        tuned = {name: self.space()[name].default_value for name in TUNING_NAMES} | _TUNED
        return (
            both,
            {**both, "backbone": last, "image_size": sizes[-1], "depth": "full"},
            {**both, "image_size": sizes[-1]},
            *({**both, "image_size": size, "steps": STEPS[-1], **tuned} for size in dict.fromkeys((sizes[-1], small))),
        )

    def seconds_again(self, config: Config, duration: float) -> float:
        """Estimate next to nothing for a head: its features are kept."""
        return 0.0 if TransferConfig.of(config).tuning is None else duration

    def steps_again(self, config: Config, budget: AnyBudget) -> int:
        """Tell that what was fine-tuned is fine-tuned again, on all images, and longer where time ended it; heads are fitted in no time."""
        tuning, own = TransferConfig.of(config).tuning, own_budget(budget)
        if tuning is None:
            return 0
        return steps_at_the_end(tuning.steps) if own.name == "time" else own.steps(tuning.steps)

    def error_again(self, config: Config, error: float, *, budget: AnyBudget, steps: float, longer: float) -> float:
        """Estimate the error of a fine-tuning that makes more steps in the end."""
        return error_at_the_end(error, steps, min(self.steps_again(config, budget), steps * longer))

    def recipe(
        self, config: Config, program: str, *, dataset: str, n_train: int, n_classes: int, skip_broken: bool = False
    ) -> str:
        """Write a command of timm's `train.py`, a PyTorch script or Hugging Face's `TrainingArguments`."""
        if program not in RECIPES:
            return super().recipe(config, program, dataset=dataset, n_train=n_train, n_classes=n_classes)
        return write_recipe(
            config, program, dataset=dataset, n_train=n_train, n_classes=n_classes, skip_broken=skip_broken
        )

    def largest_image(self, space: ConfigurationSpace) -> int | None:
        """Return the largest `image_size` of a space that can be trained."""
        sizes = (int(value) for value in _numbers(space.get("image_size")))
        return max((size for size in sizes if SMALLEST <= size <= LARGEST), default=None)

    def space_for_larger(self, side: int, measured: int) -> tuple[str, int] | None:
        """Name `large` for pictures that have its pixels, where the history measured fewer."""
        return (f"{self.name}:large", LARGER[-1]) if side >= LARGER[0] > measured else None

    def canonical(self, config: Config) -> Config:
        """Leave out the hyperparameters of fine-tuning with 0 steps."""
        is_frozen = config.get("steps") == 0
        return {name: value for name, value in config.items() if not (is_frozen and name in TUNING_NAMES)}

    def check(self, config: Config) -> None:
        """Check that all hyperparameters that are active are there and in their ranges."""
        TransferConfig.of(config)

    def cost(self, config: Config, budget: AnyBudget, *, n_train: int) -> float:
        """Estimate the seconds on one core: a pass over all images for the features, three a step of fine-tuning."""
        found, own = TransferConfig.of(config), own_budget(budget)
        features = found.features
        giga = _GIGA_MULTIPLY_ADDS.get(features.backbone, 1.0) * (features.image_size / 224) ** 2
        images = n_train * (1 + _VALIDATION_SHARE + features.flip_copies)
        seconds = _SECONDS_A_GIGA * images * giga + 1e-3 * n_train
        if found.tuning is None:
            return seconds
        length = own.steps(found.tuning.steps)
        tuning = _SECONDS_A_GIGA * 3 * length * BATCH_SIZE * giga
        return seconds + (tuning if own.name == "steps" else min(tuning, own.amount))

    def length(self, budget: AnyBudget) -> str:
        """Say a budget in words."""
        return f"at most {own_budget(budget).amount:g} {budget.unit} of fine-tuning, where there is any"

    def steps(self, budget: AnyBudget, *, config: Config | None = None, n_train: int | None = None) -> int | None:  # noqa: ARG002  the interface
        """Tell the steps of fine-tuning, 0 for frozen features; not known where time ends a run."""
        own = own_budget(budget)
        if config is None:
            return None
        tuning = TransferConfig.of(config).tuning
        if tuning is None:
            return 0
        return own.steps(tuning.steps) if own.name == "steps" else None

    def usual_names(self) -> Sequence[str]:
        """List the hyperparameters of the usual space, without ConfigSpace."""
        return (*FEATURE_NAMES, *TUNING_NAMES)

    def needed_names(self, names: Collection[str]) -> Sequence[str]:
        """List those of a feature set and, where a space has one of fine-tuning, all of these."""
        return self.usual_names() if any(name in names for name in TUNING_NAMES) else FEATURE_NAMES

    def check_space(self, space: ConfigurationSpace) -> None:
        """Check that a space can be trained, and that there are its backbones: timm has the networks, files are where they are said to be.

        Raises:
            DataError: as `Workload.check_space`, and for a name that is none.
            UsageError: when timm has no such network, or a package of weights is missing.
            MissingPathError: when there is no such file.
            ModelError: when a file holds no weights, or another network's.
        """
        super().check_space(space)
        lacking = [name for name in TUNING_NAMES if name not in space]
        if lacking and (most := max(_numbers(space["steps"]), default=0)) > 0:
            msg = f"expected {', '.join(lacking)} beside steps of up to {most:g}, got none of them. Add them, or leave fine-tuning out: steps: {{value: 0}}."
            raise DataError(msg, param="space")
        choices = getattr(space["backbone"], "choices", None) or (space["backbone"].default_value,)
        for name in choices:
            backbone = find_backbone(name)
            if not backbone.packaged:
                check_architecture(backbone.architecture)
                if backbone.weights is not None:
                    build_backbone(backbone, size=int(space["image_size"].default_value))

    def check_installed(self) -> None:
        """Check that timm is there."""
        require_timm()

    def prepare(self, dataset: Dataset, *, device: str | None = None) -> Prepared:
        """Choose the device; images are decoded, and features computed, at the sizes that configurations ask for.

        Raises:
            LabelError: when the training part has fewer than two images or the validation part none.
            UsageError: when there is no such device, or timm is not installed.
        """
        require_timm()
        import timm  # noqa: F401  it takes seconds, which are of no run

        from warmstart.metafeat.device import open_device
        from warmstart.training.workloads.transfer.prepared import PreparedTransfer

        return PreparedTransfer(dataset, open_device(device))

    def load(self, path: Path) -> Classifier:
        """Read a classifier."""
        require_timm()
        from warmstart.training.workloads.transfer.classifier import TransferClassifier

        return TransferClassifier.load(path)


def _numbers(hyperparameter: Any) -> list[float]:
    """List the numbers that a hyperparameter may be, of a range the largest; none where it is None."""
    values = getattr(hyperparameter, "sequence", None) or getattr(hyperparameter, "choices", None)
    values = values or (getattr(hyperparameter, "upper", None), getattr(hyperparameter, "value", None))
    return [value for value in values if isinstance(value, int | float)]
