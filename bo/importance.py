"""Importance of each hyperparameter for a fitted surrogate, and profiles of its prediction.

Variance-based, as in Sobol's indices with the estimator of Jansen: draw two sets of points, exchange one column, and
measure the change of the predictions [Saltelli2010variance].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.error_units import Band
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.records import Value

Floats = NDArray[np.float64]
Predict = Callable[[Floats], Floats]
"""Function of `n x p` points of the cube: predicted errors `S x n`, one row for each posterior sample."""

POINTS = 256
GRID = 61


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """Shares of the variance of the predicted error over the space.

    Attributes:
        names: `p` hyperparameters.
        total: `S x p` in [0, 1], share of each hyperparameter with its interactions; one row for each posterior sample.
        alone: `S x p` in [0, 1], share of each without interactions.
    """

    names: tuple[str, ...]
    total: Floats
    alone: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Profile(Band):
    """The predicted error without noise along one hyperparameter, the others as in one configuration.

    Attributes:
        name: of the hyperparameter.
        value: `m` distinct values, rising.
    """

    name: str
    value: Sequence[Value]


def importance(predict: Predict, encoding: Encoding, *, rng: np.random.Generator, points: int = POINTS) -> Importance:
    """Compute total and first-order indices of every hyperparameter that varies.

    Args:
        predict: of the fitted surrogate.
        encoding: of the space.
        rng: draws the points.
        points: in each of the two sets; `p + 2` times as many are predicted. A small space may hold fewer.
    """
    first = encoding.sample(points, design="sobol", rng=rng)
    second = encoding.sample(points, design="uniform", rng=rng)
    n = min(len(first), len(second))
    first, second = first[:n], second[:n]
    at_first, at_second = predict(first), predict(second)
    unit = max(np.abs(at_first).max(initial=0.0), np.abs(at_second).max(initial=0.0)) or 1.0
    at_first, at_second = at_first / unit, at_second / unit  # squares of 1e200 overflow
    variance = np.var(np.concatenate([at_first, at_second], axis=1), axis=1)
    scale = np.where(variance > 0, variance, 1.0)
    total, alone = np.zeros((len(variance), encoding.p)), np.zeros((len(variance), encoding.p))
    for k in range(encoding.p):
        mixed = first.copy()
        mixed[:, k] = second[:, k]
        allowed = encoding.valid(mixed)
        if not allowed.any():
            continue
        at_mixed = predict(mixed[allowed]) / unit
        total[:, k] = 0.5 * np.mean((at_first[:, allowed] - at_mixed) ** 2, axis=1) / scale
        rest = 0.5 * np.mean((at_second[:, allowed] - at_mixed) ** 2, axis=1) / scale
        alone[:, k] = 1.0 - rest
    varies = (variance > 0)[:, None]
    total = np.clip(np.where(varies, total, 0.0), 0.0, 1.0)
    return Importance(tuple(encoding.names), total, np.clip(np.where(varies, alone, 0.0), 0.0, total))


def profiles(
    predict: Callable[[Floats], Band], encoding: Encoding, point: Floats, *, grid: int = GRID
) -> list[Profile]:
    """Predict along every hyperparameter that is active at a point.

    Args:
        predict: of the fitted surrogate.
        encoding: of the space.
        point: `p` coordinates in the cube.
        grid: points along each.
    """
    config = encoding.decode(point[None])[0]
    curves = []
    for k, name in enumerate(encoding.names):
        if name not in config:
            continue
        unit = (np.arange(grid) + 0.5) / grid
        rows = np.repeat(point[None], grid, axis=0)
        rows[:, k] = unit
        values = encoding.values(k, unit)
        distinct = [i for i in range(grid) if i == 0 or values[i] != values[i - 1]]
        allowed = encoding.valid(rows)
        distinct = [i for i in distinct if allowed[i]]
        if not distinct:
            continue
        band = predict(rows[distinct])
        curves.append(Profile(band.mean, band.sd, band.low, band.high, name=name, value=[values[i] for i in distinct]))
    return curves
