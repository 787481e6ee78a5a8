"""Plan of a limited time: heads on frozen features first, then fine-tuning until the end, if there is time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from warmstart.history_store.records import Config
from warmstart.training.workloads.dataset import Sample
from warmstart.training.workloads.run_plan import EndedRun, PictureFacts, RunPlan
from warmstart.training.workloads.transfer.config import BATCH_SIZE

SIZES = (64, 96, 128, 160, 224)
"""Image sizes of a plan, pixels of a side."""
SMALLEST_FIT = 128
"""Size for small pictures, which are enlarged: fine-tunings of 28 to 64 pixels did best at it."""
DRAWN_SIZE = 128
"""Largest size of a fine-tuning of drawn pictures: at 224 digits lost 4 points, for want of steps."""
_NEARLY = 0.9
"""Share of the pictures' side at which a size is large enough."""
DEPTH = "s16+full"
"""Features of all heads. The mean of such heads missed 344 of 2,319 photographs, that of heads on the whole network 379; of
drawn signs 26 and 48 of 522."""
_FIRST_SHARE = 0.15
"""Share of the time that the first head may take: it bounds the number of pictures."""
_PICTURE_S = 0.035
"""Seconds of reading a picture and computing its features in the first network at 224 pixels, on a slow core."""
_FEWEST = 300
"""Pictures that are seen whatever the time."""
_HEADS_SHARE = 0.6
"""Share of the time for all heads: their mean was ahead of every single one, and of fine-tunings of few steps."""
_OTHER_NETWORK = 1.4
"""Seconds of the last network in those of the first."""
_STEP_PASSES = 4.0
"""Seconds of a training step in those of a batch's features."""
_LEAST_STEPS = 60
"""Steps below which a fine-tuning at a size gains too little: then a smaller size is taken, or none."""
_LEAST_STEPS_OF_OTHER = 200
"""Steps below which a second fine-tuning, of the other network, is not begun. After one of 400 steps, both were ahead of one of
as many seconds (`scripts/bench/second_tuning.py`)."""
_TUNED_SIZES = 2
"""Sizes of a fine-tuning: with a quarter of the pixels it was behind the heads."""
RECIPE: Config = {
    "steps": 400,
    "learning_rate": 1e-3,
    "body_lr_multiplier": 0.1,
    "tuned_stages": "all",
    "weight_decay": 1e-2,
    "random_flip": True,
    "crop_scale": 0.8,
    "mixup_alpha": 0.0,
    "label_smoothing": 0.0,
}
"""Of the fine-tuning."""


def fitting_size(side: int | None) -> int:
    """Return the image size for pictures of a side: the smallest that has nearly all of their pixels."""
    if side is None:
        return SMALLEST_FIT
    large_enough = (size for size in SIZES if size >= max(_NEARLY * side, SMALLEST_FIT))
    return next(large_enough, SIZES[-1])


class TransferPlan(RunPlan):
    """Plan of one call.

    Heads see photographs at 224 pixels if all can be seen there, else at the size that fits, as drawings: enlarged, three
    sets of photographs of 32 to 100 pixels had 1 to 6 points less error, digits 3 points more.

    Args:
        pictures: of the dataset.
        backbones: of the space, the first one for the first head and the fine-tuning.
        seconds: for all runs.
        core_share: share of a core that a process has on the busy machine.
    """

    def __init__(
        self, pictures: PictureFacts, backbones: Sequence[str], *, seconds: float, core_share: float = 1.0
    ) -> None:
        self.seconds, self.pictures = seconds, pictures
        least = fitting_size(pictures.side)
        sizes = [least] if pictures.is_drawn else [size for size in SIZES if size >= least]
        first_s = _FIRST_SHARE * core_share * seconds
        samples = [Sample(max(_FEWEST, int(first_s / _picture_seconds(size))), size) for size in sizes]
        self.sample = next((sample for sample in samples[::-1] if sample.most >= pictures.count), samples[0])
        self.size = self.sample.size
        smaller = [size for size in SIZES if size < self.size][::-1][:2]
        first, last = backbones[0], backbones[-1]
        self._heads = list(
            dict.fromkeys((network, size) for size, network in product((self.size, *smaller), (first, last)))
        )
        top = min(least, DRAWN_SIZE) if pictures.is_drawn else least
        self._sizes = [size for size in SIZES if size <= top][::-1][:_TUNED_SIZES]
        tunings = product(dict.fromkeys((first, last)), self._sizes)
        tuning = {**RECIPE, "random_flip": not pictures.is_drawn}
        self.configs = (
            *(_features(*head) | {"steps": 0} for head in self._heads),
            *(_features(*pair) | tuning for pair in tunings),
        )
        count = "all pictures" if self.sample.most >= pictures.count else f"{self.sample.most} of the pictures"
        self.line = f"classifiers on the features of {count} at up to {self.size} pixels, then fine-tuning at up to {top} pixels until the time is over"

    def next(self, runs: Mapping[int, EndedRun], *, left: float) -> int | None:
        """Choose the next head while heads have time, then a fine-tuning, and then one of the other network."""
        n_heads = len(self._heads)
        if not runs or 0 not in runs:
            return 0
        spent = sum(run.seconds for index, run in runs.items() if index < n_heads and not run.is_earlier)
        tuned = [run for index, run in runs.items() if index >= n_heads and not run.is_earlier]
        if any(run.error is None for run in tuned):  # it still runs, or gave no error
            return None
        for index in range(1, 1 if tuned else n_heads):
            if index not in runs and spent + self._head_seconds(index, runs) <= _HEADS_SHARE * self.seconds:
                return index
        return self._tuning(runs, left)

    def _head_seconds(self, index: int, runs: Mapping[int, EndedRun]) -> float:
        """Estimate the seconds of a head by those of the first."""
        network, size = self._heads[index]
        ratio = 1.0 if network == self._heads[0][0] else _OTHER_NETWORK
        return ratio * (size / self.size) ** 2 * runs[0].seconds

    def _tuning(self, runs: Mapping[int, EndedRun], left: float) -> int | None:
        """Choose the largest size that leaves enough steps, and where it is done the other network at that size."""
        step = _STEP_PASSES * BATCH_SIZE * runs[0].metrics.get("picture_seconds", _picture_seconds(self.size))
        for index, size in enumerate(self._sizes, start=len(self._heads)):
            steps, other = left / step * (self.size / size) ** 2, index + len(self._sizes)
            if index not in runs and steps >= _LEAST_STEPS:
                return index
            if index in runs and runs[index].error is not None:
                has_other = other < len(self.configs) and other not in runs
                return other if has_other and steps >= _OTHER_NETWORK * _LEAST_STEPS_OF_OTHER else None
        return None


def _picture_seconds(size: int) -> float:
    return _PICTURE_S * (size / SIZES[-1]) ** 2


def _features(backbone: str, size: int) -> dict[str, str | int | bool | float]:
    return {"backbone": backbone, "image_size": size, "depth": DEPTH, "flip_copies": False}
