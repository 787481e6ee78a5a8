"""Landmark features: accuracies of simple classifiers on the features of a pretrained network.

Fixed by research/transfer-protocol.md before any comparison. No torch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warmstart.metafeat.feature_names import LANDMARK_HEADS, LANDMARK_SIZES, LANDMARKS
from warmstart.metafeat.pretrained.depths import DEPTHS, Features
from warmstart.metafeat.pretrained.heads import HeadSearch, HeadSpec, TrainingFeatures, head_specs

SIZE, HALF_SIZE, PIXELS = 64, 32, 16
"""Sides of the images: whole, smaller, and those whose pixels are classified."""
_TINT, _GREY = 4, 0.95
"""Images are grey if their channels differ by at most `_TINT` (JPEG tints grey) at a share `_GREY` of all pixels.

The history's sets in colour have at most 0.69.
"""
_DEPTHS = DEPTHS[:3]


def compute_landmarks(
    whole: Features, flipped: Features, small: Features, pixels: NDArray[np.uint8], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute the landmark features of labelled images, `28` in the order of `LANDMARKS`.

    Args:
        whole: features of the images at `SIZE` pixels a side.
        flipped: features of their mirror images.
        small: features at `HALF_SIZE` pixels.
        pixels: `n x 16 x 16 x c` uint8.
        labels: `n` int64 ≥ 0; classes without images do not count.

    Returns: leave-one-out accuracies of the nearest neighbour, of centroids (both standardised) and of the best ridge, by
        size and depth; those of the nearest neighbour of a mirrored image among the others; those of nearest neighbour
        and ridge on pixels; share of the largest class, logarithms of the numbers of classes and images, 1 for grey
        images, however they were stored.
    """
    _, codes = np.unique(labels, return_inverse=True)
    n_classes, n = int(codes.max()) + 1, len(codes)
    landmarks = dict(
        zip(
            LANDMARK_HEADS,
            [value for rows in (whole, small) for value in _accuracies(rows, codes, n_classes)],
            strict=True,
        )
    )
    landmarks |= mirrored_landmarks(whole, flipped, pixels, codes, n_classes=n_classes)
    sizes = (
        np.bincount(codes).max() / n,
        np.log(n_classes),
        np.log(n),
        (np.ptp(pixels, axis=3) <= _TINT).mean() >= _GREY,
    )
    landmarks |= dict(zip(LANDMARK_SIZES, map(float, sizes), strict=True))
    return np.array([landmarks[name] for name in LANDMARKS])


def mirrored_landmarks(
    features: Features, flipped: Features, pixels: NDArray[np.uint8], labels: NDArray[np.int64], *, n_classes: int
) -> dict[str, float]:
    """Compute the accuracies on mirrored images and on pixels, by name; arguments as in `compute_landmarks`."""
    landmarks: dict[str, float] = {}
    rows = (pixels.reshape(len(pixels), -1) / 255).astype(np.float32)
    turned = (pixels[:, :, ::-1].reshape(len(pixels), -1) / 255).astype(np.float32)
    pairs = [(depth, features.at(depth), flipped.at(depth)) for depth in _DEPTHS]
    for name, plain, mirrored in [*pairs, ("pixels", rows, turned)]:
        landmarks[f"mirrored_{name}"] = _mirrored_accuracy(plain, mirrored, labels)
    nearest = (HeadSpec("knn", standardise, 1.0) for standardise in (True, False))
    search = HeadSearch(TrainingFeatures(rows, labels, n_classes), (*nearest, *head_specs(("ridge",))))
    accuracy = dict(zip(search.specs, (1 - search.error_counts() / len(labels)).tolist(), strict=True))
    landmarks["ridge_pixels"] = max(value for spec, value in accuracy.items() if spec.kind == "ridge")
    landmarks["nearest_pixels"] = max(value for spec, value in accuracy.items() if spec.kind == "knn")
    return landmarks


def _accuracies(features: Features, labels: NDArray[np.int64], n_classes: int) -> list[float]:
    """Return the leave-one-out accuracies of one size, in the order of `LANDMARK_HEADS`."""
    nearest, centroid = (
        HeadSpec("knn", standardise=True, strength=1.0),
        HeadSpec("centroid", standardise=True, strength=0.0),
    )
    specs = (nearest, centroid, *head_specs(("ridge",)))
    accuracies: list[float] = []
    for depth in _DEPTHS:
        search = HeadSearch(TrainingFeatures(features.at(depth), labels, n_classes), specs)
        accuracy = 1 - search.error_counts() / len(labels)
        accuracies += [float(accuracy[0]), float(accuracy[1]), float(accuracy[2:].max())]
    return accuracies


def _mirrored_accuracy(rows: NDArray[np.float32], turned: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the accuracy of the nearest neighbour of a mirrored image among the other images."""
    mean, spread = rows.mean(0), rows.std(0) + 1e-6
    a, b = (turned - mean) / spread, (rows - mean) / spread
    a, b = (matrix / (np.linalg.norm(matrix, axis=1, keepdims=True) + 1e-9) for matrix in (a, b))
    cosines = a @ b.T
    np.fill_diagonal(cosines, -np.inf)
    return float((labels[cosines.argmax(1)] == labels).mean())
