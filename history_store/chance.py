"""Chance level of a centre of errors: how far noise alone moves it."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ccov_by_chance(configs: ArrayLike, errors: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute mean and standard deviation of CCoV for errors that do not depend on a hyperparameter.

    A centre of errors is Σ w_s θ̃_s with weights w = J / ΣJ [Kim2017warmstart] Eq. 3. Over all orders in which the same
    errors could have been dealt to the n configurations, its mean is that of θ̃ (0.5 for a symmetric grid alone) and
    its variance Σ(w - 1/n)² Σ(θ̃ - mean θ̃)² / (n - 1), exactly.

    Args:
        configs: `c x d` raw or unit values; NaN = inactive.
        errors: `m x c`, ≥ 0; NaN = missing. Both as `warmstart.history_store.error_tables.ccov` takes them.

    Returns: `m x d` means and `m x d` standard deviations (not variances); NaN where CCoV is not defined or fewer than
        two configurations are known.
    """
    table, values = np.asarray(errors, dtype=np.float64), np.asarray(configs, dtype=np.float64)
    means = np.full((table.shape[0], values.shape[1]), np.nan)
    stds = means.copy()
    for column, theta in enumerate(values.T):
        active = np.isfinite(theta)
        width = np.ptp(theta[active]) if active.any() else 0.0
        if width == 0:
            continue
        scaled = (theta - theta[active].min()) / width
        for row, losses in enumerate(table):
            cells = active & np.isfinite(losses)
            count, total = int(cells.sum()), losses[cells].sum()
            if count < 2 or total == 0:
                continue
            weights, places = losses[cells] / total, scaled[cells]
            means[row, column] = places.mean()
            stds[row, column] = np.sqrt(np.sum((weights - 1 / count) ** 2) * places.var() * count / (count - 1))
    return means, stds
