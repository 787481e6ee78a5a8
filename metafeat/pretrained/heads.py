"""Classifiers on frozen features: ridge, nearest neighbours, centroids, logistic regression.

The best head for a set of features is chosen on the training images alone: each predicts every image with that image
(and its flipped copy) left out. For ridge the predictions follow from the hat matrix, for neighbours and centroids by
leaving out a row; none is fitted twice. Logistic regression, whose penalty is chosen in the same way, is fitted on folds
instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.metafeat.pretrained.logistic import LogisticPath, draw_folds, fit_logistic_path

HeadKind = Literal["ridge", "knn", "centroid", "logistic"]
RIDGE_PENALTIES = (0.1, 0.3, 0.03, 1.0, 0.01, 3.0, 0.001, 10.0)
"""Relative to the mean squared length of a centred feature vector."""
NEIGHBOURS = (5, 3, 10, 1)
VOTE_TEMPERATURE = 0.07
"""Of the weight of a neighbour, exp(cosine / temperature)."""
_SCALES = 2.0 ** np.arange(-1, 9)
_TINY = 1e-12
_CHUNK = 1024

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeadSpec:
    """Kind and settings of a classifier.

    Attributes:
        kind: ridge, knn, centroid or logistic.
        standardise: divide each feature by its spread in the training part; else all by one number.
        strength: the penalty of ridge, or the number of neighbours; 0 for centroids and for logistic regression, which
            chooses its penalty itself.
    """

    kind: HeadKind
    standardise: bool
    strength: float

    def __str__(self) -> str:
        name = {"ridge": "ridge λ={:g}", "knn": "{:g}-nearest", "centroid": "centroid", "logistic": "logistic"}
        return name[self.kind].format(self.strength) + (", standardised" if self.standardise else "")


def head_specs(kinds: Sequence[HeadKind] = ("ridge", "knn", "centroid")) -> tuple[HeadSpec, ...]:
    """List the heads to compare; the earlier one wins a tie."""
    strengths = {"ridge": RIDGE_PENALTIES, "knn": NEIGHBOURS, "centroid": (0,), "logistic": (0,)}
    return tuple(
        HeadSpec(kind, standardise, float(strength))
        for kind in kinds
        for strength in strengths[kind]
        for standardise in ((True,) if kind == "logistic" else (True, False))
    )


@dataclass(frozen=True, slots=True)
class TrainingFeatures:
    """Features and labels of training images.

    Attributes:
        rows: `n x d`, or `2n x d` with the flipped copies after the images.
        labels: `n` int64 in 0 .. n_classes - 1.
        n_classes: number of classes.
    """

    rows: NDArray[np.float32]
    labels: Labels
    n_classes: int

    @property
    def copies(self) -> int:
        """Return the number of rows an image."""
        return len(self.rows) // len(self.labels)

    def targets(self) -> Matrix:
        """Return one-hot labels of all rows."""
        return np.eye(self.n_classes)[np.tile(self.labels, self.copies)]


@dataclass(frozen=True, slots=True)
class LinearHead:
    """Scores that are linear in centred and scaled features.

    Attributes:
        mean: `d`.
        spread: `d` divisors of centred features.
        weight: `d x classes`.
        bias: `classes`.
        scale: factor of the scores before the softmax.
        unit: divide each row by its length before the weight.
    """

    mean: Matrix
    spread: Matrix
    weight: Matrix
    bias: Matrix
    scale: float = 1.0
    unit: bool = False

    def scores(self, rows: NDArray[np.float32]) -> Matrix:
        """Compute the scores, `n x classes`."""
        ready = (rows - self.mean) / self.spread
        return (_unit_rows(ready) if self.unit else ready) @ self.weight + self.bias

    def probabilities(self, rows: NDArray[np.float32]) -> Matrix:
        """Compute the probabilities of the classes, `n x classes`."""
        return self.of_scores(self.scores(rows))

    def of_scores(self, scores: Matrix) -> Matrix:
        """Turn scores into probabilities."""
        return softmax(self.scale * scores)

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Return the head as tensors for `head_from_tensors`."""
        settings = np.array([self.scale, self.unit], np.float64)
        return {
            "mean": self.mean,
            "spread": self.spread,
            "weight": self.weight,
            "bias": self.bias,
            "settings": settings,
        }


