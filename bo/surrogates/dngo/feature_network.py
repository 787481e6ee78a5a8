"""Training of networks whose last hidden layer has the features of a Bayesian linear regression."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.dngo.bayesian_linear import evidence_and_gradient
from warmstart.bo.surrogates.dngo.linear_head import LOCATION, SCALE
from warmstart.bo.surrogates.network import Array, Network

Floats = NDArray[np.float64]

BATCH = 256
RATE = 1e-2
EVIDENCE_RATE = 1e-3
"""First step sizes of least squares and of the evidence; they fall to 0 along a cosine."""
SCALE_STEPS, SCALE_RATE = 60, 0.1
SCALE_CENTRE, SCALE_SD = math.log(2.0), 1.0
"""Steps and step size for the scales of inputs, and the normal prior of their logarithms."""
LEVEL = 0.5
"""Typical root mean square of a feature of untrained networks."""
RELATED = 0.3
"""Largest weight of a related task's points: features shall fit the task at hand."""


class Adam:
    """Adam [Kingma2015adam] on one array, with a learning rate that falls to 0 along a cosine."""

    def __init__(self, like: Array, *, rate: float, steps: int) -> None:
        self._rate, self._steps, self._t = rate, steps, 0
        self._first, self._second, self._change = np.zeros_like(like), np.zeros_like(like), np.empty_like(like)

    def step(self, theta: Array, gradient: Array) -> None:
        """Move θ down the gradient, in place; the gradient is overwritten."""
        rate = 0.5 * self._rate * (1.0 + math.cos(math.pi * self._t / self._steps))
        self._t += 1
        correction = math.sqrt(1.0 - 0.999**self._t)
        first, second, change = self._first, self._second, self._change
        first *= 0.9
        np.multiply(gradient, 0.1, out=change)
        first += change
        second *= 0.999
        np.square(gradient, out=gradient)
        gradient *= 0.001
        second += gradient
        np.sqrt(second, out=change)
        change += 1e-8 * correction
        np.divide(first, change, out=change)
        change *= rate * correction / (1.0 - 0.9**self._t)
        theta -= change


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of the training.

    Attributes:
        stack: K networks, from different starts and on different points.
        steps: least number of steps of Adam, on batches of at most 256 points.
        epochs: least number of passes through the points.
        decay: variance of the noise in units of the targets', for weights N(0, 1/fan-in): the penalty of large weights.
        held_out: share of the points that a network is not trained on. Its last layer uses them, and learns from them
            how reliable the features are.
    """

    stack: int
    steps: int
    epochs: int
    decay: float
    held_out: float


def train(
    network: Network,
    X: Floats,
    z: Floats,
    *,
    plan: Plan,
    rng: np.random.Generator,
    loss_slope: Callable[[Array, Array], Array] = np.subtract,
    task: NDArray[np.intp] | None = None,
    point_weights: Array | None = None,
) -> Array:
    """Fit a stack of networks with weight decay.

    Half-way, each related task gets the weight 0.3 max(0, 1 - v), v the mean square of the residuals at held-out points
    in units of its targets' variance: a fit to an unpredictable task spoils the features for the others. The task at
    hand, the last, keeps its weight.

    Args:
        network: with one output for each task.
        X: `n x in` inputs.
        z: `n` standardised targets.
        plan: settings.
        rng: draws starts, batches and held-out points.
        loss_slope: d loss / d output, of outputs and targets; by default of least squares.
        task: `n` tasks in 0..T-1; None = a single task.
        point_weights: output of `draw_point_weights`; None = drawn here.

    Returns: weights `K x P`, float32.
    """
    n = len(X)
    inputs, targets = X.astype(np.float32), z.astype(np.float32)
    theta = network.initial(plan.stack, rng=rng)
    gradient, pull = np.empty_like(theta), np.ones_like(theta)
    for (weights, _), width in zip(network.layers(pull), network.sizes, strict=False):
        weights[...] = width
    pull *= plan.decay / n
    point_weights = draw_point_weights(plan, n, rng) if point_weights is None else point_weights.copy()
    output = np.zeros(n, dtype=np.intp) if task is None else task
    batch_size = min(n, BATCH)
    steps = max(plan.steps, -(-plan.epochs * n // BATCH))
    adam = Adam(theta, rate=RATE, steps=steps)
    order, at = np.arange(n), 0
    slope = np.zeros((plan.stack, batch_size, network.sizes[-1]), dtype=np.float32)
    for step in range(steps):
        if task is not None and step == steps // 2:
            fitted = network.forward(theta, inputs)[-1][:, np.arange(n), output]
            point_weights *= _task_weights(fitted - targets, point_weights == 0.0, output, network.sizes[-1])[output]
        if at + batch_size > n:
            # A batch of all points needs no order, and so draws nothing from the generator.
            order, at = (rng.permutation(n) if n > BATCH else order), 0
        rows = order[at : at + batch_size]
        at += batch_size
        values = network.forward(theta, inputs[rows])
        cells = np.arange(batch_size), output[rows]
        slope[...] = 0.0
        slope[:, *cells] = loss_slope(values[-1][:, *cells], targets[rows]) * point_weights[:, rows] / batch_size
        network.backward(theta, values, slope, out=gradient)
        gradient += pull * theta
        adam.step(theta, gradient)
    return theta


def _task_weights(residual: Array, held_out: NDArray[np.bool_], task: NDArray[np.intp], n_tasks: int) -> Array:
    """Compute the weights of tasks, `T`, from the explained share of their held-out variance."""
    weights = np.ones(n_tasks, dtype=np.float32)
    for t in range(n_tasks - 1):
        squares = np.square(residual[held_out & (task == t)])
        weights[t] = RELATED * (max(0.0, 1.0 - float(squares.mean())) if len(squares) else 1.0)
    return weights


def draw_point_weights(plan: Plan, n: int, rng: np.random.Generator) -> Array:
    """Draw the training points of each network: weights `K x n`, 1 on average, 0 = held out."""
    weights = np.ones((plan.stack, n), dtype=np.float32)
    left_out = int(plan.held_out * n)
    for row in weights:
        row[rng.permutation(n)[:left_out]] = 0.0
    # With a mean of 1, the loss and the weight decay keep their proportion.
    return weights * np.float32(n / (n - left_out))


def maximise_evidence(
    network: Network, theta: Floats, *, X: Floats, z: Floats, steps: int, training_rows: NDArray[np.bool_]
) -> Floats:
    """Train networks by the marginal likelihood of a linear model on their features [Snoek2015scalable] §3.1.

    It is expensive: every step uses all data, at D² for each point. A network trains on a part of the points, and its
    last layer uses all: trained on all points, it would be much too certain.

    Args:
        network: whose outputs are the features.
        theta: `K x P`, initial weights.
        X: `n x in` inputs.
        z: `n`.
        steps: of Adam.
        training_rows: `K x n`, mask of the training points of each network.

    Returns: weights `K x P`.
    """
    result = theta.copy()
    for k, rows in enumerate(training_rows):
        weights, inputs, targets, precisions = result[k : k + 1], X[rows], z[rows], np.array([0.0, 4.0])
        adam = Adam(weights, rate=EVIDENCE_RATE, steps=steps)
        precision_adam = Adam(precisions, rate=0.1, steps=steps)
        for _ in range(steps):
            values = network.forward(weights, inputs)
            features = np.hstack([values[-1][0], np.ones((len(inputs), 1))])
            _, slope, slopes = evidence_and_gradient(features, targets, *precisions.tolist())
            adam.step(weights, network.backward(weights, values, -slope[None, :, :-1]))
            precision_adam.step(precisions, -slopes)
    return result


def side_by_side(values: Floats) -> Floats:
    """Join the features of K networks, scaled so that functions of α = 1 have a variance of about 1.

    Args:
        values: `K x ... x D`.

    Returns: `... x KD`.
    """
    k, *points, d = values.shape
    result: Floats = np.moveaxis(values, 0, -2).reshape(*points, k * d) * _joint_scale(values)
    return result


def _joint_scale(values: Floats) -> float:
    """Return the scale of the joined features of K networks."""
    return 1.0 / (LEVEL * math.sqrt(values.shape[0] * values.shape[-1]))


def scale_inputs(
    network: Network,
    theta: Floats,
    *,
    X: Floats,
    z: Floats,
    column: NDArray[np.intp],
    counts: Sequence[int] | None = None,
) -> Floats:
    """Scale the inputs of the networks by the marginal likelihood of one regression on all their features.

    The scales play the part of lengthscales: few numbers, which few points can determine. α and β are fitted together
    with them. Each task has its own regression; all but the last, the target, have the weight 0.3.

    Args:
        network: whose outputs are the features.
        theta: `K x P`, untrained weights.
        X: `n x in` inputs, the scaled ones first.
        z: `n`.
        column: column of the points behind each scaled input.
        counts: `T` numbers of points of the tasks, whose rows follow one another; None = a single task.

    Returns: weights `K x P`, those of the first layer scaled.
    """
    n, d = len(X), int(column.max()) + 1
    ends = np.cumsum([n] if counts is None else counts).tolist()
    parts = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    centre, sd = (
        np.array([*[level] * d, *pair * len(parts)]) for level, pair in ((SCALE_CENTRE, LOCATION), (SCALE_SD, SCALE))
    )
    at, scaled = centre.copy(), theta.copy()
    first, into = (network.layers(weights)[0][0][:, : len(column)] for weights in (theta, scaled))
    adam = Adam(at, rate=SCALE_RATE, steps=SCALE_STEPS)
    slope = np.empty((n, len(theta) * network.sizes[-1] + 1))
    for _ in range(SCALE_STEPS):
        into[...] = np.exp(at[column])[:, None] * first
        values = network.forward(scaled, X)
        features, slopes = np.hstack([side_by_side(values[-1]), np.ones((n, 1))]), np.zeros((len(parts), 2))
        for t, part in enumerate(parts):
            if part.start < part.stop:
                precisions = at[d + 2 * t : d + 2 * t + 2].tolist()
                _, slope[part], slopes[t] = evidence_and_gradient(features[part], z[part], *precisions)
                slope[part] *= 1.0 if t == len(parts) - 1 else RELATED
        back = np.moveaxis(slope[:, :-1].reshape(n, len(theta), -1), 1, 0) * _joint_scale(values[-1])
        pull = (network.layers(network.backward(scaled, values, back))[0][0][:, : len(column)] * into).sum(axis=(0, 2))
        pulls = np.bincount(column, weights=pull, minlength=d)
        adam.step(at, (at - centre) / sd**2 - np.concatenate([pulls, slopes.ravel()]))
    into[...] = np.exp(at[column])[:, None] * first
    return scaled
