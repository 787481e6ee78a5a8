"""How long runs take on a dataset, by the durations of a history."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bo.transfer.duration_forecast import DurationForecaster, TimedRun, fit_durations, without_history
from history_store.bundle.records import split_origin
from history_store.records import Config, Status
from warmstart.suggestions.run_forecasts import coordinates

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from history_store.history import History
    from history_store.records import DatasetInfo
    from warmstart.suggestions.location import Location

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Forecasts of durations over one space.

    Attributes:
        names: hyperparameters, in the order of the coordinates.
        forecaster: over these.
        origin: of the runs that were read; empty where no history tells.
    """

    names: tuple[str, ...]
    forecaster: DurationForecaster
    origin: str = ""

    def points(self, space: ConfigurationSpace, configs: Sequence[Config]) -> Floats:
        """Return `n x p` coordinates of configurations."""
        return coordinates(space, self.names, configs)

    def timed(
        self, space: ConfigurationSpace, runs: Sequence[tuple[Config, float]], *, spread: float = 0.0
    ) -> list[TimedRun]:
        """Return runs with their seconds as the forecast takes them."""
        points = self.points(space, [config for config, _ in runs])
        return [TimedRun(point, seconds, spread) for point, (_, seconds) in zip(points, runs, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {"names": list(self.names), "forecaster": self.forecaster.to_dict(), "origin": self.origin}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(tuple(record["names"]), DurationForecaster.from_dict(record["forecaster"]), record["origin"])


def no_durations(space: ConfigurationSpace) -> Durations:
    """Return forecasts that runs alone will tell."""
    names = varied(space)
    return Durations(names, without_history(len(names)))


def fit_history(place: Location, space: ConfigurationSpace) -> Durations | None:
    """Fit forecasts of durations on a dataset.

    Args:
        place: where the dataset lies in a history.
        space: of the history.

    Returns: None where the history knows no duration.
    """
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    from history_store.history import History

    embedded, rows = place.embedded, place.with_runs.rows
    names = [embedded.names[row] for row in rows]
    with History.open(embedded.path) as history:
        seconds, origin = read_durations(history, names)
    about = place.summary
    axes = varied(space)
    with threadpool_limits(1):  # the matrices are small: more threads only wait for each other
        fitted = fit_durations(
            seconds,
            [embedded.groups[row] for row in rows],
            coordinates(space, axes, embedded.configs),
            sizes=np.array([sizes_of(embedded.about[row]) for row in rows]),
            query=_sizes(about.n_images, about.n_classes),
        )
    return None if fitted is None else Durations(axes, fitted, origin)


def read_durations(history: History, names: Sequence[str]) -> tuple[Floats, str]:
    """Read how long the runs on some datasets took: those of the most frequent origin that ended well.

    Args:
        history: open.
        names: `m` datasets.

    Returns: `m x c` seconds, the geometric mean of repeated runs, NaN = not known; and that origin.
    """
    rows = {name: row for row, name in enumerate(names)}
    columns = {_key(config): column for column, config in enumerate(history.configs)}
    runs = [
        run for run in history.evaluations() if run.dataset in rows and run.status is Status.OK and run.duration > 0
    ]
    counts = Counter(split_origin(run.origin)[0] for run in runs)
    origin = counts.most_common(1)[0][0] if counts else ""
    totals, numbers = np.zeros((len(names), len(columns))), np.zeros((len(names), len(columns)))
    for run in runs:
        if split_origin(run.origin)[0] == origin:
            cell = rows[run.dataset], columns[_key(run.config)]
            totals[cell] += math.log(run.duration)
            numbers[cell] += 1
    return np.where(numbers > 0, np.exp(totals / np.maximum(numbers, 1)), np.nan), origin


def varied(space: ConfigurationSpace) -> tuple[str, ...]:
    """Name the hyperparameters of a space that have more than one value."""
    return tuple(name for name in space if not hasattr(space[name], "value"))


def sizes_of(info: DatasetInfo) -> Floats:
    """Return what of a dataset's size may decide how long runs take."""
    return _sizes(info.n_images, info.n_classes)


def _sizes(n_images: int, n_classes: int) -> Floats:
    return np.log(np.maximum([n_images, n_classes], 1.0))


def _key(config: Config) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(config.items()))
