"""Pooled features of a pretrained network at three depths, and their cache on disk."""

from __future__ import annotations

import hashlib
import logging
import os
import zlib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from warmstart.history_store.errors import StorageError, UsageError
from warmstart.metafeat.cache import cache_folder, cached_files
from warmstart.metafeat.files import read_ordinary, remove_leftovers, replace_file
from warmstart.metafeat.pretrained.backbones import Backbone, build_backbone, normalisation
from warmstart.metafeat.pretrained.depths import Depth, Features
from warmstart.metafeat.pretrained.folding import fold_batch_norms

if TYPE_CHECKING:
    from torch import nn

_BATCH, _CPU_BATCH = 32, 8
_MANY = 100
"""Images from which folding the batch norms pays: it takes some tenths of a second."""
LIMIT_VARIABLE = "WARMSTART_FEATURE_CACHE_MB"
LIMIT_MB = 2048
_log = logging.getLogger(__name__)


class FeatureNetwork(torch.nn.Module):
    """A backbone with pooled features: pixels in [0, 1] in, one vector a depth out."""

    mean: torch.Tensor
    spread: torch.Tensor

    def __init__(self, network: nn.Module, mean: tuple[float, ...], spread: tuple[float, ...]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("spread", torch.tensor(spread).view(1, 3, 1, 1))
        self.stages = _stages(network)

    def forward(self, pixels: torch.Tensor, depth: Depth | None = None) -> dict[str, torch.Tensor]:
        """Compute the features, `n x d` a depth.

        Args:
            pixels: `n x 3 x size x size` float in [0, 1].
            depth: the only one that is needed, where the forward pass stops. None = all three.
        """
        standard = (pixels - self.mean) / self.spread
        body: Any = self.network
        if depth in ("s8", "s16"):
            stage = self.stages[0 if depth == "s8" else -1]
            (feature_map,) = body.forward_intermediates(
                standard, indices=[stage], output_fmt="NCHW", stop_early=True, intermediates_only=True
            )
            return {depth: feature_map.mean((2, 3))}
        final, maps = body.forward_intermediates(standard, indices=list(self.stages), output_fmt="NCHW")
        pooled = [tensor.mean((2, 3)) for tensor in maps]
        return {"s8": pooled[0], "s16": pooled[-1], "full": body.forward_head(final, pre_logits=True)}


def _stages(network: nn.Module) -> tuple[int, ...]:
    """Choose the feature maps at an eighth and a sixteenth of the image's side.

    In a network of one scale: at a half and three quarters of its depth.
    """
    info = getattr(network, "feature_info", None)
    if info is None or not hasattr(network, "forward_intermediates"):
        msg = f"backbone: expected a network of timm that gives feature maps, got {type(network).__name__}. Take a tf_efficientnet, resnet, convnext or vit."
        raise UsageError(msg)
    steps = [stage["reduction"] for stage in (info if isinstance(info, list) else info.get_dicts())]
    if len(set(steps)) == 1:
        return (max(len(steps) // 2 - 1, 0), max(3 * len(steps) // 4 - 1, 0))
    eighth = max((i for i, step in enumerate(steps) if step <= 8), default=0)
    sixteenth = max((i for i, step in enumerate(steps) if step <= 16), default=0)
    return tuple(sorted({eighth, sixteenth}))


def open_network(backbone: Backbone, *, size: int, device: torch.device) -> FeatureNetwork:
    """Build a pretrained network that computes features.

    Raises: as `build_backbone`.
    """
    network = FeatureNetwork(build_backbone(backbone, size=size), *normalisation(backbone))
    return network.to(device).to(memory_format=torch.channels_last).eval()


def to_pixels(images: NDArray[np.uint8], device: torch.device) -> torch.Tensor:
    """Turn `n x s x s x c` uint8, c = 1 or 3, into `n x 3 x s x s` float32 in [0, 1], channels last."""
    pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device).permute(0, 3, 1, 2).float() / 255
    return pixels.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)


def batch_size(device: torch.device) -> int:
    """Return the images of a pass: on a CPU so few that what a layer writes is still in its cache for the next."""
    return _CPU_BATCH if device.type == "cpu" else _BATCH


@torch.inference_mode()
def compute_features(
    network: FeatureNetwork,
    images: NDArray[np.uint8],
    *,
    flipped: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Features:
    """Compute the features of images in float32, batch by batch.

    Args:
        network: on its device.
        images: `n x s x s x c` uint8, c = 1 or 3.
        flipped: left and right exchanged first.
        progress: called after each batch with the number of images that are done.
    """
    device = network.mean.device
    size = batch_size(device)
    if len(images) >= _MANY:
        network = fold_batch_norms(network, to_pixels(images[:1], device))
    parts: dict[str, list[NDArray[np.float32]]] = {"s8": [], "s16": [], "full": []}
    for start in range(0, len(images), size):
        batch = images[start : start + size]
        features = network(to_pixels(batch[:, :, ::-1] if flipped else batch, device))
        for name, tensor in features.items():
            parts[name].append(tensor.float().cpu().numpy())
        if progress is not None:
            progress(min(start + size, len(images)))
    return Features(**{name: np.concatenate(part) for name, part in parts.items()})


class FeatureCache:
    """Cache of features by (dataset, backbone, image size, flip), a file each; above its limit, the longest unused go.

    A damaged file counts as absent and a folder that cannot be written as an empty one: the cache may cost time, never
    a result.

    Args:
        folder: made at the first `put`; None = `feature_folder()`.
        limit_mb: megabytes that all files take together; None = ``$WARMSTART_FEATURE_CACHE_MB``, else 2048. 0 keeps none.
    """

    def __init__(self, folder: Path | None = None, *, limit_mb: float | None = None) -> None:
        self.folder = folder or feature_folder()
        self.limit_bytes = (feature_limit_mb() if limit_mb is None else limit_mb) * 1_000_000

    def get(self, key: str) -> Features | None:
        """Return features bit for bit as they were put, or None."""
        path = self._path(key)
        try:
            tensors = load_tensors(_verified_content(read_ordinary(path)))
            os.utime(path)
            return Features(**tensors)
        except FileNotFoundError:
            return None
        except (OSError, SafetensorError, TypeError, ValueError) as error:
            _log.debug("%s: cannot be used (%s), computing the features", path, error)
            return None

    def put(self, key: str, features: Features) -> None:
        """Store features, and remove the longest unused ones above the limit.

        Nothing happens if the folder cannot be written.
        """
        content = save_tensors(
            {field.name: np.ascontiguousarray(getattr(features, field.name)) for field in fields(features)}
        )
        content = _checksum(content) + content
        if len(content) > self.limit_bytes:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._path(key), content, durable=False)
            self._evict()
        except (OSError, StorageError) as error:
            _log.debug("%s: not cached (%s)", self.folder, error)

    def _evict(self) -> None:
        remove_leftovers(self.folder)
        files = cached_files(self.folder, "*.features")
        excess = sum(about.st_size for _, about in files) - self.limit_bytes
        for path, about in files:
            if excess <= 0:
                return
            excess -= about.st_size
            path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.features"


def _verified_content(stored: bytes) -> bytes:
    """Return the content behind a checksum.

    Raises:
        ValueError: the content was altered.
    """
    if stored[:4] != _checksum(content := stored[4:]):
        msg = "altered bytes"
        raise ValueError(msg)
    return content


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "big")


def feature_folder() -> Path:
    """Return the folder of cached features."""
    return cache_folder() / "features"


def feature_limit_mb() -> float:
    """Return the limit of the cache in megabytes.

    Raises:
        UsageError: when ``$WARMSTART_FEATURE_CACHE_MB`` is no number ≥ 0.
    """
    text = os.environ.get(LIMIT_VARIABLE) or str(LIMIT_MB)
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not limit >= 0:
        msg = f"${LIMIT_VARIABLE}: expected megabytes ≥ 0, got {text!r}. Leave it out for {LIMIT_MB}."
        raise UsageError(msg)
    return limit
