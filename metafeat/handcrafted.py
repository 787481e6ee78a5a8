"""Handcrafted meta-features: counts, averages and simple classifiers on the images of a dataset.

They are the baseline of every learned metric, and part of a model that asks for them (`ModelSpec.handcrafted`).
Everything but the counts is computed from at most `SUBSAMPLE` images, sorted by content. So the order of the images and
the numbering of the classes do not matter as long as all images are used.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.one_thread import one_thread
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.labels import check_labels

Matrix = NDArray[np.float64]
Scores = Callable[[Matrix, NDArray[np.int64], Matrix], Matrix]

FOLDS = 5
RIDGE = 10.0
"""Penalty on standardised features."""
SMOOTHING = 1e-2
"""Share of the largest variance that is added to every variance of naive Bayes."""


def landmark_accuracies(
    points: Matrix, edges: Matrix, classes: NDArray[np.int64], *, rng: np.random.Generator
) -> dict[str, float]:
    """Estimate the accuracy of simple classifiers by five-fold cross-validation.

    Where a fold leaves nothing to learn (one class, or points that are all the same), the answer is the most frequent
    class. Renumbering the classes changes no answer that is not a tie.

    Args:
        points: `n x q` features, such as principal components.
        edges: `n x r` other features, for the landmark `edges`.
        classes: `n` class indices.
        rng: deals out the folds.

    Returns: accuracy in [0, 1] by name in `LANDMARKS`; 0 for a single image.
    """
    n = len(classes)
    n_correct = dict.fromkeys(LANDMARKS, 0)
    fold = rng.permutation(n) % min(FOLDS, n)
    for part in range(fold.max() + 1 if n > 1 else 0):
        test, train = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        for name, scores in LANDMARKS.items():
            features = edges if name == "edges" else points
            answers = _predict(scores, features[train], classes[train], features[test])
            n_correct[name] += int((answers == classes[test]).sum())
    return {name: count / n for name, count in n_correct.items()}


def nearest_neighbour(points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> Matrix:
    """Score `m x k` classes by the query's least squared distance to one of their points, negated."""
    square = _square_distances(points, queries)
    return np.stack([-square[:, classes == k].min(1) for k in range(classes.max() + 1)], axis=1)


