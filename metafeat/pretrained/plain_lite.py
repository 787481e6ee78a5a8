"""EfficientNet-Lite0 in numpy: importing torch takes longer than the features of a few hundred small images."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from warmstart.history_store.errors import ModelError
from warmstart.metafeat.pretrained.depths import Features

ARCHITECTURE = "tf_efficientnet_lite0"
BATCHES, _OF_SIDE = (4, 32), 64
"""Images of one pass, before and after an eighth of the side, and their side: their feature maps stay in the processor's
cache."""
_EPSILON = 1e-3
_STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
"""Blocks of each stage, and the stride of its first one."""
_AT_8, _AT_16 = 2, 4
"""Stages whose maps are the last at an eighth and a sixteenth of the image's side."""
Maps = NDArray[np.float32]
"""Feature maps, `n x height x width x channels`."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """A convolution with the norm behind it folded in.

    Attributes:
        weight: `k x k x out` of a depthwise convolution, `(k * k * in) x out` of another one.
        bias: `out`.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    @classmethod
    def of(cls, kernel: NDArray[np.float32], factor: NDArray[np.float32], bias: NDArray[np.float32]) -> Self:
        """Build a layer from a kernel `out x in x k x k`."""
        scaled = (kernel * factor[:, None, None, None]).transpose(2, 3, 1, 0)
        is_depthwise = scaled.shape[0] > 1 and scaled.shape[2] == 1
        return cls(np.ascontiguousarray(scaled[:, :, 0] if is_depthwise else scaled.reshape(-1, len(kernel))), bias)

    def mix(self, maps: Maps) -> Maps:
        """Combine the channels of each position."""
        mixed: Maps = maps.reshape(-1, maps.shape[-1]) @ self.weight
        mixed += self.bias
        return mixed.reshape(*maps.shape[:-1], -1)

    def convolve(self, maps: Maps, side: int, stride: int) -> Maps:
        """Convolve maps by a kernel of `side` pixels over all channels."""
        windows = sliding_window_view(_padded(maps, side, stride), (side, side), axis=(1, 2))
        patches = windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
        return self.mix(patches.reshape(*patches.shape[:3], -1))

    def filter(self, maps: Maps, stride: int) -> Maps:
        """Cut maps to [0, 6], convolve each channel by itself and cut again."""
        side, channels = len(self.weight), maps.shape[3]
        padded = _padded(maps, side, stride, cut=True)
        n, (height, width) = len(maps), (-(-length // stride) for length in maps.shape[1:3])
        parts = []
        # The columns that a tap of the kernel meets are laid side by side: numpy is quick with long rows.
        for first in range(stride):
            weight = np.tile(self.weight[:, first::stride], width)
            rows = padded[:, :, first::stride].reshape(n, padded.shape[1], -1)
            to_image, to_row, to_value = rows.strides
            steps = (to_image, stride * to_row, to_row, channels * to_value, to_value)
            windows = as_strided(rows, (n, height, *weight.shape), steps)
            parts.append(np.einsum("nhyxm,yxm->nhm", windows, weight))
        filtered: Maps = reduce(np.add, parts).reshape(n, height, width, channels)
        filtered += self.bias
        return _relu6(filtered)


class PlainLite0:
    """The network with pooled features, as `warmstart.metafeat.pretrained.features.FeatureNetwork`.

    Args:
        weights: file of the weights.

    Raises:
        ModelError: the weights cannot be read, or are another network's.
    """

    def __init__(self, weights: Path) -> None:
        layers = _layers(weights)
        try:
            self._stem = next(layers)
            # The blocks of the first stage do not expand their maps.
            self._blocks = [
                [[next(layers) for _ in range(2 if stage == 0 else 3)] for _ in range(repeats)]
                for stage, (repeats, _) in enumerate(_STAGES)
            ]
            self._head = next(layers)
        except (StopIteration, ValueError, IndexError) as error:
            msg = f"{weights}: expected the weights of {ARCHITECTURE}, got others. Install its package anew."
            raise ModelError(msg) from error

    def features(self, images: NDArray[np.uint8], progress: Callable[[int], object] | None = None) -> Features:
        """Compute the features of images.

        Args:
            images: `n x s x s x c` uint8, c = 1 or 3.
            progress: called after each batch with the number of images that are done.
        """
        n = len(images)
        first, then = (max(1, round(batch * (_OF_SIDE / images.shape[1]) ** 2)) for batch in BATCHES)
        early, late = [], []
        for start in range(0, n, first):
            batch = images[start : start + first]
            pixels = np.broadcast_to(batch, (*batch.shape[:3], 3)).astype(np.float32)
            early.append(self._stages(self._stem.convolve(pixels / 127.5 - 1, 3, 2), 0, _AT_8))
            if progress is not None:
                progress(start + len(batch))
        maps = np.concatenate(early)
        for start in range(0, n, then):
            middle = self._stages(maps[start : start + then], _AT_8 + 1, _AT_16)
            last = self._stages(middle, _AT_16 + 1, len(_STAGES) - 1)
            late.append((middle.mean((1, 2)), _relu6(self._head.mix(last)).mean((1, 2))))
        return Features(maps.mean((1, 2)), *(np.concatenate(part) for part in zip(*late, strict=True)))

    def _stages(self, maps: Maps, first: int, last: int) -> Maps:
        """Apply stages, the last one included."""
        for stage in range(first, last + 1):
            for number, block in enumerate(self._blocks[stage]):
                maps = _block(block, maps, _STAGES[stage][1] if number == 0 else 1)
        return maps


def _block(layers: list[_Layer], maps: Maps, stride: int) -> Maps:
    """Apply an inverted residual: expand, filter each channel, project; added to its input where both are alike."""
    *expand, depthwise, project = layers
    inner = maps
    for layer in expand:
        inner = layer.mix(inner)
    output = project.mix(depthwise.filter(inner, stride))
    if output.shape == maps.shape:
        output += maps
    return output


def _relu6(maps: Maps) -> Maps:
    """Cut maps to [0, 6], in place."""
    return np.clip(maps, 0, 6, out=maps)


def _padded(maps: Maps, side: int, stride: int, *, cut: bool = False) -> Maps:
    """Pad maps, cut to [0, 6] or as they are, with zeros as TensorFlow does, for a kernel of `side` pixels."""
    height, width = maps.shape[1:3]
    down, right = (max((-(-length // stride) - 1) * stride + side - length, 0) for length in (height, width))
    top, left = down // 2, right // 2
    padded = np.empty((len(maps), height + down, width + right, maps.shape[3]), dtype=np.float32)
    for border in (padded[:, :top], padded[:, top + height :], padded[:, :, :left], padded[:, :, left + width :]):
        border[:] = 0
    inside = padded[:, top : top + height, left : left + width]
    if cut:
        np.clip(maps, 0, 6, out=inside)
    else:
        inside[:] = maps
    return padded


def _layers(weights: Path) -> Iterator[_Layer]:
    """Yield the convolutions of a file of weights in their order, each with its norm folded in."""
    tensors = iter(read_tensors(weights).values())
    for kernel in tensors:
        if kernel.ndim != 4:  # the classifier
            return
        scale, shift, mean, variance, _ = (next(tensors) for _ in range(5))
        factor = (scale / np.sqrt(variance + _EPSILON)).astype(np.float32)
        yield _Layer.of(kernel, factor, shift - mean * factor)


_STORAGES = {"FloatStorage": np.float32, "LongStorage": np.int64}


def read_tensors(path: Path) -> Mapping[str, NDArray[Any]]:
    """Read the tensors of a state dict by name; nothing in the file is executed.

    Raises:
        ModelError: the file is not of this form, or cut short.
    """
    try:
        with path.open("rb") as file:
            for _ in range(3):  # a number that marks the form, its version, facts of the machine
                _Unpickler(file).load()
            reader = _Unpickler(file)
            tensors = reader.load()
            for key in _Unpickler(file).load():
                _fill(reader.storages[key], file)
    except (OSError, EOFError, pickle.UnpicklingError, KeyError, ValueError, TypeError, AttributeError) as error:
        msg = f"{path}: expected tensors as torch saves them, got {type(error).__name__}. Install the weights anew."
        raise ModelError(msg) from error
    return dict(tensors)


class _Unpickler(pickle.Unpickler):
    """Build tensors as arrays over storages that are filled later; everything else is refused."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, NDArray[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class of the file."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        msg = f"{module}.{name}"
        raise pickle.UnpicklingError(msg)

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        """Return the storage of ``("storage", type, key, device, length, view)``."""
        _, dtype, key, _, length, _ = pid
        return self.storages.setdefault(key, np.empty(length, dtype=dtype))


def _fill(storage: NDArray[Any], file: BinaryIO) -> None:
    """Read the values of a storage, behind their number.

    Raises:
        EOFError: there are fewer, or others.
    """
    if int.from_bytes(file.read(8), "little") != storage.size or file.readinto(storage.data) != storage.nbytes:  # type: ignore[attr-defined]
        raise EOFError


def _tensor(
    storage: NDArray[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> NDArray[Any]:
    """Return a tensor as a view of its storage; the strides count values.

    Raises:
        ValueError: it reaches outside.
    """
    last = offset + sum((length - 1) * step for length, step in zip(shape, strides, strict=True))
    if offset < 0 or min((*shape, *strides, 1)) < 0 or last >= storage.size:
        msg = f"tensor of {shape}: outside its storage"
        raise ValueError(msg)
    steps = [step * storage.itemsize for step in strides]
    return as_strided(storage[offset:], shape, steps)
