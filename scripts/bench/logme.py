"""LogME: how well linear models explain labels from features, as the logarithm of their evidence [You et al., LogME, 2021]."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

SPAN = (1e-8, 1e4)
"""Between these multiples of the largest squared singular value the ratio of prior to noise precision is sought."""


def logme(features: ArrayLike, labels: NDArray[np.int64], *, n_classes: int) -> float:
    """Compute the mean over classes of the maximum log evidence for each image (their section 4).

    Each class is a target of zeros and ones that a linear model with weights N(0, 1/a) and noise N(0, 1/b) explains; a and
    b are those of the most evidence. For a ratio a / b the best b is known, so that only the ratio is sought: their fixed
    point divides by zero where features explain every label.

    Args:
        features: `n x d`.
        labels: `n` in 0 .. n_classes - 1.
        n_classes: classes; those without images are left out.
    """
    X = np.asarray(features, dtype=np.float64)
    U, singular, _ = np.linalg.svd(X, full_matrices=False)
    targets = np.eye(n_classes)[labels][:, np.unique(labels)]
    squares = np.square(singular)
    return float(np.mean([_evidence(y, U.T @ y, squares) for y in targets.T]))


def _evidence(y: NDArray[np.float64], along: NDArray[np.float64], squares: NDArray[np.float64]) -> float:
    """Maximise the log evidence of one target, for each image.

    Args:
        y: `n` targets.
        along: `r`, the target along the left singular vectors.
        squares: `r` squared singular values.
    """
    n, beyond = len(y), max(float(y @ y - along @ along), 0.0)  # what no weights reach

    def loss(log_ratio: float) -> float:
        shrunk = 1.0 + squares / np.exp(log_ratio)
        left = float((np.square(along) / shrunk).sum()) + beyond
        return 0.5 * (np.log(2 * np.pi * left / n) + 1.0 + float(np.log(shrunk).sum()) / n)

    low, high = np.log(squares.max() * np.array(SPAN))
    grid = np.linspace(low, high, 30)
    best = int(np.argmin([loss(ratio) for ratio in grid]))
    near = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return -float(minimize_scalar(loss, bounds=near, method="bounded", options={"xatol": 1e-6}).fun)
