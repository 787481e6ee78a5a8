"""Choice of the models that a classifier joins, by answers to images that they had not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Answers = NDArray[np.float64]
"""Probabilities `n x classes` of the images of a dataset; NaN for images that a model has seen."""
_HEADS, _TUNED = 6.0, 3.0
"""Standard errors by which the wrong answers of a model on frozen features, or of a fine-tuned one, exceed the best one's if
it stays out. On nine image sets the mean of nearly all heads answered best; a choice in more detail answered no better,
and made the error too small by 2 points."""
_ENOUGH = 100
"""Images on which models have to answer alike before one of them is enough."""
_TINY = 1e-9


def answered(answers: Sequence[Answers]) -> NDArray[np.bool_]:
    """Tell for each image whether all models have an answer."""
    return np.asarray(np.isfinite(answers).all(axis=(0, 2)))


def mean_of_known(answers: Sequence[Answers], weights: Sequence[float]) -> Answers:
    """Average for each image over the models that have an answer, by their weights; NaN where none has."""
    stacked = np.stack(answers)
    is_known = np.isfinite(stacked).all(2, keepdims=True)
    shares = is_known * np.asarray(weights)[:, None, None]
    totals = shares.sum(0)
    sums = (np.where(is_known, stacked, 0.0) * shares).sum(0)
    return np.asarray(np.where(totals > 0, sums / np.maximum(totals, _TINY), np.nan))


def votes(tuned: Sequence[bool]) -> list[float]:
    """Return the votes of models: those on frozen features share two, a fine-tuned one has one.

    In seven runs of three and ten minutes, with 367 pictures asked, that was 7 answers better than a half for each.
    """
    n_frozen = sum(not is_tuned for is_tuned in tuned)
    return [1.0 if is_tuned else 2.0 / n_frozen for is_tuned in tuned]


def choose_members(
    answers: Sequence[Answers], tuned: Sequence[bool], labels: NDArray[np.int64], *, most: int
) -> list[int]:
    """Choose the models whose mean probabilities are saved: all but the clearly worse ones.

    First among models on frozen features; then between their mean and each fine-tuned model. One is enough where the
    mean answers all images alike: each further one costs a pass of its network for every picture.

    Args:
        answers: of each model.
        tuned: whether each is fine-tuned.
        labels: `n` int64 of the images.
        most: models to choose.

    Returns: indices, the best model first.
    """
    frozen = [index for index, is_tuned in enumerate(tuned) if not is_tuned]
    heads = [frozen[index] for index in _not_clearly_worse([answers[index] for index in frozen], labels, _HEADS)][:most]
    groups = [[index] for index, is_tuned in enumerate(tuned) if is_tuned] + ([heads] if heads else [])
    means = [np.mean([answers[index] for index in group], axis=0) for group in groups]
    chosen = [index for number in _not_clearly_worse(means, labels, _TUNED) for index in groups[number]]
    best_first = [chosen[number] for number in _by_errors([answers[index] for index in chosen], labels)][:most]
    models = [answers[index] for index in best_first]
    shares = votes([tuned[index] for index in best_first])
    rows = answered(models)
    alone, together = models[0][rows], np.average([each[rows] for each in models], axis=0, weights=shares)
    is_enough = int(rows.sum()) >= _ENOUGH and np.array_equal(together.argmax(1), alone.argmax(1))
    return best_first[:1] if is_enough else best_first


def wrong_answers(answers: Answers, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which images are answered wrongly."""
    return np.asarray(np.not_equal(answers.argmax(1), labels))


def error_interval(wrong: int, n: int) -> tuple[float, float]:
    """Return the 80 % interval of an error by wrong answers among n images: Jeffreys', whose low limit may be 0."""
    from scipy.stats import beta

    low, high = beta.ppf([0.1, 0.9], wrong + 0.5, n - wrong + 0.5)
    return 0.0 if wrong == 0 else float(low), 1.0 if wrong == n else float(high)


def _by_errors(models: Sequence[Answers], labels: NDArray[np.int64]) -> list[int]:
    """Return indices of models, the least loss on the images that all have answered first."""
    rows = answered(models)
    return sorted(range(len(models)), key=lambda index: _loss(models[index][rows], labels[rows]))


def _not_clearly_worse(models: Sequence[Answers], labels: NDArray[np.int64], errors: float) -> list[int]:
    """Return indices of the models that are at most some standard errors worse than the best, best first, by images that all have answered."""
    if not models:
        return []
    order, rows = _by_errors(models, labels), answered(models)
    wrong = np.array([wrong_answers(each[rows], labels[rows]) for each in models], np.float64)
    more = wrong - wrong[order[0]]
    limits = errors * more.std(1) / np.sqrt(max(int(rows.sum()), 1))
    return [index for index in order if more[index].mean() <= limits[index]]


def _loss(answers: Answers, labels: NDArray[np.int64]) -> float:
    """Return wrong answers and lost likelihood, in nats: wrong answers alone tie too often."""
    likelihoods = answers[np.arange(len(answers)), labels]
    return float(wrong_answers(answers, labels).sum() - np.log(np.maximum(likelihoods, _TINY)).sum())
