"""A meta-feature model without training: standardised landmark features of a pretrained network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as to_safetensors

from warmstart.history_store.one_thread import one_thread
from warmstart.metafeat.feature_names import LANDMARKS
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.images import check_images
from warmstart.metafeat.labels import check_labels
from warmstart.metafeat.pretrained.backbones import packaged_weights
from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures, head_specs
from warmstart.metafeat.pretrained.landmarks import HALF_SIZE, PIXELS, SIZE, compute_landmarks
from warmstart.metafeat.pretrained.plain_lite import ARCHITECTURE, PlainLite0
from warmstart.metafeat.spec import FORMAT, METADATA_KEY, VERSION, ModelSpec
from warmstart.metafeat.weights import Weights, mismatched_weights, read_model, weights_hash

_TINY = 1e-9
"""A smaller spread is the rounding of one value."""
SPEC = ModelSpec(extractor="landmarks", image_size=SIZE, label_code="none", tau=1)


def left_out_error(features: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Compute the error of the best ridge on `n x d` features, each image left out in turn."""
    _, codes = np.unique(labels, return_inverse=True)
    search = HeadSearch(TrainingFeatures(features, codes, int(codes.max()) + 1), head_specs(("ridge",)))
    return float(search.error_counts().min()) / len(codes)


class LandmarkModel:
    """Embed datasets by their landmark features.

    Args:
        centre: `28` means over datasets.
        scale: `28` divisors > 0.
    """

    spec = SPEC

    def __init__(self, centre: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        self.centre, self.scale = centre, scale

    @classmethod
    def of(cls, landmarks: NDArray[np.float64]) -> Self:
        """Build a model from the landmark features of some datasets, `m x 28`."""
        spread = landmarks.std(0)
        return cls(landmarks.mean(0), np.where(spread > _TINY, spread, 1.0))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model file.

        Raises:
            MissingPathError: no such file.
            ModelError: not a model of this kind, damaged, altered or written by a newer version.
        """
        _, spec, weights = read_model(path)
        try:
            centre, scale = weights["centre"], weights["scale"]
        except KeyError as error:
            raise mismatched_weights(path) from error
        if spec != SPEC or centre.shape != (len(LANDMARKS),) or scale.shape != centre.shape:
            raise mismatched_weights(path)
        return cls(centre, scale)

    def save(self, path: str | Path, header: Mapping[str, Any] | None = None) -> None:
        """Write the model file whole, atomically; `header` are JSON fields to store.

        Raises:
            StorageError: the file cannot be written, or the disk is full.
        """
        weights = self._weights()
        fields = {"format": FORMAT, "version": VERSION, "spec": SPEC.to_dict(), "hash": weights_hash(SPEC, weights)}
        text = json.dumps({**(header or {}), "network": ARCHITECTURE, **fields}, sort_keys=True)
        replace_file(Path(path), to_safetensors(weights, metadata={METADATA_KEY: text}))

    def _weights(self) -> Weights:
        return {"centre": self.centre, "scale": self.scale}

    def features(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        *,
        progress: Callable[[float, float], object] | None = None,
    ) -> NDArray[np.float64]:
        """Compute the landmark features, `28`.

        Args:
            images: `n x 64 x 64 x c` uint8, c = 1 or 3; smaller ones are made of them.
            labels: `n` class indices.
            progress: called with the number of images that are done, and their total; first with 0.

        Raises:
            DataError: images or labels of a wrong kind.
            ModelMismatchError: images of another size.
            MissingExtraError: the weights are not installed.
            ModelError: the weights are damaged.
        """
        check_images(images, SPEC)
        labels, n = check_labels(labels, len(images)), len(images)
        report: Callable[[float, float], object] = progress or _ignore_progress
        report(0, n)
        network = PlainLite0(packaged_weights(ARCHITECTURE))
        with one_thread():
            whole = network.features(images, lambda done: report(0.4 * done, n))
            flipped = network.features(images[:, :, ::-1], lambda done: report(0.4 * (n + done), n))
            small = network.features(shrunk(images, HALF_SIZE))
            report(0.9 * n, n)
            landmarks = compute_landmarks(whole, flipped, small, shrunk(images, PIXELS), labels)
        report(n, n)
        return landmarks

    def sharp_error(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> float:
        """Compute the error of the best ridge on the network's features of images, each left out in turn.

        Args:
            images: `n x s x s x c` uint8 of `warmstart.metafeat.sample_statistics.SHARP_SIZE`, c = 1 or 3.
            labels: `n` class indices.
        """
        with one_thread():
            return left_out_error(PlainLite0(packaged_weights(ARCHITECTURE)).features(images).full, labels)

    def embed(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        *,
        rng: np.random.Generator,  # noqa: ARG002  the interface; nothing here is drawn
        features: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float32]:
        """Embed a dataset, `28` float32.

        Args:
            images: as in `features`.
            labels: `n` class indices.
            rng: not used.
            features: of the method `features`; None = computed.

        Raises: as `features`.
        """
        return self.embed_features(self.features(images, labels) if features is None else features)

    def embed_features(self, features: NDArray[np.float64]) -> NDArray[np.float32]:
        """Embed a dataset by its landmark features: `28` float32."""
        embedding: NDArray[np.float32] = ((features - self.centre) / self.scale).astype(np.float32)
        return embedding


def shrunk(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Shrink `n x s x s x c` uint8 images to `side` pixels, s a multiple of it, by rounded means of blocks."""
    n, size, _, channels = images.shape
    step = size // side
    blocks = images.reshape(n, side, step, side, step, channels)
    small: NDArray[np.uint8] = np.rint(blocks.mean((2, 4))).astype(np.uint8)
    return small


def _ignore_progress(_n_images: float, _total: float) -> None:
    """Ignore a report of progress."""