@dataclass(frozen=True, slots=True)
class NeighbourHead:
    """A weighted vote of the nearest training images by cosine.

    Attributes:
        mean: `d`.
        spread: `d`.
        bank: `n x d` rows of length 1.
        labels: `n` int64.
        n_classes: number of classes.
        k: voters.
    """

    mean: Matrix
    spread: Matrix
    bank: Matrix
    labels: Labels
    n_classes: int
    k: int

    def scores(self, rows: NDArray[np.float32]) -> Matrix:
        """Compute the votes, `n x classes`; rows sum to 1."""
        queries = _unit_rows((rows - self.mean) / self.spread)
        return _nearest_rows(queries, self.bank, self.labels).votes(self.k, self.n_classes)

    def probabilities(self, rows: NDArray[np.float32]) -> Matrix:
        """Compute the votes with one more vote shared by all classes."""
        return self.of_scores(self.scores(rows))

    def of_scores(self, scores: Matrix) -> Matrix:
        """Turn votes into probabilities."""
        return (self.k * scores + 1 / self.n_classes) / (self.k + 1)

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Return the head as tensors for `head_from_tensors`."""
        settings = np.array([self.n_classes, self.k], np.float64)
        return {
            "mean": self.mean,
            "spread": self.spread,
            "bank": self.bank,
            "labels": self.labels,
            "settings": settings,
        }


Head = LinearHead | NeighbourHead


def head_from_tensors(tensors: dict[str, NDArray[np.generic]]) -> Head:
    """Read a head from its tensors.

    Raises: KeyError, ValueError: they are not those of a head.
    """
    arrays = {name: np.asarray(tensor, np.float64) for name, tensor in tensors.items()}
    first, second = arrays["settings"].tolist()
    if "bank" in arrays:
        labels = arrays["labels"].astype(np.int64)
        return NeighbourHead(arrays["mean"], arrays["spread"], arrays["bank"], labels, int(first), int(second))
    return LinearHead(arrays["mean"], arrays["spread"], arrays["weight"], arrays["bias"], first, bool(second))


class HeadSearch:
    """Comparison of heads on one set of features, by leave-one-out errors.

    Args:
        data: the training part.
        specs: heads to compare; None = `head_specs()`.
    """

    def __init__(self, data: TrainingFeatures, specs: Sequence[HeadSpec] | None = None) -> None:
        self.data = data
        self.specs = tuple(specs) if specs is not None else head_specs()
        self._spaces = {
            standardise: _ScaledRows(data, standardise=standardise)
            for standardise in {s.standardise for s in self.specs}
        }
        self._wrong = np.array([self.left_out_scores(spec).argmax(1) != data.labels for spec in self.specs])
        self._error_counts: Labels = self._wrong.sum(1, dtype=np.int64)

    def error_counts(self) -> Labels:
        """Return the leave-one-out errors of each head, in images."""
        return self._error_counts

    def best(self) -> HeadSpec:
        """Return the head with the fewest errors, the first of several."""
        return self.specs[int(self._error_counts.argmin())]

    def cross_fitted(self) -> Matrix:
        """Compute probabilities of the training images, `n x classes`, by heads that were fitted and chosen without them.

        The best of many heads owes some of its few errors to chance: here each fold's head is the best on the others.
        """
        folds = draw_folds(self.data.labels)
        best = np.array([self._wrong[:, folds != fold].sum(1).argmin() for fold in range(int(folds.max()) + 1)])[folds]
        probabilities = np.empty((len(folds), self.data.n_classes))
        for index in np.unique(best):
            spec, rows = self.specs[index], best == index
            probabilities[rows] = self.fit(spec).of_scores(self.left_out_scores(spec))[rows]
        return probabilities

    def left_out_scores(self, spec: HeadSpec) -> Matrix:
        """Return the leave-one-out scores of the training images, `n x classes`."""
        return self._spaces[spec.standardise].left_out(spec)

    def scores(self, spec: HeadSpec, rows: NDArray[np.float32]) -> Matrix:
        """Compute the scores of other images, `m x classes`, without keeping a head."""
        return self._spaces[spec.standardise].scores(spec, rows)

    def fit(self, spec: HeadSpec | None = None) -> Head:
        """Fit a head to all training rows; None = the best."""
        spec = spec or self.best()
        head = self._spaces[spec.standardise].fit(spec)
        if isinstance(head, NeighbourHead):
            return head
        scale = best_scale(self.left_out_scores(spec), self.data.labels)
        return LinearHead(head.mean, head.spread, head.weight, head.bias, scale, head.unit)


class _ScaledRows:
    """Centred and scaled rows, with cached results that several heads share."""

    def __init__(self, data: TrainingFeatures, *, standardise: bool) -> None:
        self.data = data
        rows = data.rows.astype(np.float64)
        self.mean = rows.mean(0)
        centred = rows - self.mean
        overall_spread = float(np.sqrt((centred**2).mean())) or 1.0
        spreads = centred.std(0)
        self.spread = (
            np.where(spreads > 1e-6 * overall_spread, spreads, overall_spread)
            if standardise
            else np.full(len(self.mean), overall_spread)
        )
        self.rows = centred / self.spread
        self.mean_square_length = max(float((self.rows**2).sum()) / len(self.rows), _TINY)
        self.labels = np.tile(data.labels, data.copies)
        self._units: Matrix | None = None
        self._neighbours: _Neighbours | None = None
        self._left_factors: tuple[Matrix, Matrix] | None = None
        self._right_factors: Matrix | None = None
        self._path: LogisticPath | None = None
        self._query_cache: tuple[object, Matrix, _Neighbours] | None = None

    # Ridge.

    def left_factors(self) -> tuple[Matrix, Matrix]:
        """Factor the rows, U sqrt(s) V': return U `n x r` and the squared singular values s `r`."""
        if self._left_factors is None:
            n, d = self.rows.shape
            gram = self.rows @ self.rows.T if n <= d else self.rows.T @ self.rows
            squares, vectors = np.linalg.eigh(gram)
            is_positive = squares > _TINY * max(float(squares[-1]), _TINY)
            squares, vectors = squares[is_positive], vectors[:, is_positive]
            if n > d:
                self._right_factors, vectors = vectors, self.rows @ vectors / np.sqrt(squares)
            self._left_factors = vectors, squares
        return self._left_factors

    def right_factors(self) -> Matrix:
        """Return V of the factors, `d x r`."""
        u, squares = self.left_factors()
        if self._right_factors is None:
            self._right_factors = self.rows.T @ u / np.sqrt(squares)
        return self._right_factors

    def _penalty(self, spec: HeadSpec) -> float:
        """Return the penalty in the unit of squared singular values."""
        return spec.strength * self.mean_square_length

    def _ridge(self, spec: HeadSpec) -> tuple[Matrix, Matrix]:
        """Return weights `d x classes` and the mean of the targets `classes`."""
        u, squares = self.left_factors()
        targets = self.data.targets()
        mean = targets.mean(0)
        shrunk = np.sqrt(squares) / (squares + self._penalty(spec))
        return self.right_factors() @ (shrunk[:, None] * (u.T @ (targets - mean))), mean

    def _ridge_left_out(self, spec: HeadSpec) -> Matrix:
        u, squares = self.left_factors()
        targets, n, m = self.data.targets(), len(self.rows), len(self.data.labels)
        mean = targets.mean(0)
        share = squares / (squares + self._penalty(spec))
        residuals = targets - mean - u @ (share[:, None] * (u.T @ (targets - mean)))
        leverage = 1 - 1 / n - (u**2) @ share
        if self.data.copies == 1:
            without_image: Matrix = targets - residuals / np.maximum(leverage, _TINY)[:, None]
            return without_image
        # An image and its flipped copy are left out together: solve the two by two block of I - H.
        cross = -1 / n - (u[:m] * u[m:]) @ share
        leverage_image, leverage_copy = leverage[:m], leverage[m:]
        determinant = np.maximum(leverage_image * leverage_copy - cross**2, _TINY**2)
        residual_pair: Matrix = (leverage_copy[:, None] * residuals[:m] - cross[:, None] * residuals[m:]) / determinant[
            :, None
        ]
        return targets[:m] - residual_pair

    # Neighbours and centroids.

    def units(self) -> Matrix:
        """Return the rows, of length 1."""
        if self._units is None:
            self._units = _unit_rows(self.rows)
        return self._units

    def _neighbours_left_out(self) -> _Neighbours:
        """Find the nearest rows of each image, without itself and its copies."""
        if self._neighbours is None:
            m = len(self.data.labels)
            self._neighbours = _nearest_rows(self.units()[:m], self.units(), self.labels, copies=self.data.copies)
        return self._neighbours

    def _centroids(self) -> Matrix:
        sums = self.data.targets().T @ self.units()
        return _unit_rows(sums)

    def _centroid_left_out(self) -> Matrix:
        m, labels = len(self.data.labels), self.data.labels
        units = self.units()
        sums = self.data.targets().T @ units
        scores = units[:m] @ _unit_rows(sums).T
        sums_without_image = sums[labels] - sum(units[copy * m : (copy + 1) * m] for copy in range(self.data.copies))
        scores[np.arange(m), labels] = (units[:m] * _unit_rows(sums_without_image)).sum(1)
        # The only image of a class: nothing is left of its centroid. No cosine is lower than -1.
        alone = np.bincount(labels, minlength=self.data.n_classes)[labels] == 1
        scores[np.flatnonzero(alone), labels[alone]] = -1.0
        return scores

    # Logistic regression.

    def _logistic(self) -> tuple[LogisticPath, int]:
        """Fit logistic regression; return all penalties and the place of the best."""
        if self._path is None:
            self._path = fit_logistic_path(self.rows, self.data.labels, n_classes=self.data.n_classes)
        return self._path, self._path.best()

    # By kind.

    def left_out(self, spec: HeadSpec) -> Matrix:
        if spec.kind == "ridge":
            return self._ridge_left_out(spec)
        if spec.kind == "logistic":
            path, best = self._logistic()
            scores: Matrix = path.left_out[best]
            return scores
        if spec.kind == "centroid":
            return self._centroid_left_out()
        return self._neighbours_left_out().votes(int(spec.strength), self.data.n_classes)

    def scores(self, spec: HeadSpec, rows: NDArray[np.float32]) -> Matrix:
        if spec.kind not in ("ridge", "knn"):
            return self.fit(spec).scores(rows)
        if self._query_cache is None or self._query_cache[0] is not rows:
            ready = (rows - self.mean) / self.spread
            near = _nearest_rows(_unit_rows(ready), self.units(), self.labels)
            self._query_cache = (rows, ready @ self.right_factors(), near)
        _, projected, near = self._query_cache
        if spec.kind == "knn":
            return near.votes(int(spec.strength), self.data.n_classes)
        u, squares = self.left_factors()
        targets = self.data.targets()
        shrunk = np.sqrt(squares) / (squares + self._penalty(spec))
        scores: Matrix = projected @ (shrunk[:, None] * (u.T @ (targets - targets.mean(0)))) + targets.mean(0)
        return scores

    def fit(self, spec: HeadSpec) -> Head:
        if spec.kind == "knn":
            classes, k = self.data.n_classes, int(spec.strength)
            return NeighbourHead(self.mean, self.spread, self.units(), self.labels, classes, k)
        if spec.kind == "centroid":
            bias = np.zeros(self.data.n_classes)
            return LinearHead(self.mean, self.spread, self._centroids().T, bias, unit=True)
        if spec.kind == "logistic":
            path, best = self._logistic()
            weight, bias = path.weight[best], path.bias[best]
        else:
            weight, bias = self._ridge(spec)
        return LinearHead(self.mean, self.spread, weight, bias)


