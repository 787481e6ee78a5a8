"""Depths of a network at which features are taken, and stages of it that are trained. No torch."""

from typing import Literal, get_args

Depth = Literal["s8", "s16", "full", "s16+full"]
DEPTHS: tuple[Depth, ...] = get_args(Depth)
"""The last feature map at 1/8 and at 1/16 of the image's side, the whole network, and the last two side by side."""
TunedStages = Literal["last", "last2", "all"]
TUNED_STAGES: tuple[TunedStages, ...] = get_args(TunedStages)
"""Of the stages that lead to the features: the last one, the last two, or all of them."""
