"""Settings of the Siamese training, and the presets `paper` and `modern`."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from warmstart.history_store.errors import UsageError
from warmstart.metafeat.spec import Extractor, ModelSpec

PresetName = Literal["paper", "modern"]
_CHOICES = {
    "sampling": ("pairs", "all_pairs"),
    "loss": ("absolute", "squared"),
    "schedule": ("exponential", "cosine", "constant"),
    "keep": ("best", "last"),
    "precision": ("auto", "float32", "bfloat16"),
}


@dataclass(frozen=True, slots=True)
class SiameseSettings:
    """Settings that determine a training run, together with data and seed.

    Attributes:
        spec: architecture, label code, τ and target distance.
        steps: updates.
        sampling: `pairs`: each step draws pairs i ≠ j, with τ images for each network (Algorithm 2 with one pair per
            step); `all_pairs`: each step draws datasets, τ images of each, and uses every pair of them.
        batch: pairs per step (`pairs`) or datasets per step (`all_pairs`).
        loss: `absolute`: L2 norm of the residuals of the step, for one pair their absolute value;
            `squared`: their mean square.
        learning_rate: Adam's, at step 0.
        schedule: `exponential`: times exp(−decay · step); `cosine`: down to 0 at the last step.
        decay: of the exponential schedule.
        weight_decay: decoupled weight decay (AdamW); 0 = plain Adam.
        validate_every: steps between validations on held-out datasets.
        keep: weights of the best validation Spearman, or the last ones; without held-out datasets the last.
        precision: of the convolutions: `auto` = bfloat16 if the processor supports it.
    """

    spec: ModelSpec
    steps: int = 2000
    sampling: Literal["pairs", "all_pairs"] = "pairs"
    batch: int = 1
    loss: Literal["absolute", "squared"] = "absolute"
    learning_rate: float = 1e-4
    schedule: Literal["exponential", "cosine", "constant"] = "exponential"
    decay: float = 1e-3
    weight_decay: float = 0.0
    validate_every: int = 100
    keep: Literal["best", "last"] = "last"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                msg = f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}. Choose one of them."
                raise UsageError(msg)
        least = {"steps": 1, "batch": 2 if self.sampling == "all_pairs" else 1, "validate_every": 1}
        for name, minimum in least.items():
            if type(getattr(self, name)) is not int or getattr(self, name) < minimum:
                msg = f"{name}: expected a whole number ≥ {minimum}, got {getattr(self, name)!r}. Choose a larger one."
                raise UsageError(msg)
        for name in ("learning_rate", "decay", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                msg = f"{name}: expected a finite number ≥ 0, got {getattr(self, name)!r}. Choose another."
                raise UsageError(msg)

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if self.schedule == "exponential":
            return self.learning_rate * math.exp(-self.decay * step)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.learning_rate

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types, the spec nested."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "SiameseSettings":
        """Read a record of `to_dict`, as in a model's header; further fields, such as the seed, are ignored.

        Raises:
            UsageError: when a field is missing or out of range.
        """
        names = [field.name for field in dataclasses.fields(cls) if field.name != "spec"]
        lacking = [name for name in (*names, "spec") if name not in fields]
        if lacking:
            msg = f"training settings: expected {', '.join(lacking)}, got {', '.join(sorted(fields))}. Train the model with this version."
            raise UsageError(msg)
        return cls(ModelSpec(**fields["spec"]), **{name: fields[name] for name in names})


def preset(name: PresetName, *, extractor: Extractor | None = None) -> SiameseSettings:
    """Return a named preset.

    `paper`: [Kim2017warmstart] as published: Algorithm 2 with one pair per step, τ = 200, absolute loss on the summed
    L1 distance, class index as one extra dimension, 2,000 steps at 1e-4 · exp(−1e-3 t). `modern`: every pair of up to
    64 datasets per step on their handcrafted features; `research/meta-features.md` has the comparisons behind it.

    Args:
        name: of the preset.
        extractor: another set encoder than the preset's (`bilstm` for paper, `handcrafted` for modern). Encoders of
            images have other steps and rates in modern; paper has no `handcrafted`.

    Raises:
        UsageError: when the name is unknown, or with `handcrafted` in paper.
    """
    if name not in ("paper", "modern"):
        msg = f"preset: expected 'paper' or 'modern', got {name!r}. Choose one of them."
        raise UsageError(msg)
    if name == "paper":
        return SiameseSettings(ModelSpec(extractor=extractor or "bilstm", label_code="scalar", target="l1"))
    if extractor in (None, "handcrafted"):  # no images to read: a step over all datasets costs milliseconds
        spec = ModelSpec(extractor="handcrafted", handcrafted=True, label_code="none", tau=1, target="mean_l1")
        steps, batch, learning_rate, weight_decay = 400, 64, 3e-3, 3.0
    else:
        spec = ModelSpec(extractor=extractor, label_code="rank", tau=64, target="mean_l1")
        steps, batch, learning_rate, weight_decay = 300, 8, 1e-3, 0.0
    return SiameseSettings(
        spec,
        steps=steps,
        sampling="all_pairs",
        batch=batch,
        loss="squared",
        learning_rate=learning_rate,
        schedule="cosine",
        weight_decay=weight_decay,
    )