def best_scale(scores: Matrix, labels: Labels) -> float:
    """Choose the factor of scores before the softmax, by the least mean negative log likelihood."""
    rows = np.arange(len(labels))
    losses = [-np.log(np.maximum(softmax(scale * scores)[rows, labels], _TINY)).mean() for scale in _SCALES]
    return float(_SCALES[int(np.argmin(losses))])


def softmax(scores: Matrix) -> Matrix:
    """Turn scores into probabilities, row by row."""
    powers = np.exp(scores - scores.max(1, keepdims=True))
    shares: Matrix = powers / powers.sum(1, keepdims=True)
    return shares


def _unit_rows(rows: Matrix) -> Matrix:
    units: Matrix = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
    return units


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The nearest rows of each image: `m x k` cosines, largest first, and the rows' labels; -inf = fewer rows."""

    cosines: Matrix
    labels: Labels

    def votes(self, k: int, n_classes: int) -> Matrix:
        """Share the votes of the k nearest among their classes, `m x n_classes`."""
        weights = np.exp((self.cosines[:, :k] - self.cosines[:, :1]) / VOTE_TEMPERATURE)
        votes = np.zeros((len(weights), n_classes))
        np.add.at(votes, (np.arange(len(weights))[:, None], self.labels[:, :k]), weights)
        shares: Matrix = votes / votes.sum(1, keepdims=True)
        return shares


def _nearest_rows(queries: Matrix, bank: Matrix, labels: Labels, *, copies: int = 0) -> _Neighbours:
    """Find the rows of a bank with the largest cosines, some images at a time.

    Args:
        queries: `m x d` rows of length 1.
        bank: `n x d` likewise.
        labels: `n` int64.
        copies: number of rows of the bank that are image i itself, at i, i + m, ...; they are passed over.
    """
    k, m = min(max(NEIGHBOURS), len(bank)), len(queries)
    cosines, chosen = np.empty((m, k)), np.empty((m, k), np.int64)
    for start in range(0, m, _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, m))
        similarity = queries[rows] @ bank.T
        for copy in range(copies):
            similarity[np.arange(len(rows)), rows + copy * m] = -np.inf
        best = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(similarity, best, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        cosines[rows], chosen[rows] = np.take_along_axis(values, order, 1), np.take_along_axis(best, order, 1)
    return _Neighbours(cosines, labels[chosen])
