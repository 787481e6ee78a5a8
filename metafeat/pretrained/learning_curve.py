"""Errors of logistic regression by the number of images, and what more of them would give."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.metafeat.pretrained.logistic import PENALTIES, log_softmax, scores_of_subsets

SHARES = (1 / 3, 2 / 3, 1.0)
"""Of the images that are trained on."""
FOLDS = 5
_PENALTIES = PENALTIES[1:4]
"""Those that are chosen most often; the others take longest."""
_USUAL_SLOPE, _SLOPE_SPREAD = 0.35, 0.25
"""Of the exponent by which errors of heads fall with the number of images, over image sets."""
_LEAST_WRONG = 0.5
"""Wrong images where none is: the logarithm needs some."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Error at a number of images.

    Attributes:
        n: images trained on.
        error: share of wrong answers to other images.
        judged_by: answers.
    """

    n: int
    error: float
    judged_by: int


def learning_curve(
    rows: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    n_classes: int,
    rng: np.random.Generator,
    seconds: float = math.inf,
    repeats: int = 1,
) -> list[CurvePoint]:
    """Measure the error at a third, two thirds and all of the images, each judged by a fold that is left out.

    Args:
        rows: `n x d` features.
        labels: `n` int64 in 0 .. n_classes - 1.
        n_classes: number of classes.
        rng: of folds and subsets.
        seconds: after which no further fold is begun; the first is always.
        repeats: of all folds.

    Returns: a point a share, rising; empty with fewer images than `FOLDS`.
    """
    if len(labels) < FOLDS:
        return []
    ends = time.monotonic() + seconds
    spread = rows.std(0, dtype=np.float64)
    ready = (rows - rows.mean(0, dtype=np.float64)) / np.where(spread > 1e-6 * max(spread.max(), 1e-12), spread, 1.0)
    sizes, wrong, judged = np.zeros(len(SHARES)), np.zeros(len(SHARES)), 0
    for number in range(FOLDS * repeats):
        if number % FOLDS == 0:
            fold_of = _folds(labels, rng)
        if number and time.monotonic() > ends:
            break
        training = fold_of != number % FOLDS
        order = np.full(len(labels), math.inf)
        order[training] = _order_in_class(labels[training], rng)
        subsets = order[:, None] < np.array(SHARES)
        scores = scores_of_subsets(ready, labels, subsets, n_classes=n_classes, penalties=_PENALTIES)[:, ~training]
        truths = labels[~training]
        losses = -log_softmax(scores)[:, np.arange(len(truths)), :, truths].mean(0)  # penalties x shares
        best = scores[losses.argmin(0), :, np.arange(len(SHARES))]
        wrong += (best.argmax(2) != truths).sum(1)
        sizes += subsets.sum(0)
        judged += len(truths)
    done = number + 1 if time.monotonic() <= ends or number == FOLDS * repeats - 1 else max(number, 1)
    return [CurvePoint(round(n / done), w / judged, judged) for n, w in zip(sizes, wrong, strict=True)]


def forecast_error(curve: Sequence[CurvePoint], told: float, *, factor: float = 2.0) -> float:
    """Forecast the error with more images from a curve: a power law, whose exponent is drawn to the usual one.

    Args:
        curve: errors of a simple classifier.
        told: error of the classifier with all images.
        factor: of the images.
    """
    return told * float(factor ** -_slope(curve))


def _slope(curve: Sequence[CurvePoint]) -> float:
    """Return the exponent by which the errors of a curve fall: least squares of logarithms, with a prior."""
    wrong = np.array([max(point.error * point.judged_by, _LEAST_WRONG) for point in curve])
    x = np.log([point.n for point in curve])
    centred = x - x.mean()
    precision = float(wrong.mean())  # the variance of a logarithm of a count is one by the count
    information = precision * float(centred @ centred)
    slope = -float(centred @ np.log(wrong)) / max(float(centred @ centred), 1e-9)
    prior = 1 / _SLOPE_SPREAD**2
    return float(np.clip((information * slope + prior * _USUAL_SLOPE) / (information + prior), 0.0, 1.0))


def _folds(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Deal images to folds class by class, in random order."""
    shuffled = rng.permutation(len(labels))
    folds = np.empty(len(labels), np.int64)
    folds[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(labels)) % FOLDS
    return folds


def _order_in_class(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return places in [0, 1), drawn class by class: a share of the places has that share of each class."""
    places = np.empty(len(labels))
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        places[rows] = (np.arange(len(rows)) + rng.random()) / len(rows)
    return places
