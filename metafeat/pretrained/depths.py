"""Depths of a network at which features are taken, the features, and stages of it that are trained. No torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Depth = Literal["s8", "s16", "full", "s16+full"]
DEPTHS: tuple[Depth, ...] = get_args(Depth)
"""The last feature map at 1/8 and at 1/16 of the image's side, the whole network, and the last two side by side."""
TunedStages = Literal["last", "last2", "all"]
TUNED_STAGES: tuple[TunedStages, ...] = get_args(TunedStages)
"""Of the stages that lead to the features: the last one, the last two, or all of them."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features of `n` images, averaged over the positions of a feature map.

    Attributes:
        s8: `n x d8` float32, of the last map at an eighth of the image's side.
        s16: `n x d16` float32, at a sixteenth.
        full: `n x d` float32, of the whole network, before its classifier.
    """

    s8: NDArray[np.float32]
    s16: NDArray[np.float32]
    full: NDArray[np.float32]

    def at(self, depth: Depth) -> NDArray[np.float32]:
        """Return the features at a depth, `n x d`; both side by side for ``s16+full``."""
        parts = [getattr(self, part) for part in depth.split("+")]
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that the features take."""
        return self.s8.nbytes + self.s16.nbytes + self.full.nbytes

    def rows(self, rows: NDArray[np.int64]) -> Features:
        """Return the features of some images."""
        return Features(*(getattr(self, field.name)[rows] for field in fields(self)))
