"""Prior of a new task's last layer, estimated from the last layers of related tasks."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDS = 30
"""Fixed-point updates of the precisions."""
SHARE = 0.2
"""Expected share of a function's variance that is specific to its task..."""
WORTH = 1.0
"""...which counts as much as this many weights."""
NOISE = 1e-3
"""Variance of the noise, which counts as much as one point."""

SMALLEST_SHARE = 1e-12
"""Least variance of a combination of weights, as a share of the largest."""


@dataclass(frozen=True, slots=True)
class LayerPrior:
    """Prior w ~ N(mean, root·rootᵀ) of the weights of a task without data.

    Attributes:
        mean: `D`.
        root: `D x D`.
        log_beta: expected logarithm of the precision of the noise.
    """

    mean: Floats
    root: Floats
    log_beta: float

    @classmethod
    def of(
        cls, features: Floats, z: Floats, task: NDArray[np.intp], n_tasks: int, *, units: tuple[float, float]
    ) -> Self:
        """Estimate the prior from `N x D` features, the last one constant, and `N` targets of T tasks, each with noise.

        w_t ~ N(w0, I/α) and w0 ~ N(0, I/α0); precisions by the fixed point of the evidence [MacKay1992bayesian].

        Args:
            features: of all points.
            z: `N`, each task's standardised.
            task: `N`, in 0..T-1.
            n_tasks: T.
            units: variances of the mean, in units of the standard deviation, and of the log standard deviation by which
                the targets of the new task are standardised: its function may be shifted and stretched that much.
        """
        d = features.shape[1]
        member = [task == t for t in range(n_tasks)]
        counts = np.array([rows.sum() for rows in member], dtype=np.float64)
        squares = np.array([z[rows] @ z[rows] for rows in member])
        rows = np.zeros((n_tasks, int(counts.max()), d + 1))
        for t in range(n_tasks):
            rows[t, : int(counts[t])] = np.column_stack([features[member[t]], z[member[t]]])
        left, singular, right = np.linalg.svd(rows[..., :d], full_matrices=False)
        values, vectors = np.square(singular), right.swapaxes(1, 2)  # tasks are silent in all other directions
        h = singular * np.einsum("tni,tn->ti", left, rows[..., d])
        expected = SHARE * len(z) / np.square(features).sum()
        common, specific, beta = SHARE / expected, 1.0 / expected, np.full(n_tasks, 10.0)
        for _ in range(ROUNDS):
            precision = beta[:, None] * values + specific
            shrinkage = specific * beta[:, None] / precision
            information = ((vectors * (shrinkage * values)[:, None]) @ right).sum(axis=0) + common * np.eye(d)
            spread = np.linalg.inv(information)
            mean = spread @ (vectors @ (shrinkage * h)[..., None]).sum(axis=0)[:, 0]
            here = mean @ vectors
            variance = (vectors * (spread @ vectors)).sum(axis=1)
            apart = beta[:, None] / precision
            offset = apart * (h - values * here)
            whole = here + offset
            misfit = squares - 2.0 * (h * whole).sum(1) + (values * np.square(whole)).sum(1)
            misfit += (values * (1.0 / precision + np.square(specific / precision) * variance)).sum(1)
            common = (d - common * float(np.trace(spread)) + WORTH) / (float(mean @ mean) + WORTH * expected / SHARE)
            used = values.size - specific * float((np.square(apart * values) * variance + 1.0 / precision).sum())
            specific = (max(used, 0.0) + WORTH) / (float(np.square(offset).sum()) + WORTH * expected)
            beta = (counts + 1.0) / (np.maximum(misfit, 0.0) + NOISE)
        covariance = spread + np.eye(d) / specific + units[1] * np.outer(mean, mean)
        covariance[-1, -1] += units[0]
        variances, axes = np.linalg.eigh(covariance)
        sds = np.sqrt(np.maximum(variances, SMALLEST_SHARE * variances.max()))  # equal tasks leave rounding errors
        root = (axes * sds) @ axes.T
        return cls(mean, root, float(np.log(beta).mean()))

    @property
    def centre(self) -> Floats:
        """Return root⁻¹·mean, the mean in coordinates with unit covariance."""
        result: Floats = np.asarray(np.linalg.solve(self.root, self.mean), dtype=np.float64)
        return result
