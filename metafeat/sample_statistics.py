"""Statistics of sampled images that need no model: they show noise, repeated pictures and labels without meaning.

The class signal tells whether images of one class are more alike than chance allows. Small versions, edges and colours
of the images are compared by kernels. Their agreement with "is of the same class" is measured by the Hilbert-Schmidt
independence function [Gretton2005hsic]. Its mean and variance over all permutations of the labels have closed forms
[KaziAoual1995permutation], so nothing is shuffled. It takes milliseconds and no random numbers.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.splits import stratified_subsample

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


Vector = NDArray[np.float64]
ABOUT = {
    "brightness": "mean brightness",
    "contrast": "logarithm of the root mean variance within pictures",
    "contrast_sd": "logarithm of the spread over pictures of their contrast",
    "brightness_sd": "logarithm of the spread over pictures of their mean brightness",
    "edge_kurtosis": "logarithm of the kurtosis of steps between neighbouring pixels",
    "flat": "share of those steps that are next to nothing",
    "alignment": "root of the variance of the mean picture relative to that of all pixels",
    "saturation": "root of the mean difference of the strongest and weakest channel",
    "extreme": "share of nearly black or nearly white pixels",
    "nearest": "logarithm of the median distance to the nearest picture relative to that of any two",
}
"""Each statistic in one line; after them come the falls of the spectrum, one an octave."""
_FLOOR = 0.02
_LEVEL = 8 / 255


@dataclass(frozen=True, slots=True)
class SampleStatistics:
    """Counts, repeats, class information and pixel statistics of a sample of labelled images.

    Attributes:
        n_images: images in the sample.
        distinct: share of them that are left when equal ones count once, in (0, 1].
        paired: share of them whose class has another image, in [0, 1].
        signal: class information.
        pixels: `p` float64: the statistics of `ABOUT`, then `falls`.
    """

    n_images: int
    distinct: float
    paired: float
    signal: ClassSignal
    pixels: Vector

    @property
    def falls(self) -> Vector:
        """Return the falls of the power spectrum from each octave of spatial frequency to the next.

        Logarithms, on the axis where it falls less; 0 = white, as in noise and in pictures whose pixels were shuffled.
        """
        return self.pixels[len(ABOUT) :]

    @property
    def neighbour_correlation(self) -> float:
        """Return the correlation of neighbouring pixels of a line, in [-1, 1], by how fast its spectrum falls off.

        Deviations from a line's mean; 0 = white. NaN where images are too small for any fall.
        """
        if not self.falls.size:
            return float("nan")
        level = np.exp(-np.concatenate([[0.0], np.cumsum(self.falls)]))
        frequency = np.arange(1, 2 ** len(level))
        power = level[np.log2(frequency).astype(int)]
        return float(power @ np.cos(np.pi * frequency / 2 ** len(level)) / power.sum())

    def to_vector(self) -> Vector:
        """Return all numbers in one vector."""
        head = [self.n_images, self.distinct, self.paired, self.signal.score, self.signal.weight]
        return np.concatenate([np.array(head, dtype=np.float64), self.pixels])

    @classmethod
    def from_vector(cls, vector: NDArray[np.floating]) -> Self:
        """Read a vector of `to_vector`."""
        n, distinct, paired, score, weight, *pixels = (float(value) for value in vector)
        return cls(round(n), distinct, paired, ClassSignal(score, weight), np.array(pixels))


def sample_statistics(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> SampleStatistics:
    """Compute the statistics of some hundred labelled pictures, in a few hundredths of a second.

    Args:
        images: `n x s x s x c` uint8, c = 1 or 3, n ≥ 1.
        labels: `n` class indices.

    Returns: the statistics, always finite.
    """
    counts = np.unique(labels, return_counts=True)[1]
    with one_thread():
        return SampleStatistics(
            n_images=len(images),
            distinct=len({image.tobytes() for image in images}) / len(images),
            paired=float(counts[counts > 1].sum() / len(images)),
            signal=class_signal(images, labels),
            pixels=pixel_statistics(images),
        )


def pixel_statistics(images: NDArray[np.uint8]) -> Vector:
    """Compute the pixel statistics of images.

    Args:
        images: `n x s x s x c` uint8.

    Returns: `p` float64: the statistics of `ABOUT`, then the falls of the spectrum.
    """
    pixels = images.astype(np.float32) / np.float32(255)
    brightness = mean_channel(pixels)
    channels = [pixels[..., k] for k in range(pixels.shape[3])]
    flat = brightness.reshape(len(brightness), -1)
    means = flat.mean(1)
    variances = np.square(flat - means[:, None]).mean(1)
    steps = np.concatenate([np.diff(brightness, axis=axis).ravel() for axis in (1, 2)])
    squares = np.square(steps)
    energy = float(squares.mean()) if len(steps) else 0.0
    statistics = (
        brightness.mean(),
        _log(np.sqrt(variances.mean())),
        _log(np.sqrt(variances).std()),
        _log(means.std()),
        np.log(np.square(squares).mean() / energy**2) if energy > 1e-9 else 0.0,
        np.mean(squares < (2 / 255) ** 2) if len(steps) else 1.0,
        np.sqrt(flat.mean(0).var() / max(float(variances.mean() + means.var()), 1e-9)),
        np.sqrt((reduce(np.maximum, channels) - reduce(np.minimum, channels)).mean()),
        np.mean((brightness < _LEVEL) | (brightness > 1 - _LEVEL)),
        _log(_nearness(pixels)),
    )
    return np.concatenate([np.array(statistics, dtype=np.float64), spectral_falls(brightness)])


def spectral_falls(brightness: NDArray[np.float32]) -> Vector:
    """Compute the falls of the power spectrum from each octave of spatial frequency to the next.

    Args:
        brightness: `n x s x s`.

    Returns: a logarithm for each pair of neighbouring octaves of cosine frequencies (1, 2 to 3, 4 to 7, ...), the
        lesser of the two axes: 0 = white.
    """
    side = brightness.shape[1]
    centred = brightness - brightness.reshape(len(brightness), -1).mean(1)[:, None, None]
    position, frequency = np.arange(side) + 0.5, np.arange(side)
    waves = np.cos(np.pi / side * position[:, None] * frequency).astype(np.float32)
    octaves = 2 ** np.arange(int(np.log2(side)) + (side & (side - 1) > 0))
    falls = []
    for picture in (centred, centred.transpose(0, 2, 1)):
        power = np.square(picture.reshape(-1, side) @ waves).mean(0, dtype=np.float64) * 2 / side
        level = np.log([power[start : 2 * start].mean() + 1e-7 for start in octaves])
        falls.append(level[:-1] - level[1:])
    lesser: Vector = np.minimum(*falls)
    return lesser


def _nearness(pixels: NDArray[np.float32]) -> float:
    """Compute the median distance to the nearest picture relative to that of any two, from small copies."""
    n = len(pixels)
    if n < 2:
        return 1.0
    distances = square_distances(pooled(pixels, min(8, pixels.shape[1])).reshape(n, -1))
    usual = np.median(distances[np.triu_indices(n, 1)])
    np.fill_diagonal(distances, np.inf)
    return float(np.sqrt(np.median(distances.min(1)) / max(float(usual), 1e-12)))


def _log(value: float) -> float:
    return float(np.log(value + _FLOOR))


SAMPLE = 400
"""Images of the training part that a meta-feature is computed from, at most."""
SHARP_SIDE, SHARP_SIZE, SHARP_SAMPLE = 96, 128, 150
"""Pixels of a shorter side from which pictures are looked at once more, then at so many pixels a side, at most so many."""


def sample_rows(
    labels: NDArray[np.int64], rows: NDArray[np.int64], *, seed: int, most: int = SAMPLE
) -> NDArray[np.int64]:
    """Choose at most so many rows at random, every class in proportion.

    Args:
        labels: `n` of the whole collection.
        rows: of the collection, to choose from.
        seed: of the choice.
        most: rows.

    Returns: sorted rows; all where there are few.
    """
    if len(rows) <= most:
        return rows
    chosen = rows[stratified_subsample(labels[rows], most / len(rows), seed=seed)]
    # One a class is more than the sample holds: there are more classes than places.
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, most, replace=False))
    return chosen
