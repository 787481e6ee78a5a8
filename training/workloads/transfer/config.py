"""Configuration of the transfer workload, checked and cast. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from warmstart.history_store.errors import DataError
from warmstart.history_store.records import Config
from warmstart.metafeat.pretrained.depths import DEPTHS, TUNED_STAGES, Depth, TunedStages

FEATURE_NAMES = ("backbone", "image_size", "depth", "flip_copies", "steps")
"""Hyperparameters of every configuration."""
TUNING_NAMES = (
    "learning_rate",
    "body_lr_multiplier",
    "tuned_stages",
    "weight_decay",
    "random_flip",
    "crop_scale",
    "mixup_alpha",
    "label_smoothing",
)
"""Further hyperparameters of configurations with steps > 0."""
HEADS = ("auto", "ridge", "knn", "centroid", "logistic")
SMALLEST, LARGEST = 16, 1024
BATCH_SIZE = 16
"""Images of a step of fine-tuning."""
WARM_UP = 0.1
"""Share of a fine-tuning in which the learning rate rises; afterwards it falls as a cosine to zero."""
FIRST_RATE = 0.01
"""Offset of the finished share in the warm-up, so that the first step has a rate above 0."""
MORE = 1200
"""Most steps of a fine-tuning that is given a time."""


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Features of the images for a head.

    Attributes:
        backbone: name as `find_backbone` takes it.
        image_size: pixels of a side.
        depth: of the features in the network.
        flip_copies: train on the mirrored images too.
    """

    backbone: str
    image_size: int
    depth: Depth
    flip_copies: bool


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the fine-tuning from the head on frozen features.

    Attributes:
        steps: of AdamW, ≥ 1.
        learning_rate: highest rate of the head.
        body_lr_multiplier: learning rate of the body divided by that of the head.
        tuned_stages: trained part of the body.
        weight_decay: of AdamW.
        random_flip: mirror half of the images.
        crop_scale: least share of an image's area in a crop; 1 = no crops.
        mixup_alpha: of the Beta distribution; 0 = none.
        label_smoothing: in [0, 1).
        batch_size: images of a step.
    """

    steps: int
    learning_rate: float
    body_lr_multiplier: float
    tuned_stages: TunedStages
    weight_decay: float
    random_flip: bool
    crop_scale: float
    mixup_alpha: float
    label_smoothing: float
    batch_size: int = BATCH_SIZE


@dataclass(frozen=True, slots=True)
class TransferConfig:
    """Configuration of the transfer workload.

    Attributes:
        features: of the head.
        head: ``auto`` = the best of logistic regression, ridge, nearest neighbours and centroids on left-out training
            images, before a fine-tuning of the first two; or one kind.
        tuning: None = frozen features.
    """

    features: FeatureSet
    head: str = "auto"
    tuning: Tuning | None = None

    @classmethod
    def of(cls, config: Config) -> TransferConfig:
        """Check and cast a configuration; with 0 steps the hyperparameters of fine-tuning are ignored.

        Raises:
            DataError: when a hyperparameter is missing, unknown or out of range.
        """
        names = list(FEATURE_NAMES)
        try:
            steps = _whole(config["steps"])
            names = [*FEATURE_NAMES, *(TUNING_NAMES if steps > 0 else ())]
            values: dict[str, Any] = {name: config[name] for name in names}
            depth, size = str(values["depth"]), _whole(values["image_size"])
            features = FeatureSet(str(values["backbone"]), size, cast("Depth", depth), _truth(values["flip_copies"]))
            tuning = _tuning(steps, values) if steps > 0 else None
        except KeyError as error:
            lacking = [name for name in names if name not in config]
            msg = f"transfer: expected values for {', '.join(names)}, got none for {', '.join(lacking)}. The space must be the workload's: give `space` as transfer."
            raise DataError(msg) from error
        except (TypeError, ValueError, OverflowError) as error:
            msg = f"transfer: expected whole numbers for steps and image_size, numbers for rates, true or false for flip_copies and random_flip, got {dict(config)}. Correct the configuration."
            raise DataError(msg) from error
        parsed = cls(features, str(config.get("head", "auto")), tuning)
        allowed_names = (*FEATURE_NAMES, *TUNING_NAMES, "head")
        extra = [name for name in config if name not in allowed_names]
        checks = [(not extra, f"no more than {', '.join(allowed_names)}", ", ".join(extra)), *_ranges(parsed, steps)]
        wrong = [(range_text, str(value)) for is_right, range_text, value in checks if not is_right]
        if wrong:
            expected, got = ("; ".join(column) for column in zip(*wrong, strict=True))
            msg = f"transfer: expected {expected}, got {got}. Correct the configuration, or the space that it is from."
            raise DataError(msg)
        return parsed


def _tuning(steps: int, values: dict[str, Any]) -> Tuning:
    return Tuning(
        steps=steps,
        learning_rate=float(values["learning_rate"]),
        body_lr_multiplier=float(values["body_lr_multiplier"]),
        tuned_stages=cast("TunedStages", str(values["tuned_stages"])),
        weight_decay=float(values["weight_decay"]),
        random_flip=_truth(values["random_flip"]),
        crop_scale=float(values["crop_scale"]),
        mixup_alpha=float(values["mixup_alpha"]),
        label_smoothing=float(values["label_smoothing"]),
    )


def _ranges(config: TransferConfig, steps: int) -> list[tuple[bool, str, object]]:
    """Return for every hyperparameter whether it is in its range, the range as text, and the value."""
    features, tuning = config.features, config.tuning
    heads, condition = (HEADS, "") if tuning is None else (("auto", "ridge", "logistic"), " with steps > 0")
    checks: list[tuple[bool, str, object]] = [
        (bool(features.backbone), "the name of a backbone", features.backbone),
        (features.depth in DEPTHS, f"depth one of {', '.join(DEPTHS)}", features.depth),
        (SMALLEST <= features.image_size <= LARGEST, f"{SMALLEST} ≤ image_size ≤ {LARGEST}", features.image_size),
        (steps >= 0, "steps ≥ 0", steps),
        (config.head in heads, f"head one of {', '.join(heads)}{condition}", config.head),
    ]
    if tuning is None:
        return checks
    checks += [
        (tuning.tuned_stages in TUNED_STAGES, f"tuned_stages one of {', '.join(TUNED_STAGES)}", tuning.tuned_stages),
        (0 < tuning.learning_rate < math.inf, "learning_rate > 0 and finite", tuning.learning_rate),
        (0 <= tuning.body_lr_multiplier < math.inf, "body_lr_multiplier ≥ 0 and finite", tuning.body_lr_multiplier),
        (0 <= tuning.weight_decay < math.inf, "weight_decay ≥ 0 and finite", tuning.weight_decay),
        (0 < tuning.crop_scale <= 1, "0 < crop_scale ≤ 1", tuning.crop_scale),
        (0 <= tuning.mixup_alpha < math.inf, "mixup_alpha ≥ 0 and finite", tuning.mixup_alpha),
        (0 <= tuning.label_smoothing < 1, "0 ≤ label_smoothing < 1", tuning.label_smoothing),
    ]
    return checks


def _whole(value: object) -> int:
    """Convert a value to a whole number, or raise ValueError."""
    number = float(str(value))
    if not number.is_integer():  # False for infinity
        raise ValueError(value)
    return int(number)


def _truth(value: object) -> bool:
    """Convert a value to a truth value, or raise ValueError."""
    if str(value).lower() in ("true", "1"):
        return True
    if str(value).lower() in ("false", "0"):
        return False
    raise ValueError(value)
