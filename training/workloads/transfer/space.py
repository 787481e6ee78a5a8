"""Spaces of the transfer workload. ConfigSpace is imported on use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from warmstart.history_store.errors import UsageError
from warmstart.metafeat.pretrained.backbones import PACKAGED
from warmstart.metafeat.pretrained.depths import DEPTHS, TUNED_STAGES

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

SpaceName = Literal["full", "frozen", "large"]
SPACES: tuple[SpaceName, ...] = get_args(SpaceName)
BACKBONES = tuple(PACKAGED)
IMAGE_SIZES = (32, 64, 96, 128)
LARGER = (160, 224)
"""Image sizes for large pictures, pixels of a side: one of 224 costs three times one of 128."""
STEPS = (0, 40, 120, 400)


def transfer_space(
    name: SpaceName = "full",
    *,
    backbones: Sequence[str] = BACKBONES,
    image_sizes: Sequence[int] = IMAGE_SIZES,
    steps: Sequence[int] = STEPS,
) -> ConfigurationSpace:
    """Build a space of the workload: a feature set and, for steps > 0, settings of fine-tuning.

    Args:
        name: `full`; `frozen`, whose only number of steps is 0; or `large`, with image sizes of 160 and 224 pixels too.
        backbones: as `find_backbone` takes them.
        image_sizes: pixels of a side, rising.
        steps: of fine-tuning, rising from 0.

    Raises:
        UsageError: when the name is unknown.
    """
    from ConfigSpace import Categorical, ConfigurationSpace, Constant, Float, InCondition, OrdinalHyperparameter

    if name not in SPACES:
        msg = f"transfer:{name}: expected a space of the workload, one of {', '.join(SPACES)}, got {name!r}. Give a file for another space."
        raise UsageError(msg)
    if name == "large":
        image_sizes = sorted({*image_sizes, *LARGER})
    space = ConfigurationSpace(name=f"transfer-{name}")
    space.add(
        Categorical("backbone", list(backbones), default=backbones[0]),
        OrdinalHyperparameter("image_size", list(image_sizes), default_value=image_sizes[min(1, len(image_sizes) - 1)]),
        Categorical("depth", list(DEPTHS), default="s16+full"),
        Categorical("flip_copies", [False, True], default=False),
    )
    if name == "frozen":
        space.add(Constant("steps", 0))
        return space
    length = OrdinalHyperparameter("steps", list(steps), default_value=steps[0])
    tuning = (
        Float("learning_rate", (1e-4, 1e-2), log=True, default=1e-3),
        Float("body_lr_multiplier", (0.01, 1.0), log=True, default=0.1),
        Categorical("tuned_stages", list(TUNED_STAGES), default="last2"),
        Float("weight_decay", (1e-5, 1e-1), log=True, default=1e-2),
        Categorical("random_flip", [False, True], default=False),
        Float("crop_scale", (0.5, 1.0), default=0.8),
        Float("mixup_alpha", (0.0, 0.4), default=0.0),
        Float("label_smoothing", (0.0, 0.2), default=0.1),
    )
    space.add(length, *tuning)
    space.add(*(InCondition(child, length, [count for count in steps if count > 0]) for child in tuning))
    return space
