"""Choice of the models that a classifier joins, by answers to images that they had not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Answers = NDArray[np.float64]
"""Probabilities `n x classes` of the images of a dataset; NaN for images that a model has seen."""
_TINY = 1e-9
_WORTH = 1.0
"""What a further model has to save, in wrong answers and nats: it costs a pass of its network for every picture."""


def answered(answers: Sequence[Answers]) -> NDArray[np.bool_]:
    """Tell for each image whether all models have an answer."""
    return np.asarray(np.isfinite(answers).all(axis=(0, 2)))


def mean_of_known(answers: Sequence[Answers]) -> Answers:
    """Average for each image over the models that have an answer; NaN where none has."""
    stacked = np.stack(answers)
    is_known = np.isfinite(stacked).all(2, keepdims=True)
    counts = is_known.sum(0)
    sums = np.where(is_known, stacked, 0.0).sum(0)
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))


def choose_members(answers: Sequence[Answers], labels: NDArray[np.int64], *, most: int) -> list[int]:
    """Choose models whose mean probabilities are best.

    The model that gains most is added in turn, and of the sets on this way the best one wins, where each further model
    has to save `_WORTH`. Sets are compared on the images that all their models have answered, by wrong answers and lost
    likelihood together: wrong answers alone tie too often.

    Args:
        answers: of each model.
        labels: `n` int64 of the images.
        most: models to choose.

    Returns: indices, the best model first.
    """
    best = 0
    for index in range(1, len(answers)):
        if _gain([answers[best]], [answers[index]], labels) > 0:
            best = index
    chosen, gain, kept, highest = [best], 0.0, 1, 0.0
    while len(chosen) < min(most, len(answers)):
        present = [answers[index] for index in chosen]
        others = [index for index in range(len(answers)) if index not in chosen]
        gains = [_gain(present, [*present, answers[index]], labels) for index in others]
        chosen.append(others[int(np.argmax(gains))])
        gain += max(gains) - _WORTH
        if gain > highest:
            kept, highest = len(chosen), gain
    return chosen[:kept]


def wrong_answers(answers: Answers, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which images are answered wrongly."""
    return np.asarray(np.not_equal(answers.argmax(1), labels))


def error_interval(wrong: int, n: int) -> tuple[float, float]:
    """Return the 80 % interval of an error by wrong answers among n images: Jeffreys', whose low limit may be 0."""
    from scipy.stats import beta

    low, high = beta.ppf([0.1, 0.9], wrong + 0.5, n - wrong + 0.5)
    return 0.0 if wrong == 0 else float(low), 1.0 if wrong == n else float(high)


def _gain(old: Sequence[Answers], new: Sequence[Answers], labels: NDArray[np.int64]) -> float:
    """Return what a set of models loses less than another one."""
    rows = answered([*old, *new])
    return _loss(old, labels, rows) - _loss(new, labels, rows)


def _loss(models: Sequence[Answers], labels: NDArray[np.int64], rows: NDArray[np.bool_]) -> float:
    """Return wrong answers and lost likelihood, in nats, of a mean of models."""
    mean = np.mean([answers[rows] for answers in models], axis=0)
    likelihoods = mean[np.arange(len(mean)), labels[rows]]
    return float(wrong_answers(mean, labels[rows]).sum() - np.log(np.maximum(likelihoods, _TINY)).sum())
