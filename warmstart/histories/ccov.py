"""Centres of errors (CCoV) by hyperparameter, for `plot ccov` and `history show`."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.error_tables import UndefinedCCoVWarning, ccov, ccov_by_chance
from warmstart.history_store.errors import DataError
from warmstart.history_store.history import History
from warmstart.history_store.space import space_names

CLEAR = 2.0
"""Standard deviations beyond chance for errors that gather clearly on one side."""

_SLIGHT = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Centres:
    """Centres of errors (CCoV) of some datasets.

    Attributes:
        names: `m` datasets.
        hyperparameters: `d`.
        values: `m x d` CCoV in [0, 1]; NaN = not defined.
        chance: `m x d` mean of CCoV for errors independent of the hyperparameter.
        noise_std: `m x d` its standard deviation.
    """

    names: tuple[str, ...]
    hyperparameters: tuple[str, ...]
    values: NDArray[np.float64]
    chance: NDArray[np.float64]
    noise_std: NDArray[np.float64]

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Return which centres are beyond chance: `m x d` bool."""
        # NaN compares as not clear.
        return np.asarray(np.abs(self.values - self.chance) > CLEAR * self.noise_std + 1e-9)


def centres_of(history: "History", names: Sequence[str]) -> Centres:
    """Compute the centres of errors of some datasets of a history.

    Raises:
        UsageError: a name that the history does not know.
        DataError: no dataset, or a history without configurations.
    """
    hyperparameters = tuple(space_names(history.space_json))
    row_of = {name: row for row, name in enumerate(history.names)}
    rows = [row_of[history.dataset(name).name] for name in names]
    if not rows or not len(history.configs):
        msg = f"{history.path}: expected datasets and configurations, got {len(rows)} and {len(history.configs)}. Collect or record some."
        raise DataError(msg)
    unit, errors = history.configs_unit, history.errors[rows]
    with warnings.catch_warnings():
        # Undefined centres are drawn as gaps and written as null.
        warnings.simplefilter("ignore", UndefinedCCoVWarning)
        values = ccov(unit, errors)
    return Centres(tuple(names), hyperparameters, values, *ccov_by_chance(unit, errors))


def drop_undefined(centres: Centres) -> Centres:
    """Drop the hyperparameters without a centre on any dataset; keep all if none has one."""
    columns = np.flatnonzero(np.isfinite(centres.values).any(axis=0))
    if not len(columns):
        return centres
    names = tuple(centres.hyperparameters[column] for column in columns.tolist())
    return Centres(
        centres.names, names, centres.values[:, columns], centres.chance[:, columns], centres.noise_std[:, columns]
    )


def most_uneven(centres: Centres, most: int) -> Centres:
    """Keep the `most` datasets whose centres deviate most from chance, in their order."""
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.abs(centres.values - centres.chance) / centres.noise_std
    clearness = np.where(np.isfinite(deviations), deviations, 0.0).sum(axis=1)
    rows = np.sort(np.argsort(-clearness, kind="stable")[:most])
    names = tuple(centres.names[row] for row in rows.tolist())
    return Centres(names, centres.hyperparameters, centres.values[rows], centres.chance[rows], centres.noise_std[rows])


def describe_centre(value: float, chance: float, *, clear: bool) -> str:
    """Describe in words where errors gather along one hyperparameter.

    CCoV less its mean by chance is cov(θ̃, J) / mean J: where errors gather at high values, errors rise with the value on average.
    """
    if not np.isfinite(value):
        return "not defined: no errors, or a value that never changes"
    if not clear:
        return "no clear side: chance explains it"
    if abs(value - chance) < _SLIGHT:
        return "hardly any difference"
    end, better = ("high", "low") if value > chance else ("low", "high")
    return f"errors gather at {end} values; {better} ones do better on average"
