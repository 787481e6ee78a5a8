"""Effective sample size of correlated chains."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def effective_sample_size(draws: Floats) -> Floats:
    """Estimate the effective number of samples of several quantities [Gelman2013bayesian] Eq. (11.8).

    Autocorrelations are means over all chains, relative to a variance that includes the variance between chains, summed
    up to the first pair of lags whose sum is negative [Geyer1992practical]. Chains that disagree lower the result.

    Args:
        draws: `K x n x q`, q quantities along K chains of n ≥ 2 draws.

    Returns: `q`, in (0, K n]; K n for a quantity that never changes.
    """
    k, n, _ = draws.shape
    centred = draws - draws.mean(axis=1, keepdims=True)
    covariance = np.array([(centred[:, : n - lag] * centred[:, lag:]).sum(axis=1).mean(axis=0) / n for lag in range(n)])
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + (draws.mean(axis=1).var(axis=0, ddof=1) if k > 1 else 0.0)
    still = total <= 0.0
    correlation = 1.0 - (within - covariance) / np.where(still, 1.0, total)
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(n // 2, 2, -1).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0.0, axis=0)
    time = np.maximum(2.0 * np.where(positive, np.minimum.accumulate(pairs, axis=0), 0.0).sum(axis=0) - 1.0, 1.0)
    result: Floats = np.where(still, float(k * n), k * n / time)
    return result
