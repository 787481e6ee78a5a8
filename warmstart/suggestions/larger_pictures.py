"""The pixels of pictures, and a note for those with more than a history has measured."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers.base import Source
from warmstart.training.workloads import Workload
from warmstart.training.workloads.run_plan import PictureFacts, are_drawn

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

_SAMPLED = 9
_LOOKED_AT, _LOOK_SIZE = 24, 64
"""Pictures, and pixels of a side, by which drawn pictures are told from photographs."""


def larger_pictures_note(
    source: ImageSource,
    configs: Sequence[Mapping[str, object]],
    workload: Workload,
    space: "ConfigurationSpace | None" = None,
) -> str | None:
    """Recommend a space with larger images for large pictures; None where the history's is large enough.

    Args:
        source: the pictures.
        configs: of the history.
        workload: of the history.
        space: of the suggestions, if not the history's.
    """
    measured = max((size for config in configs if isinstance(size := config.get("image_size"), int)), default=None)
    side = None if measured is None else typical_picture_side(source)
    if side is None or measured is None or (larger := workload.space_for_larger(side, measured)) is None:
        return None
    _, largest = larger
    step = f"`warmstart classify` and `warmstart tune` try {largest}."
    if space is not None:
        here = workload.largest_image(space)
        if here is None or here <= measured:
            return None
        step = f"try the first of these at image_size {here} too, as `tune` does."
    return (
        f"Your pictures have about {side} pixels a side, and the history measured {measured} at most. Photographs can gain "
        f"much from more: {step}"
    )


def typical_picture_side(source: ImageSource) -> int | None:
    """Return the median of the shorter side of a few pictures, in pixels; None where unknown."""
    # A plugin's reader may have no `side`.
    if not isinstance(source, Source):
        return None
    rows = np.unique(np.linspace(0, len(source) - 1, _SAMPLED).astype(int)).tolist()
    sides = [side for row in rows if (side := source.side(row)) is not None]
    return int(np.median(sides)) if sides else None


def picture_facts(source: ImageSource) -> PictureFacts:
    """Return what a workload's plan asks of a dataset, by a few of its pictures."""
    rows = np.unique(np.linspace(0, len(source) - 1, _LOOKED_AT).astype(int))
    images = source.read(rows, size=_LOOK_SIZE, skip_broken=True).images
    return PictureFacts(len(source), typical_picture_side(source), len(images) > 0 and are_drawn(images))