def nearest_centroid(points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> Matrix:
    """Score classes by the squared distance to their mean, negated."""
    return -_square_distances(_means(points, classes), queries)


def ridge(points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> Matrix:
    """Score classes by ridge regression of their indicators on standardised features."""
    centre, spread = points.mean(0), points.std(0)
    train, test = (points - centre) / spread, (queries - centre) / spread
    indicators = np.eye(classes.max() + 1)[classes]
    share = indicators.mean(0)
    gram = train.T @ train
    gram.ravel()[:: len(gram) + 1] += RIDGE
    scores: Matrix = share + test @ np.linalg.solve(gram, train.T @ (indicators - share))
    return scores


def naive_bayes(points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> Matrix:
    """Score classes by the log density of independent normal features, plus the log of their share."""
    counts, means = np.bincount(classes), _means(points, classes)
    variances = _means(np.square(points - means[classes]), classes) + SMOOTHING * points.var(0).max()
    deviations = np.square(queries[:, None] - means) / variances
    scores: Matrix = np.log(counts / counts.sum()) - 0.5 * (deviations + np.log(variances)).sum(2)
    return scores


LANDMARKS: Mapping[str, Scores] = MappingProxyType(
    {
        "nn": nearest_neighbour,
        "centroid": nearest_centroid,
        "ridge": ridge,
        "bayes": naive_bayes,
        "edges": ridge,
    }
)
"""Functions of `n x q` points, their classes 0..k-1 (all occur) and `m x q` queries; they return `m x k` scores."""


def _predict(scores: Scores, points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> NDArray[np.int64]:
    """Predict the classes of queries: the highest score, or the most frequent class if nothing can be learned."""
    class_numbers, compact = np.unique(classes, return_inverse=True)
    spread = points.std(0)
    if len(class_numbers) == 1 or spread.max(initial=0.0) < 1e-9:
        return np.full(len(queries), np.bincount(classes).argmax())
    used = spread > 1e-9 * spread.max()
    answers: NDArray[np.int64] = class_numbers[scores(points[:, used], compact, queries[:, used]).argmax(1)]
    return answers


def _means(points: Matrix, classes: NDArray[np.int64]) -> Matrix:
    """Average points by class: `k x q`."""
    counts = np.bincount(classes)
    return np.stack([np.bincount(classes, column) / counts for column in points.T], axis=1)


def _square_distances(points: Matrix, queries: Matrix) -> Matrix:
    """Compute `m x n` squared distances of queries to points."""
    inner = queries @ points.T
    distances: Matrix = np.square(queries).sum(1)[:, None] + np.square(points).sum(1) - 2 * inner
    return distances


SUBSAMPLE = 400
"""Images that the features are computed from, at most: as many as a query's embedding uses."""

_SIDE = 8
_COMPONENTS = 20
_LEVELS = 8 / 255
"""Brightness differences below this count as none."""
_CLIP = 3.0


def handcrafted(images: NDArray[np.uint8], labels: NDArray[np.int64], *, rng: np.random.Generator) -> Matrix:
    """Compute the handcrafted meta-features of a labelled image dataset.

    Takes about 0.25 s on a core. Always finite, also for one image, one class or constant images.

    Args:
        images: `n x s x s x c` uint8, c = 1 or 3, n ≥ 1.
        labels: `n` class indices.
        rng: chooses the images to look at, and the folds of the landmarks.

    Returns: `len(FEATURES)` float64, in the order of `FEATURES`.

    Raises:
        DataError: images of another shape or kind, or none.
        LabelError: labels that do not fit.
    """
    if images.ndim != 4 or images.shape[3] not in (1, 3) or images.dtype != np.uint8 or not images.size:
        msg = f"handcrafted: expected uint8 images n x s x s x c with n ≥ 1 and c = 1 or 3, got shape {images.shape} of {images.dtype}. Read them with warmstart.history_store.images."
        raise DataError(msg)
    labels = check_labels(labels, len(images))
    with one_thread():
        values = _compute_values(images, labels, rng)
    return np.array([values[name] for name in FEATURES])


def _compute_values(images: NDArray[np.uint8], labels: NDArray[np.int64], rng: np.random.Generator) -> dict[str, float]:
    rows = rng.permutation(len(images))[:SUBSAMPLE]
    keys = [image.tobytes() for image in images[rows]]
    # Sorted by content, so the features do not depend on the order of the images.
    rows = rows[sorted(range(len(rows)), key=keys.__getitem__)]
    pixels = np.asarray(images[rows], dtype=np.float64) / 255
    classes = _renumber_classes(labels[rows])
    brightness = pixels.mean(3)
    components, spectrum = _components(_downsized(pixels).reshape(len(pixels), -1))
    return {
        **_counts(labels),
        **_colour(pixels),
        **_intensity(brightness),
        **_texture(brightness),
        **spectrum,
        **_class_structure(components, classes),
        **_landmarks(components, _edges(pixels, brightness), classes, rng),
    }


def sample_features(images: NDArray[np.uint8], labels: NDArray[np.int64], *, rng: np.random.Generator) -> Matrix:
    """Compute the features of at most `SUBSAMPLE` images drawn at random, as if there were no others.

    Models get these: their counts are comparable between a whole history and a query that was sampled.
    Arguments, result and refusals as for `handcrafted`.
    """
    rows = rng.permutation(len(images))[:SUBSAMPLE]
    return handcrafted(images[rows], labels[rows], rng=rng)


def query_features(images: NDArray[np.uint8], labels: NDArray[np.int64], *, rng: np.random.Generator) -> Matrix:
    """Compute the features of a query that a model gets; they leave the caller's random stream as it is."""
    # A spawned stream: the draws that follow must not depend on whether features were computed.
    return sample_features(images, labels, rng=rng.spawn(1)[0])


def centre_and_scale(features: Matrix) -> tuple[Matrix, Matrix]:
    """Compute each feature's median and spread: 1.4826 times the median absolute deviation.

    Where more than half of the values agree, the standard deviation stands in; 0 = constant.

    Args:
        features: `m x p`.

    Returns: `p` medians, `p` spreads ≥ 0.

    Raises:
        UsageError: no row.
    """
    if features.ndim != 2 or not len(features):
        msg = f"handcrafted features: expected `m x p` with m ≥ 1 to take the scale from, got shape {features.shape}. Give the history's rows."
        raise UsageError(msg)
    centre = np.median(features, axis=0)
    spread = 1.4826 * np.median(np.abs(features - centre), axis=0)
    deviation = features.std(axis=0)
    tiny = 1e-9 * (1 + np.abs(centre))
    return centre, np.where(spread > tiny, spread, np.where(deviation > tiny, deviation, 0.0))


def scaled(features: Matrix, centre: Matrix, scale: Matrix) -> Matrix:
    """Return (features - centre) / scale clipped to ±3; 0 if the scale is 0."""
    result: Matrix = np.where(scale > 0, (features - centre) / np.where(scale > 0, scale, 1.0), 0.0).clip(-_CLIP, _CLIP)
    return result


def _renumber_classes(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the classes 0, 1, ... in the order in which they appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _counts(labels: NDArray[np.int64]) -> dict[str, float]:
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    k = len(shares)
    return {
        "log_n": np.log(len(labels)),
        "log_classes": np.log(k),
        "log_per_class": np.log(len(labels) / k),
        "class_entropy": float(-(shares * np.log(shares)).sum() / np.log(k)) if k > 1 else 1.0,
        "smallest_class": shares.min(),
        "largest_class": shares.max(),
    }


def _colour(pixels: Matrix) -> dict[str, float]:
    if pixels.shape[3] == 1:
        pixels = np.broadcast_to(pixels, (*pixels.shape[:3], 3))
    flat = pixels.reshape(-1, 3)
    # Contiguous channels are ten times faster than reductions along the last axis.
    red, green, blue = (np.ascontiguousarray(flat[:, k]) for k in range(3))
    high, low = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    saturation = np.divide(high - low, high, out=np.zeros(len(flat)), where=high > 0)
    hue = flat @ np.exp(2j * np.pi * np.arange(3) / 3)
    length = np.abs(hue)
    unit = np.divide(hue, length, out=np.zeros_like(hue), where=length > 1e-9)
    weight = saturation * (length > 1e-9)
    return {
        "grey": float((high == low).reshape(len(pixels), -1).all(1).mean()),
        "saturation_mean": saturation.mean(),
        "saturation_sd": saturation.std(),
        "saturation_skew": _moment(saturation, 3),
        "red_green": _correlation(red, green),
        "red_blue": _correlation(red, blue),
        "green_blue": _correlation(green, blue),
        "hue_spread": float(1 - np.abs((weight * unit).sum()) / weight.sum()) if weight.sum() > 0 else 0.0,
    }


def _intensity(brightness: Matrix) -> dict[str, float]:
    n, side = len(brightness), brightness.shape[1]
    means, sds = brightness.mean((1, 2)), brightness.std((1, 2))
    edge = np.ones((side, side), dtype=bool)
    edge[1:-1, 1:-1] = False
    border = brightness[:, edge]
    level = np.median(border, axis=1)[:, None, None]
    variance = brightness.var()
    return {
        "pixel_mean": brightness.mean(),
        "pixel_sd": brightness.std(),
        "pixel_skew": _moment(brightness.ravel(), 3),
        "pixel_kurtosis": _moment(brightness.ravel(), 4) - 3 if variance > 0 else 0.0,
        "extreme_pixels": float(((brightness < _LEVELS) | (brightness > 1 - _LEVELS)).mean()),
        "image_mean_sd": means.std(),
        "image_sd_mean": sds.mean(),
        "image_sd_sd": sds.std(),
        "flat_border": float((border.std(1) < _LEVELS).mean()),
        "background": float((np.abs(brightness - level) < _LEVELS).mean()),
        "alignment": float(brightness.mean(0).var() / variance) if n > 1 and variance > 0 else 0.0,
    }


def _texture(brightness: Matrix) -> dict[str, float]:
    side = brightness.shape[1]
    steps = np.concatenate([np.diff(brightness, axis=axis).ravel() for axis in (1, 2)])
    kurtosis = _moment(steps, 4) if len(steps) else 0.0
    window = np.outer(np.hanning(side + 2)[1:-1], np.hanning(side + 2)[1:-1])
    centred = brightness - brightness.mean((1, 2), keepdims=True)
    power = (np.abs(np.fft.fft2(centred * window)) ** 2).mean(0)
    frequency = np.abs(np.fft.fftfreq(side))
    radius = np.hypot(frequency[:, None], frequency[None])
    rings = np.arange(1, side // 2 + 1)
    index = np.rint(radius * side).astype(int)
    ring_power = np.array([power[index == ring].mean() for ring in rings])
    non_empty = ring_power > 1e-12
    slope = (
        float(np.polyfit(np.log(rings[non_empty]), np.log(ring_power[non_empty]), 1)[0]) if non_empty.sum() > 1 else 0.0
    )
    total = power[index > 0].sum()
    fast = power[np.maximum(frequency[:, None], frequency[None]) > 0.25].sum()
    return {
        "gradient_energy": float(np.sqrt(np.square(steps).mean())) if len(steps) else 0.0,
        "gradient_kurtosis": float(np.log(kurtosis)) if kurtosis > 0 else 0.0,
        "spectral_slope": slope,
        "high_frequencies": float(fast / total) if total > 1e-12 else 0.0,
    }


def _components(flat: Matrix) -> tuple[Matrix, dict[str, float]]:
    """Return the first twenty principal components `n x q` and the features of the whole spectrum."""
    u, singular, _ = np.linalg.svd(flat - flat.mean(0), full_matrices=False)
    variance = np.where(singular > 1e-9 * len(flat), singular, 0.0) ** 2
    total = variance.sum()
    share = np.cumsum(variance) / total if total > 0 else np.ones(1)
    spectrum = {f"pca_{k}": float(share[min(k, len(share)) - 1]) for k in (1, 2, 5, 10, _COMPONENTS)}
    spectrum["dimension"] = float(np.log(total**2 / np.square(variance).sum())) if total > 0 else 0.0
    return (u * np.sqrt(variance))[:, :_COMPONENTS], spectrum


def _class_structure(points: Matrix, classes: NDArray[np.int64]) -> dict[str, float]:
    counts = np.bincount(classes)
    n, k = len(classes), len(counts)
    means = np.stack([np.bincount(classes, column, minlength=k) / counts for column in points.T], axis=1)
    total = np.square(points).sum(0)
    within = np.square(points - means[classes]).sum(0)
    if k < 2 or n <= k or total.sum() <= 0:
        return dict.fromkeys(("between_classes", "fisher_best", "fisher_mean", "class_gap"), 0.0)

    def between(inside: Matrix, all_: Matrix) -> Matrix:
        """Compute ε²: 1 - the ratio of unbiased variances; 0 on average for labels that mean nothing."""
        ratio = np.divide(inside, all_, out=np.ones_like(all_), where=all_ > 0)
        return np.asarray(1 - ratio * (n - 1) / (n - k)).clip(-1, 1)

    axes = between(within, total)
    gaps = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    deviation = np.sqrt(within.sum() / (n - k)) + 1e-3 * np.sqrt(total.sum() / n)
    return {
        "between_classes": float(between(within.sum(keepdims=True), total.sum(keepdims=True))[0]),
        "fisher_best": axes.max(),
        "fisher_mean": axes.mean(),
        "class_gap": float(np.log1p(np.median(gaps.min(1)) / deviation)),
    }


def _landmarks(points: Matrix, edges: Matrix, classes: NDArray[np.int64], rng: np.random.Generator) -> dict[str, float]:
    accuracy = landmark_accuracies(points, edges, classes, rng=rng)
    chance = np.bincount(classes).max() / len(classes)
    result = {f"{name}_gain": value - chance for name, value in accuracy.items()}
    names = ("centroid", "ridge", "bayes", "edges")
    result |= {f"{name}_to_nn": accuracy[name] - accuracy["nn"] for name in names}
    return result | {"best_landmark": max(accuracy.values())}


def _edges(pixels: Matrix, brightness: Matrix) -> Matrix:
    """Pool edge strength by direction and colour over a 4 x 4 grid: `n x (16 (4 + c))`."""
    side = brightness.shape[1]
    padded = np.pad(brightness, ((0, 0), (1, 1), (1, 1)), mode="edge")
    across, down = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    strength, angle = np.hypot(across, down), np.arctan2(down, across) % np.pi
    sector = np.minimum((angle * 4 / np.pi).astype(int), 3)
    maps = [strength * (sector == s) for s in range(4)] + list(np.moveaxis(pixels, 3, 0))
    return _pooled(np.stack(maps, axis=3), min(4, side)).reshape(len(pixels), -1)


def _downsized(pixels: Matrix) -> Matrix:
    return _pooled(pixels, min(_SIDE, pixels.shape[1]))


def _pooled(pixels: Matrix, side: int) -> Matrix:
    """Average `n x s x s x c` over a grid of `side` x `side` cells."""
    starts = np.arange(side) * pixels.shape[1] // side
    sizes = np.diff(np.append(starts, pixels.shape[1]))
    sums = np.add.reduceat(np.add.reduceat(pixels, starts, axis=1), starts, axis=2)
    pooled: Matrix = sums / (sizes[:, None] * sizes[None])[None, :, :, None]
    return pooled


def _moment(values: Matrix, order: int) -> float:
    """Return the third or fourth standardised central moment; 0 for constant values."""
    centred = values - values.mean()
    squares = centred * centred
    deviation = np.sqrt(squares.mean())
    # Products: a power costs ten times as much.
    products = squares * (centred if order == 3 else squares)
    return float(products.mean() / deviation**order) if deviation > 1e-9 else 0.0


def _correlation(a: Matrix, b: Matrix) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt(np.square(a).sum() * np.square(b).sum())
    return float((a * b).sum() / size) if size > 1e-12 else 1.0
