"""A workload's own plan of a limited time: which configurations it tries one after the other, and on which pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.images import ImageSource
from warmstart.history_store.records import Config
from warmstart.training.workloads.dataset import Sample

_LOOKED_AT, _LOOK_SIZE = 24, 64
"""Pictures, and pixels of a side, by which drawn pictures are told from photographs."""
_GREY = 2.0
"""Largest mean distance, in levels of 256, of the channels of a grey picture from their mean."""
_LEVELS, _LEVEL_SHARE = 16, 0.5
"""Of so many levels of brightness one has at least this share of the pixels of a drawn picture: its ground..."""
_FLAT, _FLAT_SHARE = 2.0, 0.6
"""...and at least this share of its pixels differ by at most so many levels of 256 from their neighbours. Both parted
pictures of pens, prints and outlines from photographs on each of 95 image sets."""


@dataclass(frozen=True, slots=True)
class PictureFacts:
    """What a plan asks of a dataset.

    Attributes:
        count: of the pictures.
        side: usual length of their shorter side, in pixels; None = unknown.
        is_drawn: whether most are drawn, written or printed on an even ground, in one colour.
    """

    count: int
    side: int | None
    is_drawn: bool

    @classmethod
    def of(cls, source: ImageSource, side: int | None) -> PictureFacts:
        """Return the facts of a dataset, by a few of its pictures; `side` as above."""
        rows = np.unique(np.linspace(0, len(source) - 1, _LOOKED_AT).astype(int))
        images = source.read(rows, size=_LOOK_SIZE, skip_broken=True).images
        return cls(len(source), side, len(images) > 0 and are_drawn(images))


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run of a plan's configuration.

    Attributes:
        error: None = it gave none, or still runs.
        seconds: that it took; 0 = unknown.
        is_earlier: whether it ended before the present call.
        metrics: other numbers that it gave.
    """

    error: float | None
    seconds: float
    is_earlier: bool
    metrics: Mapping[str, float] = field(default_factory=dict)


class RunPlan(ABC):
    """Plan of the runs of one call.

    Attributes:
        configs: all that it may try.
        sample: the pictures that its runs see.
        line: description for people.
    """

    configs: tuple[Config, ...]
    sample: Sample
    line: str

    @abstractmethod
    def next(self, runs: Mapping[int, EndedRun], *, left: float) -> int | None:
        """Choose the next configuration.

        Args:
            runs: of this and of earlier calls, by their configurations' indices.
            left: seconds for runs.

        Returns: its index, or None if nothing is worth the time that is left.
        """


def are_drawn(images: NDArray[np.uint8]) -> bool:
    """Tell whether most of some pictures are drawn, written or printed on an even ground, in one colour.

    Args:
        images: `n x s x s x c` uint8.
    """
    levels = images.astype(np.float64)
    brightness = levels.mean(3)
    if np.abs(levels - brightness[..., None]).mean() >= _GREY:
        return False
    binned = (brightness * _LEVELS / 256).astype(np.int64)
    grounds = [np.bincount(picture.ravel()).max() / picture.size for picture in binned]
    flat = (np.abs(np.diff(brightness, axis=2)) <= _FLAT).mean((1, 2))
    return bool(np.median(grounds) >= _LEVEL_SHARE and np.median(flat) >= _FLAT_SHARE)
