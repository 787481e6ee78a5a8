"""How long runs take on a dataset, by the durations of a history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bo.transfer.duration_forecast import (
    DurationForecaster,
    TimedRun,
    fit_durations,
    measured_durations,
    without_history,
)
from history_store.file.codec import config_key
from history_store.file.table import STATUSES
from history_store.one_thread import one_thread
from history_store.records import Config, Status
from warmstart.measured_with import bare_origin
from warmstart.suggestions.coordinates import coordinates

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from history_store.history import History
    from history_store.records import DatasetInfo
    from warmstart.suggestions.answer import Answer
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
    known, origin = _known(place)
    axes = varied(space)
    with one_thread():
        fitted = fit_durations(configs=coordinates(space, axes, place.embedded.configs), **known)
    return None if fitted is None else Durations(axes, fitted, origin)


def _known(place: Location) -> tuple[dict[str, Any], str]:
    """Return what a history knows of durations, as `fit_durations` takes it, and the origin of the runs."""
    from history_store.history import History

    embedded, rows, about = place.embedded, place.with_runs.rows, place.summary
    with History.open(embedded.path) as history:
        seconds, origin = read_durations(history, [embedded.names[row] for row in rows])
        column_of = {config_key(config): column for column, config in enumerate(history.configs)}
    # Another process may have written since `embedded` was read.
    columns = [column_of.get(config_key(config), -1) for config in embedded.configs]
    unknown = np.full((len(rows), 1), np.nan)
    return {
        "seconds": np.concatenate([seconds, unknown], axis=1)[:, columns],
        "groups": [embedded.groups[row] for row in rows],
        "sizes": np.array([sizes_of(embedded.about[row]) for row in rows]),
        "query": _sizes(about.n_images, about.n_classes),
    }, origin


def read_durations(history: History, names: Sequence[str]) -> tuple[Floats, str]:
    """Read how long the runs on some datasets took: those of the most frequent origin that ended well.

    Args:
        history: open.
        names: `m` datasets.

    Returns: `m x c` seconds, the geometric mean of repeated runs, NaN = not known; and that origin.
    """
    table, columns = history.table(), len(history.configs)
    asked = {name: row for row, name in enumerate(names)}
    row_of = np.array([asked.get(name, -1) for name in history.names], dtype=np.intp)
    counts = Counter[str]()
    origins = [bare_origin(each) for each in table.origins]
    ended = (row_of[table.dataset] >= 0) & (table.status == STATUSES.index(Status.OK)) & (table.duration > 0)
    for number, count in enumerate(np.bincount(table.origin[ended], minlength=len(origins)).tolist()):
        counts[origins[number]] += count
    origin = counts.most_common(1)[0][0] if counts.total() else ""
    ended &= np.array([each == origin for each in origins], dtype=np.bool_)[table.origin]
    cells = row_of[table.dataset[ended]], table.config[ended]
    totals, numbers = np.zeros((len(names), columns)), np.zeros((len(names), columns))
    np.add.at(totals, cells, np.log(table.duration[ended]))
    np.add.at(numbers, cells, 1)
    return np.where(numbers > 0, np.exp(totals / np.maximum(numbers, 1)), np.nan), origin


def with_seconds(found: Answer, place: Location) -> Answer:
    """Add to the suggestions of an answer how long each takes on a machine like the history's; nothing where no history tells.

    Of a configuration that another space moved, nothing is known.
    """
    known = measured_durations(**_known(place)[0])
    seconds = {config_key(config): known.get(column) for column, config in enumerate(place.embedded.configs)}
    designs = [replace(design, seconds=seconds.get(config_key(design.config))) for design in found.suggestions]
    return replace(found, suggestions=tuple(designs))


def varied(space: ConfigurationSpace) -> tuple[str, ...]:
    """Name the hyperparameters of a space that have more than one value."""
    return tuple(name for name in space if not hasattr(space[name], "value"))


def sizes_of(info: DatasetInfo) -> Floats:
    """Return what of a dataset's size may decide how long runs take."""
    return _sizes(info.n_images, info.n_classes)


def _sizes(n_images: int, n_classes: int) -> Floats:
    return np.log(np.maximum([n_images, n_classes], 1.0))
