"""Transfer workload: heads on frozen features of pretrained backbones, and fine-tuning from them.

torch and timm are imported on use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.records import Config
from warmstart.metafeat.device import open_device
from warmstart.metafeat.pretrained.backbones import build_backbone, check_architecture, find_backbone, require_timm
from warmstart.training.workloads.base import Budget as AnyBudget
from warmstart.training.workloads.base import Classifier, Prepared, Workload
from warmstart.training.workloads.dataset import Dataset
from warmstart.training.workloads.run_plan import PictureFacts, RunPlan
from warmstart.training.workloads.transfer.budget import BUDGETS, TransferBudget, transfer_budget
from warmstart.training.workloads.transfer.config import (
    BATCH_SIZE,
    FEATURE_NAMES,
    LARGEST,
    SMALLEST,
    TUNING_NAMES,
    TransferConfig,
)
from warmstart.training.workloads.transfer.plan import TransferPlan
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
"""Multiply-adds, in 1e9, of one image of 224 x 224 pixels; other networks count as 1."""
_TUNED = {"learning_rate": 3e-4, "body_lr_multiplier": 1.0, "tuned_stages": "all"}
"""Changes of the defaults for the first fine-tuning: the best of five on two image sets, in one and two minutes on one
core."""
_NAMES = {f"tf_efficientnet_lite{n}": f"EfficientNet-Lite{n}" for n in (0, 1, 2)}
_TRAINED = {"last": "last stage", "last2": "last 2 stages", "all": "all layers"}
_USED = {"s8": "early", "s16": "middle", "full": "last", "s16+full": "middle, last"}
_VALIDATION_SHARE = 1 / 3
_SECONDS_A_GIGA = 0.02


class Transfer(Workload):
    """Classifiers on frozen features of timm's pretrained backbones, or fine-tuning from them.

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
    plan_space: ClassVar[str | None] = "large"

    def __init__(self, backbones: Sequence[str] = BACKBONES, image_sizes: Sequence[int] = IMAGE_SIZES) -> None:
        self.backbones, self.image_sizes = tuple(backbones), tuple(image_sizes)

    def space(self, name: str | None = None) -> ConfigurationSpace:
        """Build `full`, `frozen` or `large`; see `transfer_space`."""
        space_name = cast("SpaceName", name or SPACES[0])
        return transfer_space(space_name, backbones=self.backbones, image_sizes=self.image_sizes)

    def budget(self, name: str | None = None, *, amount: float | None = None) -> TransferBudget:
        """Return ``time`` (at most 60 seconds of fine-tuning) or ``steps`` (at most 400), or another amount of it."""
        name = name or self.budgets[0]
        if name not in BUDGETS:
            msg = f"expected one of {', '.join(BUDGETS)}, got {name!r}. Leave it out for the first."
            raise UsageError(msg, param="target_budget")
        budget = BUDGETS[name]
        return budget if amount is None else replace(budget, amount=amount)

    def usual_configs(self) -> tuple[Config, ...]:
        """Return first feature sets, cheap ones first, and two fine-tunings, at the largest size and at a small one."""
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
        """Estimate the seconds of a second training: 0 for a head, whose features are cached."""
        return 0.0 if TransferConfig.of(config).tuning is None else duration

    def recipe(
        self, config: Config, program: str, *, dataset: str, n_train: int, n_classes: int, skip_broken: bool = False
    ) -> str:
        """Write a command of timm's `train.py`, a PyTorch script or Hugging Face's `TrainingArguments`."""
        if program not in RECIPES:
            return super().recipe(config, program, dataset=dataset, n_train=n_train, n_classes=n_classes)
        return write_recipe(
            config, program, dataset=dataset, n_train=n_train, n_classes=n_classes, skip_broken=skip_broken
        )

    def run_plan(self, pictures: PictureFacts, *, seconds: float, core_share: float = 1.0) -> RunPlan:
        """Plan heads on frozen features and fine-tunings."""
        return TransferPlan(pictures, self.backbones, seconds=seconds, core_share=core_share)

    def largest_image(self, space: ConfigurationSpace) -> int | None:
        """Return the largest valid `image_size` of a space."""
        sizes = (int(value) for value in _numbers(space.get("image_size")))
        return max((size for size in sizes if SMALLEST <= size <= LARGEST), default=None)

    def space_for_larger(self, side: int, measured: int) -> tuple[str, int] | None:
        """Return the space `large` for pictures larger than the usual images, unless the history has such."""
        return (f"{self.name}:large", LARGER[-1]) if side > IMAGE_SIZES[-1] and measured < LARGER[-1] else None

    def canonical(self, config: Config) -> Config:
        """Return a configuration without hyperparameters of fine-tuning at 0 steps."""
        is_frozen = config.get("steps") == 0
        return {name: value for name, value in config.items() if not (is_frozen and name in TUNING_NAMES)}

    def check(self, config: Config) -> None:
        """Check that all active hyperparameters are present and in their ranges."""
        TransferConfig.of(config)

    def cost(self, config: Config, budget: AnyBudget, *, n_train: int) -> float:
        """Estimate the seconds on one core: a pass over all images for the features, three per step of fine-tuning."""
        parsed, checked_budget = TransferConfig.of(config), transfer_budget(budget)
        features = parsed.features
        giga = _GIGA_MULTIPLY_ADDS.get(features.backbone, 1.0) * (features.image_size / 224) ** 2
        images = n_train * (1 + _VALIDATION_SHARE + features.flip_copies)
        seconds = _SECONDS_A_GIGA * images * giga + 1e-3 * n_train
        if parsed.tuning is None:
            return seconds
        length = checked_budget.steps(parsed.tuning.steps)
        tuning = _SECONDS_A_GIGA * 3 * length * BATCH_SIZE * giga
        return seconds + (tuning if checked_budget.name == "steps" else min(tuning, checked_budget.amount))

    def length(self, budget: AnyBudget) -> str:
        """Describe a budget in words."""
        return f"at most {transfer_budget(budget).amount:g} {budget.unit} of fine-tuning, where there is any"

    def in_words(self, config: Config) -> dict[str, str | None]:
        """Describe a configuration: network, pixels, what is trained, at which rate, and from which features."""
        checked = TransferConfig.of(config)
        features, tuning = checked.features, checked.tuning
        return {
            "network": _NAMES.get(features.backbone, features.backbone),
            "pixels": str(features.image_size),
            "trains": "head only" if tuning is None else _TRAINED[tuning.tuned_stages],
            "rate": None if tuning is None else f"{tuning.learning_rate:.2g}",
            "layers used": _USED[features.depth],
            "flips": "too" if features.flip_copies else "no",
        }

    def steps(self, budget: AnyBudget, *, config: Config | None = None, n_train: int | None = None) -> int | None:  # noqa: ARG002  the interface
        """Return the steps of fine-tuning, 0 for frozen features; None if time ends a run."""
        checked_budget = transfer_budget(budget)
        if config is None:
            return None
        tuning = TransferConfig.of(config).tuning
        if tuning is None:
            return 0
        return checked_budget.steps(tuning.steps) if checked_budget.name == "steps" else None

    def usual_names(self) -> Sequence[str]:
        """Return the hyperparameters of the default space, without ConfigSpace."""
        return (*FEATURE_NAMES, *TUNING_NAMES)

    def needed_names(self, names: Collection[str]) -> Sequence[str]:
        """Return the hyperparameters of a feature set and, if a space has any of fine-tuning, all of these."""
        return self.usual_names() if any(name in names for name in TUNING_NAMES) else FEATURE_NAMES

    def check_space(self, space: ConfigurationSpace) -> None:
        """Check that a space can be trained, and that its backbones exist: networks in timm, weights in files.

        Raises:
            DataError: as `Workload.check_space`, and for a name that is no backbone.
            UsageError: when timm lacks the network, or a package of weights is missing.
            MissingPathError: when a file is missing.
            ModelError: when a file has no weights, or those of another network.
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
        """Check that timm is installed."""
        require_timm()

    def prepare(self, dataset: Dataset, *, device: str | None = None) -> Prepared:
        """Choose the device; images and features are computed on demand, at the sizes of configurations.

        Raises:
            LabelError: when the training part has fewer than two images or the validation part none.
            UsageError: when the device is missing, or timm is not installed.
        """
        require_timm()
        import timm  # noqa: F401  its import takes seconds, which must not count in a run

        from warmstart.training.workloads.transfer.prepared import PreparedTransfer

        return PreparedTransfer(dataset, open_device(device))

    def load(self, path: Path) -> Classifier:
        """Read a saved classifier."""
        require_timm()
        from warmstart.training.workloads.transfer.classifier import TransferClassifier

        return TransferClassifier.load(path)


def _numbers(hyperparameter: Any) -> list[float]:
    """Return the numeric values of a hyperparameter, of a range the largest; empty for None."""
    values = getattr(hyperparameter, "sequence", None) or getattr(hyperparameter, "choices", None)
    values = values or (getattr(hyperparameter, "upper", None), getattr(hyperparameter, "value", None))
    return [value for value in values if isinstance(value, int | float)]
