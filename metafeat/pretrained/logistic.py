"""Multinomial logistic regression whose penalty is chosen by cross-validation, quick where rows are fewer than features.

The solution lies in the span of the rows, so rows are first turned into as many coordinates as they have rank. All folds
and the fit to all rows are solved together, penalty after penalty, each from the solution of the one before, by Newton
steps whose linear systems conjugate gradients solve. Own code: scikit-learn solves one problem at a time and without the
reduction, which takes some forty times as long on 100 rows of 1,280 features.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PENALTIES = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)
"""Relative to the mean squared length of a row, falling: each is solved from the one before."""
FOLDS = 5
_ABSENT = -1e3
"""Bias of a class that has no rows in a fold."""
_GRADIENT = 1e-7
"""Greatest entry of the gradient of the mean loss at a solution, rows scaled to a mean squared length of 1."""
_NEWTON_STEPS, _CG_STEPS, _HALVINGS = 60, 60, 12
_TINY = 1e-12

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LogisticPath:
    """Solutions for several penalties, fitted to all rows and by folds.

    Attributes:
        penalties: `p`, relative to the mean squared length of a row.
        weight: `p x d x classes`, of rows as they were given.
        bias: `p x classes`.
        left_out: `p x n x classes`, scores of each image by the fold that has not seen it.
        losses: `p`, mean negative log likelihood of the left-out scores.
        wrong: `p` int64, images that the left-out scores miss.
    """

    penalties: tuple[float, ...]
    weight: Matrix
    bias: Matrix
    left_out: Matrix
    losses: Matrix
    wrong: Labels

    def best(self) -> int:
        """Return the place of the penalty with the least loss of images left out."""
        return int(self.losses.argmin())

    def scores(self, rows: NDArray[np.floating], place: int) -> Matrix:
        """Compute the scores of other rows, `m x classes`, by the fit to all rows under one penalty."""
        scores: Matrix = rows @ self.weight[place] + self.bias[place]
        return scores


def fit_logistic_path(
    rows: NDArray[np.floating],
    labels: Labels,
    *,
    n_classes: int,
    penalties: Sequence[float] = PENALTIES,
    folds: int = FOLDS,
) -> LogisticPath:
    """Fit all penalties to all rows and to the folds' rows.

    What is minimised is the mean of the negative log likelihoods plus the penalty, times the mean squared length of a
    row, times the sum of squared weights of all classes, of two as well. The bias is free.

    Args:
        rows: `n x d`, or a multiple of `n` rows where copies of the images follow them; centred and scaled.
        labels: `n` int64 in 0 .. n_classes - 1.
        n_classes: number of classes.
        penalties: falling.
        folds: parts of the images that are left out in turn, class by class; an image leaves with its copies.
    """
    matrix: Matrix = np.asarray(rows, np.float64)
    n, copies = len(labels), len(matrix) // len(labels)
    fold_of = draw_folds(labels, folds)
    kept = np.tile(np.arange(fold_of.max() + 1) != fold_of[:, None], (copies, 1))
    kept = np.hstack([kept, np.ones((len(matrix), 1), bool)])
    coordinates, basis = reduce_rows(matrix)
    length = max(float((coordinates**2).sum()) / len(matrix), _TINY) ** 0.5
    solutions = _solve_path(coordinates / length, np.tile(labels, copies), kept, n_classes, penalties)
    by_fold = np.einsum("nr,prfc->pnfc", coordinates[:n] / length, solutions[:, :-1]) + solutions[:, None, -1]
    left_out = by_fold[:, np.arange(n), fold_of]
    logs = log_softmax(left_out)[:, np.arange(n), labels]
    weight = basis @ (solutions[:, :-1, -1] / length)
    return LogisticPath(
        penalties=tuple(penalties),
        weight=weight,
        bias=solutions[:, -1, -1],
        left_out=left_out,
        losses=-np.maximum(logs, _ABSENT).mean(1),
        wrong=(left_out.argmax(2) != labels).sum(1),
    )


def scores_of_subsets(
    rows: NDArray[np.floating],
    labels: Labels,
    subsets: NDArray[np.bool_],
    *,
    n_classes: int,
    penalties: Sequence[float] = PENALTIES,
) -> Matrix:
    """Fit all penalties to subsets of the rows, and score all rows by each fit.

    Args:
        rows: `n x d`, centred and scaled.
        labels: `n` int64 in 0 .. n_classes - 1.
        subsets: `n x f`, true where a subset has a row.
        n_classes: number of classes.
        penalties: falling.

    Returns: `p x n x f x classes`.
    """
    coordinates, _ = reduce_rows(np.asarray(rows, np.float64))
    length = max(float((coordinates**2).sum()) / len(coordinates), _TINY) ** 0.5
    solutions = _solve_path(coordinates / length, labels, subsets, n_classes, penalties)
    scores: Matrix = np.einsum("nr,prfc->pnfc", coordinates / length, solutions[:, :-1], optimize=True)
    scores += solutions[:, None, -1]
    return scores


def draw_folds(labels: Labels, folds: int = FOLDS) -> Labels:
    """Deal the images to folds class by class, `n` int64; as many folds as there are images at most."""
    found = np.empty(len(labels), np.int64)
    found[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % min(folds, len(labels))
    return found


def reduce_rows(rows: Matrix) -> tuple[Matrix, Matrix]:
    """Turn rows `n x d` of rank r into coordinates `n x r` and an orthonormal basis `d x r`; their product is the rows."""
    n, d = rows.shape
    squares, vectors = np.linalg.eigh(rows @ rows.T if n <= d else rows.T @ rows)
    kept = squares > _TINY * max(float(squares[-1]), _TINY)
    vectors, lengths = vectors[:, kept], np.sqrt(squares[kept])
    return (vectors * lengths, rows.T @ vectors / lengths) if n <= d else (rows @ vectors, vectors)


def log_softmax(scores: Matrix) -> Matrix:
    """Turn scores into logarithms of probabilities along the last axis."""
    shifted = scores - scores.max(-1, keepdims=True)
    logs: Matrix = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return logs


def _solve_path(
    coordinates: Matrix, labels: Labels, kept: NDArray[np.bool_], n_classes: int, penalties: Sequence[float]
) -> Matrix:
    """Solve all problems for all penalties.

    Args:
        coordinates: `m x r`.
        labels: `m` int64.
        kept: `m x f`, the rows of each problem.
        n_classes: number of classes.
        penalties: falling.

    Returns: `p x (r + 1) x f x classes`, the bias last.
    """
    targets = np.eye(n_classes)[labels]
    counts = kept.T.astype(np.float64) @ targets
    with_one = np.hstack([coordinates, np.ones((len(coordinates), 1))])
    problems = _Problems(with_one, targets[:, None, :], kept / kept.sum(0), np.where(counts > 0, 0.0, _ABSENT))
    solution = np.zeros((with_one.shape[1], kept.shape[1], n_classes))
    solutions = []
    for penalty in penalties:
        solution = problems.solve(penalty, solution)
        solutions.append(solution)
    found = np.array(solutions)
    found[:, -1] += problems.offsets
    return found


@dataclass(frozen=True, slots=True)
class _Problems:
    """Problems that differ in the weights of their rows.

    Attributes:
        rows: `m x r`, the last column ones.
        targets: `m x 1 x classes`, one-hot.
        shares: `m x f`, weights of the rows, columns that sum to 1.
        offsets: `f x classes`, added to the scores.
    """

    rows: Matrix
    targets: Matrix
    shares: Matrix
    offsets: Matrix

    def solve(self, penalty: float, start: Matrix) -> Matrix:
        """Minimise the penalised mean loss by Newton steps from a start, `r x f x classes`."""
        pull = np.full(self.rows.shape[1], 2 * penalty)
        pull[-1] = 0.0
        pull = pull[:, None, None]
        solution, (value, logs) = start, self._value(start, pull)
        for _ in range(_NEWTON_STEPS):
            shares = np.exp(logs)
            gradient = self._back(shares - self.targets) + pull * solution
            open_ones = np.abs(gradient).max((0, 2)) > _GRADIENT
            if not open_ones.any():
                break
            step = self._newton_step(gradient * open_ones[:, None], shares, pull)
            slope, length = _products(gradient, step), open_ones.astype(np.float64)
            for _ in range(_HALVINGS):
                tried = solution + length[:, None] * step
                new_value, new_logs = self._value(tried, pull)
                worse = new_value > value + 1e-4 * length * slope + 1e-14
                if not worse.any():
                    break
                length = np.where(worse, length / 2, length)
            solution, value, logs = tried, new_value, new_logs
        return solution

    def _scores(self, solution: Matrix) -> Matrix:
        m, (r, f, classes) = len(self.rows), solution.shape
        scores: Matrix = (self.rows @ solution.reshape(r, f * classes)).reshape(m, f, classes)
        return scores

    def _back(self, errors: Matrix) -> Matrix:
        """Return the rows' sums of errors `m x f x classes`, weighted by their shares: `r x f x classes`."""
        m, f, classes = errors.shape
        weighted = (errors * self.shares[:, :, None]).reshape(m, f * classes)
        sums: Matrix = (self.rows.T @ weighted).reshape(-1, f, classes)
        return sums

    def _value(self, solution: Matrix, pull: Matrix) -> tuple[Matrix, Matrix]:
        """Return what is minimised, `f`, and the logarithms of the probabilities, `m x f x classes`."""
        logs = log_softmax(self._scores(solution) + self.offsets)
        losses = -(logs * self.targets).sum(2)
        return (losses * self.shares).sum(0) + (pull * solution**2).sum((0, 2)) / 2, logs

    def _newton_step(self, gradient: Matrix, shares: Matrix, pull: Matrix) -> Matrix:
        """Solve the Hessian's system for minus the gradient by conjugate gradients, preconditioned by the rows' mean curvature."""
        curvature = np.einsum("mfc,mf->fc", shares * (1 - shares), self.shares)
        squares = np.square(self.rows).mean(0)[:, None, None]
        scale = 1 / (curvature * squares + np.maximum(pull, 1e-9))
        step = np.zeros_like(gradient)
        residual = -gradient
        ready = scale * residual
        direction, product = ready, _products(residual, ready)
        enough = product * min(0.01, float(np.abs(gradient).max()))
        for _ in range(_CG_STEPS):
            moved = self._scores(direction)
            moved = shares * (moved - np.einsum("mfc,mfc->mf", shares, moved)[:, :, None])
            image = self._back(moved) + pull * direction
            bent = _products(direction, image)
            far = np.divide(product, bent, out=np.zeros_like(product), where=bent > 0)[:, None]
            step += far * direction
            residual -= far * image
            ready = scale * residual
            new = _products(residual, ready)
            if (new <= enough).all():
                break
            again = np.divide(new, product, out=np.zeros_like(product), where=product > 0)
            direction, product = ready + again[:, None] * direction, new
        return step


def _products(left: Matrix, right: Matrix) -> Matrix:
    """Return the scalar product of each problem, `f`, of `r x f x classes`."""
    products: Matrix = np.einsum("rfc,rfc->f", left, right)
    return products


SHARES = (1 / 3, 2 / 3, 1.0)
"""Of the images that are trained on."""
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
