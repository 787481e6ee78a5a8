"""Test of class information: are images of one class more alike than chance allows?

Small versions, edges and colours of the images are compared by kernels. Their agreement with "is of the same class" is
measured by the Hilbert-Schmidt independence function [Gretton2005hsic]. Its mean and variance over all permutations of
the labels have closed forms [KaziAoual1995permutation], so nothing is shuffled. It takes milliseconds and no random
numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
NEAR = 3
"""Nearest pictures whose mean distance is the width of a kernel."""
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class ClassSignal:
    """Strength of the class information in a sample of images.

    Attributes:
        score: standard deviations by which the agreement exceeds that of shuffled labels; about standard normal for
            labels without meaning.
        weight: the largest agreement that these labels allow: the norm of their centred co-membership over √2. It grows
            with the number of pairs of one class. `score / weight` is an effect that does not depend on the number of
            images.
    """

    score: float
    weight: float

    @property
    def effect(self) -> float:
        """Return the score for each unit of weight; 0 without weight."""
        return self.score / self.weight if self.weight > 0 else 0.0


def class_signal(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> ClassSignal:
    """Measure the class information of labelled images.

    Args:
        images: `n x s x s x c` uint8, c = 1 or 3.
        labels: `n` class indices.

    Returns: score and weight; a score of 0 where no labelling could differ from another (all pictures alike, no two of
        a class, one class, fewer than four pictures).
    """
    same = _centred((labels[:, None] == labels[None]).astype(np.float64))
    weight = float(np.sqrt(np.square(same).sum() / 2))
    kernels = [kernel for view in views(images) if (kernel := _local_kernel(view)) is not None]
    if len(labels) < 4 or not kernels:
        return ClassSignal(0.0, weight)
    total: Matrix = np.sum([kernel / np.linalg.norm(kernel) for kernel in kernels], axis=0)
    return ClassSignal(permutation_score(total, same), weight)


def permutation_score(a: Matrix, b: Matrix) -> float:
    """Standardise the sum of `a * b` by its mean and standard deviation over all permutations of `a`.

    A permutation exchanges rows and columns together.

    Args:
        a: `n x n` symmetric, rows and columns of sum 0, n ≥ 4.
        b: likewise.

    Returns: the score; 0 where permutations change nothing.
    """
    n = len(a)
    (t, t2, t3), (s, s2, s3) = _moments(a), _moments(b)
    mean = t * s / (n - 1)
    spread = 2 * ((n - 1) * t2 - t * t) * ((n - 1) * s2 - s * s) / ((n - 1) ** 2 * (n + 1) * (n - 2))
    skew = (n * (n + 1) * t3 - (n - 1) * (t * t + 2 * t2)) * (n * (n + 1) * s3 - (n - 1) * (s * s + 2 * s2))
    variance = spread + skew / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    return float((np.vdot(a, b) - mean) / np.sqrt(variance)) if variance > _TINY * max(t2 * s2, _TINY) else 0.0


def views(images: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """Return five views of the images, each `n x q`: small, signed edges, edge pattern, colours, shape."""
    pixels = images.astype(np.float32) / np.float32(255)
    n, side = len(pixels), pixels.shape[1]
    brightness = mean_channel(pixels)
    padded = np.pad(brightness, ((0, 0), (1, 1), (1, 1)), mode="edge")
    across, down = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    signed = np.stack([np.maximum(step, 0) for step in (across, -across, down, -down)], axis=3)
    edges = np.sqrt(pooled(signed, min(4, side))).reshape(n, -1)
    shape = pooled(brightness[..., None], min(16, side)).reshape(n, -1)
    ordered = np.sort(shape, axis=1)
    levels = ordered[:, [round(share * (ordered.shape[1] - 1)) for share in (0.1, 0.5, 0.9)]]
    strength = np.sqrt(pooled(signed, 1).reshape(n, -1))
    colour = pooled(pixels, 1).reshape(n, -1)
    shape = shape - shape.mean(1, keepdims=True)
    contrast = np.sqrt(np.maximum(pooled(np.square(pixels), 1).reshape(n, -1) - np.square(colour), 0))
    return [
        pooled(pixels, min(8, side)).reshape(n, -1),
        edges,
        edges / (np.linalg.norm(edges, axis=1, keepdims=True) + np.float32(0.05)),
        np.concatenate([colour, contrast, levels, strength], axis=1),
        shape / (shape.std(1, keepdims=True) + np.float32(0.02)),
    ]


def pooled(pixels: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Average `n x s x s x c` over a grid of `side` x `side` cells."""
    # As matrix products: several times faster than sums.
    n, s, _, c = pixels.shape
    cell = (np.arange(s) * side + side - 1) // s
    average = (cell == np.arange(side)[:, None]).astype(np.float32)
    average /= average.sum(1, keepdims=True)
    rows = np.matmul(average, pixels.reshape(n, s, s * c))
    averages: NDArray[np.float32] = rows.reshape(-1, s * c) @ np.kron(average.T, np.eye(c, dtype=np.float32))
    return averages.reshape(n, side, side, c)


def mean_channel(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average `n x s x s x c` over the channels."""
    # A sum of slices is several times faster than a mean along the last axis.
    total: NDArray[np.float32] = pixels[..., 0].copy()
    for channel in range(1, pixels.shape[3]):
        total += pixels[..., channel]
    total /= np.float32(pixels.shape[3])
    return total


def square_distances(points: NDArray[Any]) -> NDArray[np.float32]:
    """Compute `n x n` squared distances, 0 on the diagonal."""
    centred = points - points.mean(0)
    squares = np.square(centred).sum(1)
    distances: NDArray[np.float32] = np.maximum(squares[:, None] + squares - 2 * centred @ centred.T, 0)
    np.fill_diagonal(distances, 0)
    return distances


def _local_kernel(points: NDArray[np.float32]) -> Matrix | None:
    """Compute a centred Gaussian kernel, as wide as the distance to the nearest pictures; None if all are alike."""
    distances = square_distances(points)
    if len(points) < 4 or distances.max() < _TINY:
        return None
    width = np.partition(distances, NEAR, axis=1)[:, 1 : NEAR + 1].mean() if len(points) > NEAR else distances.mean()
    distances *= np.float32(-1 / max(float(width), 1e-6 * float(distances.max())))
    kernel = _centred(np.exp(distances, out=distances).astype(np.float64))
    return kernel if np.linalg.norm(kernel) > _TINY else None


def _centred(matrix: Matrix) -> Matrix:
    """Subtract the means of rows and columns from a symmetric matrix."""
    means = matrix.mean(0)
    half = means - means.mean() / 2
    centred: Matrix = matrix - half
    centred -= half[:, None]
    return centred


def _moments(matrix: Matrix) -> tuple[float, float, float]:
    diagonal = np.diag(matrix)
    return float(diagonal.sum()), float(np.vdot(matrix, matrix)), float(np.vdot(diagonal, diagonal))
