"""How long runs take on a dataset, by the durations of a history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.duration_forecast import (
    DurationForecaster,
    TimedRun,
    fit_durations,
    measured_durations,
    without_history,
)
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.file.table import STATUSES
from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.records import Config, Status
from warmstart.measured_with import bare_origin, workload_of
from warmstart.suggestions.coordinates import coordinates
from warmstart.suggestions.reading_time import seconds_to_read

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.bo.transfer.duration_forecast import ExpectedSeconds
    from warmstart.history_store.history import History
    from warmstart.history_store.records import DatasetInfo
    from warmstart.suggestions.answer import Answer
    from warmstart.suggestions.location import Location

Floats = NDArray[np.float64]


_UNSURE = 0.3
"""Share by which reading all pictures may take longer than the measurement of some says."""


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Forecasts of durations over one space.

    Attributes:
        names: hyperparameters, in the order of the coordinates.
        forecaster: over these, of runs whose pictures lie in memory.
        origin: of the runs that were read; empty where no history tells.
        reads: seconds that reading all pictures takes here, by the pixels a side; none where that belongs to no run.
    """

    names: tuple[str, ...]
    forecaster: DurationForecaster
    origin: str = ""
    reads: Mapping[int, float] = field(default_factory=dict)

    def points(self, space: ConfigurationSpace, configs: Sequence[Config]) -> Floats:
        """Return `n x p` coordinates of configurations."""
        return coordinates(space, self.names, configs)

    def reading(self, configs: Sequence[Config]) -> Floats:
        """Return the seconds that each of `n` configurations needs to read all pictures at its size."""
        sizes = sorted(self.reads)
        if not sizes:
            return np.zeros(len(configs))
        asked = [float(config.get("image_size") or sizes[0]) for config in configs]
        return np.interp(asked, sizes, [self.reads[size] for size in sizes])

    def forecast(
        self, space: ConfigurationSpace, configs: Sequence[Config], told: Sequence[TimedRun] = ()
    ) -> list[ExpectedSeconds]:
        """Forecast the seconds of `n` configurations, reading included."""
        found = self.forecaster.forecast(self.points(space, configs), told)
        return [each.after(reads) for each, reads in zip(found, self.reading(configs), strict=True)]

    def chance_within(
        self, space: ConfigurationSpace, configs: Sequence[Config], seconds: float, told: Sequence[TimedRun] = ()
    ) -> Floats:
        """Compute the probability that `n` configurations end within some seconds, reading included."""
        points, reading = self.points(space, configs), self.reading(configs)
        chances = np.zeros(len(configs))
        for reads in np.unique(reading):
            rows = reading == reads
            chances[rows] = self.forecaster.chance_within(points[rows], seconds - reads, told)
        return chances

    def timed(
        self, space: ConfigurationSpace, runs: Sequence[tuple[Config, float]], *, spread: float = 0.0
    ) -> list[TimedRun]:
        """Return runs with their seconds as the forecast takes them: without those of reading.

        A run may have found its pictures read, and the seconds of reading are an estimate. So of the possible rests the one next to the forecast
        is taken. A run whose rest can be the forecast itself tells nothing and is left out.
        """
        configs = [config for config, _ in runs]
        points, whole, reading = self.points(space, configs), [took for _, took in runs], self.reading(configs)
        if not self.reads:
            return [TimedRun(point, took, spread) for point, took in zip(points, whole, strict=True)]
        foreseen = [each.value for each in self.forecaster.forecast(points)]
        left = np.clip(foreseen, whole - (1 + _UNSURE) * reading, whole)
        return [
            TimedRun(point, float(took), spread)
            for point, took, usual in zip(points, left, foreseen, strict=True)
            if took != usual
        ]


def no_durations(space: ConfigurationSpace) -> Durations:
    """Return forecasts that runs alone will tell."""
    names = varied(space)
    return Durations(names, without_history(len(names)))


def fit_history(place: Location, space: ConfigurationSpace) -> Durations | None:
    """Fit forecasts of durations on a dataset, and measure how long reading its pictures takes here.

    Args:
        place: where the dataset lies in a history.
        space: of the history.

    Returns: None where the history knows no duration.
    """
    known, origin = _known(place)
    axes = varied(space)
    with one_thread():
        fitted = fit_durations(configs=coordinates(space, axes, place.embedded.configs), **known)
    return None if fitted is None else Durations(axes, fitted, origin, _reads(place, origin))


def _reads(place: Location, origin: str) -> dict[int, float]:
    """Measure the seconds of reading all pictures, by size; none for workloads that read them before any run."""
    named = workload_of(origin)
    if place.query is None or named is None or not named[0].chooses_image_size:
        return {}
    sizes = {size for config in place.embedded.configs if isinstance(size := config.get("image_size"), int)}
    return {size: seconds_to_read(place.query.source, size) for size in sorted(sizes)}


def _known(place: Location) -> tuple[dict[str, Any], str]:
    """Return what a history knows of durations, as `fit_durations` takes it, and the origin of the runs."""
    from warmstart.history_store.history import History

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
