"""Training of networks whose last hidden layer is to be a basis."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bo.surrogates.bayesian_linear import evidence_and_gradient
from bo.surrogates.network import Array, Network

Floats = NDArray[np.float64]

BATCH = 256
RATE = 1e-2
EVIDENCE_RATE = 1e-3
"""First step sizes of the two ways to train; they fall to 0 along a cosine."""


class Adam:
    """Steps of [Kingma2015adam] on one array, with a rate that falls to 0 along a cosine."""

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
    """How networks are trained.

    Attributes:
        stack: K networks, from different starts and on different points.
        steps: of Adam on batches of 256 points (all, where there are fewer), at least.
        epochs: passes through the points, at least.
        decay: variance of the noise in units of the targets', for weights N(0, 1/fan-in): what a large weight costs.
        held_out: share of the points that a network does not see. Its last layer sees them, and learns from them how far
            features are to be trusted that fit what they were trained on.
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
    n_tasks: int = 0,
) -> tuple[Array, Array]:
    """Fit a stack of networks with weight decay.

    Args:
        network: with one output. Inputs beyond those of X are an embedding ψ of the task, learned too, ψ ~ N(0, 1).
        X: `n x in` inputs.
        z: `n` standardised targets.
        plan: how.
        rng: draws starts, batches and the points that are held out.
        loss_slope: d loss / d output, of outputs and targets; least squares, if left out.
        task: `n` tasks in 0..T-1.
        n_tasks: T.

    Returns: weights `K x P` and embeddings `K x T x L`, float32.
    """
    n, known = X.shape
    length = network.sizes[0] - known
    inputs, targets = X.astype(np.float32), z.astype(np.float32)[:, None]
    theta = network.initial(plan.stack, rng=rng)
    start = rng.standard_normal((plan.stack, n_tasks * length)).astype(np.float32)
    everything = np.concatenate([theta, start], axis=1)
    theta, psi = _split(everything, network, length)
    gradient = np.empty_like(everything)
    into, into_psi = _split(gradient, network, length)
    pull = np.ones_like(everything)
    for (weights, _), width in zip(network.layers(_split(pull, network, length)[0]), network.sizes, strict=False):
        weights[...] = width
    pull *= plan.decay / n
    seen = _seen(plan, n, rng)
    belongs = np.zeros((n, n_tasks), dtype=np.float32)
    if task is not None and length:
        belongs[np.arange(n), task] = 1.0
    batch_size = min(n, BATCH)
    steps = max(plan.steps, -(-plan.epochs * n // BATCH))
    adam = Adam(everything, rate=RATE, steps=steps)
    order, at = np.arange(n), 0
    slopes = np.empty((plan.stack, batch_size, network.sizes[0]), dtype=np.float32)
    for _ in range(steps):
        if at + batch_size > n:
            order, at = (rng.permutation(n) if n > BATCH else order), 0
        rows = order[at : at + batch_size]
        at += batch_size
        batch = inputs[rows]
        if length:
            batch = np.concatenate([np.broadcast_to(batch, (plan.stack, *batch.shape)), belongs[rows] @ psi], axis=2)
        values = network.forward(theta, batch)
        slope = loss_slope(values[-1], targets[rows])
        slope *= seen[:, rows]
        slope /= batch_size
        network.backward(theta, values, slope, out=into, inputs=slopes if length else None)
        if length:
            np.matmul(belongs[rows].T, slopes[:, :, known:], out=into_psi)
        gradient += pull * everything
        adam.step(everything, gradient)
    return theta.copy(), psi.copy()


def _split(everything: Array, network: Network, length: int) -> tuple[Array, Array]:
    """View weights `K x P` and embeddings `K x T x L` in what an optimiser moves."""
    k, rest = len(everything), everything[:, network.n_weights :]
    return everything[:, : network.n_weights], rest.reshape(k, -1, length) if length else np.zeros((k, 0, 0))


def _seen(plan: Plan, n: int, rng: np.random.Generator) -> Array:
    """Choose the points that each network is trained on: weights `K x n x 1`, 1 on average, 0 = held out."""
    seen = np.ones((plan.stack, n, 1), dtype=np.float32)
    left_out = int(plan.held_out * n)
    for row in seen:
        row[rng.permutation(n)[:left_out]] = 0.0
    return seen * np.float32(n / (n - left_out))


def maximise_evidence(network: Network, theta: Floats, *, X: Floats, contexts: Floats, z: Floats, steps: int) -> Floats:
    """Move networks whose outputs are the features up the evidence of a linear model on them [Snoek2015scalable] §3.1.

    Dear: every step costs the whole data, and D² a point.

    Args:
        network: whose outputs are the features.
        theta: `K x P`, where to start.
        X: `n x in` inputs.
        contexts: `K x n x c` further ones.
        z: `n`.
        steps: of Adam.

    Returns: weights `K x P`.
    """
    result = theta.copy()
    for k, context in enumerate(contexts):
        moved, precisions = result[k : k + 1], np.array([0.0, 4.0])
        inputs = np.hstack([X, context])
        adam = Adam(moved, rate=EVIDENCE_RATE, steps=steps)
        of_precisions = Adam(precisions, rate=0.1, steps=steps)
        for _ in range(steps):
            values = network.forward(moved, inputs)
            widened = np.hstack([values[-1][0], np.ones((len(X), 1))])
            _, slope, slopes = evidence_and_gradient(widened, z, *precisions.tolist())
            adam.step(moved, network.backward(moved, values, -slope[None, :, :-1]))
            of_precisions.step(precisions, -slopes)
    return result
