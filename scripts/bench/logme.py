"""LogME: how well linear models explain labels from features, as the logarithm of their evidence [You et al., LogME, 2021]."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROUNDS = 100
CLOSE = 1e-6


def logme(features: ArrayLike, labels: NDArray[np.int64], *, n_classes: int) -> float:
    """Compute the mean over classes of the maximum log evidence for each image (their section 4).

    Each class is a target of zeros and ones that a linear model with weights N(0, 1/a) and noise N(0, 1/b) explains; a and
    b are those of the most evidence, found by MacKay's fixed point.

    Args:
        features: `n x d`.
        labels: `n` in 0 .. n_classes - 1.
        n_classes: classes; those without images are left out.
    """
    X = np.asarray(features, dtype=np.float64)
    U, singular, _ = np.linalg.svd(X, full_matrices=False)
    targets = np.eye(n_classes)[labels][:, np.unique(labels)]
    return float(np.mean([_evidence(y, U.T @ y, np.square(singular), X.shape) for y in targets.T]))


def _evidence(
    y: NDArray[np.float64], along: NDArray[np.float64], squares: NDArray[np.float64], shape: tuple[int, ...]
) -> float:
    """Maximise the log evidence of one target, for each image.

    Args:
        y: `n` targets.
        along: `r`, the target along the left singular vectors.
        squares: `r` squared singular values.
        shape: n and d.
    """
    n, d = shape
    beyond = max(float(y @ y - along @ along), 0.0)  # what no weights reach
    a = b = 1.0
    for _ in range(ROUNDS):
        mean_squared, residual, gamma = _posterior(along, squares, beyond, a / b)
        new_a, new_b = gamma / max(mean_squared, 1e-300), (n - gamma) / max(residual, 1e-300)
        moved = abs(np.log(new_a / new_b) - np.log(a / b))
        a, b = new_a, new_b
        if moved < CLOSE:
            break
    mean_squared, residual, _ = _posterior(along, squares, beyond, a / b)
    spread = np.log(a + b * squares).sum() + (d - len(squares)) * np.log(a)
    return float(n * np.log(b) + d * np.log(a) - b * residual - a * mean_squared - spread - n * np.log(2 * np.pi)) / (
        2 * n
    )


def _posterior(
    along: NDArray[np.float64], squares: NDArray[np.float64], beyond: float, ratio: float
) -> tuple[float, float, float]:
    """Return the squared length of the mean weights, the squared residuals, and the effective number of weights; ratio is a / b."""
    shrunk = squares + ratio
    mean_squared = float((squares * np.square(along / shrunk)).sum())
    residual = float(np.square(along * ratio / shrunk).sum()) + beyond
    return mean_squared, residual, float((squares / shrunk).sum())
