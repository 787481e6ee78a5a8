"""EfficientNet-Lite0 as plain torch functions: timm's network, without timm, whose import takes longer than landmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from warmstart.history_store.errors import ModelError
from warmstart.metafeat.pretrained.backbones import HALF, read_weights

ARCHITECTURE = "tf_efficientnet_lite0"
_EPSILON = 1e-3
_STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
"""Blocks of each stage, and the stride of its first one."""
_AT_8, _AT_16 = 2, 4
"""Stages whose maps are the last at an eighth and a sixteenth of the image's side."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """A convolution with the norm behind it folded in.

    Attributes:
        weight: `out x in x k x k`.
        bias: `out`.
        groups: of the convolution; more than one in a depthwise one.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    groups: int

    def __call__(self, maps: torch.Tensor, stride: int = 1) -> torch.Tensor:
        """Convolve maps, padded as TensorFlow does."""
        kernel = self.weight.shape[-1]
        pads = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in maps.shape[:1:-1]]
        if any(pads):
            maps = functional.pad(maps, [part for pad in pads for part in (pad // 2, pad - pad // 2)])
        return functional.conv2d(maps, self.weight, self.bias, stride, groups=self.groups)


class PlainLite0:
    """The network with pooled features, as `warmstart.metafeat.pretrained.features.FeatureNetwork`.

    Args:
        weights: file of the weights.
        device: of torch.

    Raises:
        ModelError: the weights cannot be read, or are another network's.
    """

    def __init__(self, weights: Path, device: torch.device) -> None:
        self.mean = torch.tensor(HALF, device=device).view(1, 3, 1, 1)
        layers = _layers(weights, device)
        try:
            self._stem = next(layers)
            # The blocks of the first stage do not expand their maps.
            sizes = [2 if stage == 0 else 3 for stage, (repeats, _) in enumerate(_STAGES) for _ in range(repeats)]
            self._blocks = [[next(layers) for _ in range(size)] for size in sizes]
            self._head = next(layers)
        except StopIteration as error:
            msg = f"{weights}: expected the weights of {ARCHITECTURE}, got fewer tensors. Install its package anew."
            raise ModelError(msg) from error

    def __call__(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Compute the features of pixels `n x 3 x size x size` in [0, 1], `n x d` a depth."""
        maps = functional.relu6(self._stem((pixels - self.mean) / self.mean, 2))
        blocks, pooled = iter(self._blocks), dict[str, torch.Tensor]()
        for stage, (repeats, stride) in enumerate(_STAGES):
            for number in range(repeats):
                maps = _block(next(blocks), maps, stride if number == 0 else 1)
            if stage in (_AT_8, _AT_16):
                pooled["s8" if stage == _AT_8 else "s16"] = maps.mean((2, 3))
        return {**pooled, "full": functional.relu6(self._head(maps)).mean((2, 3))}


def _block(layers: list[_Layer], maps: torch.Tensor, stride: int) -> torch.Tensor:
    """Apply an inverted residual: expand, filter each channel, project; added to its input where both are alike."""
    *first, project = layers
    inner = maps
    for layer in first:
        inner = functional.relu6(layer(inner, stride if layer.groups > 1 else 1))
    output = project(inner)
    return output + maps if output.shape == maps.shape else output


def _layers(weights: Path, device: torch.device) -> Iterator[_Layer]:
    """Yield the convolutions of a file of weights in their order, each with its norm folded in."""
    tensors = iter(read_weights(weights).values())
    for kernel in tensors:
        if kernel.dim() != 4:  # the classifier
            return
        scale, shift, mean, variance, _ = (next(tensors) for _ in range(5))
        factor = scale / (variance + _EPSILON).sqrt()
        folded = (kernel * factor[:, None, None, None]).to(device, memory_format=torch.channels_last)
        is_depthwise = kernel.shape[1] == 1
        yield _Layer(folded, (shift - mean * factor).to(device), len(kernel) if is_depthwise else 1)
