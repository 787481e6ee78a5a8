"""Forecasts of the durations of runs on a dataset, from those of a history."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.axes import coordinates
from warmstart.history_store.errors import BrokenImagesError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.file.table import STATUSES
from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.records import Config, Status
from warmstart.measured_with import bare_origin, workload_of
from warmstart.timing.forecast import DurationForecaster, TimedRun, fit_durations, measured_durations, without_history

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.history_store.images import ImageSource
    from warmstart.history_store.records import DatasetInfo
    from warmstart.suggestions.embedded_history import HistoryRuns
    from warmstart.suggestions.location import Location
    from warmstart.suggestions.records import DatasetSummary, InitialDesign
    from warmstart.timing.forecast import ExpectedSeconds

Floats = NDArray[np.float64]


_READING_ERROR = 0.3
"""Relative error of the reading time, which is measured on some pictures."""


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Forecasts of durations over one space.

    Attributes:
        names: hyperparameters, in the order of the coordinates.
        forecaster: over these, for runs with pictures in memory.
        origin: of the history's runs; empty without a history.
        reads: seconds to read all pictures on this machine, by pixels per side; empty where runs do not read.
    """

    names: tuple[str, ...]
    forecaster: DurationForecaster
    origin: str = ""
    reads: Mapping[int, float] = field(default_factory=dict)

    def points(self, space: ConfigurationSpace, configs: Sequence[Config]) -> Floats:
        """Return `n x p` coordinates of configurations."""
        return coordinates(space, self.names, configs)

    def reading(self, configs: Sequence[Config]) -> Floats:
        """Return the seconds to read all pictures at the image size of each of `n` configurations."""
        sizes = sorted(self.reads)
        if not sizes:
            return np.zeros(len(configs))
        image_sizes = [float(config.get("image_size") or sizes[0]) for config in configs]
        return np.interp(image_sizes, sizes, [self.reads[size] for size in sizes])

    def forecast(
        self, space: ConfigurationSpace, configs: Sequence[Config], runs: Sequence[TimedRun] = ()
    ) -> list[ExpectedSeconds]:
        """Forecast the seconds of `n` configurations, reading included."""
        forecasts = self.forecaster.forecast(self.points(space, configs), runs)
        return [forecast.after(reads) for forecast, reads in zip(forecasts, self.reading(configs), strict=True)]

    def chance_within(
        self, space: ConfigurationSpace, configs: Sequence[Config], seconds: float, runs: Sequence[TimedRun] = ()
    ) -> Floats:
        """Compute the probability that `n` configurations end within some seconds, reading included."""
        points, reading = self.points(space, configs), self.reading(configs)
        chances = np.zeros(len(configs))
        for reads in np.unique(reading):
            rows = reading == reads
            chances[rows] = self.forecaster.chance_within(points[rows], seconds - reads, runs)
        return chances

    def timed(
        self, space: ConfigurationSpace, runs: Sequence[tuple[Config, float]], *, spread: float = 0.0
    ) -> list[TimedRun]:
        """Return timed runs with the seconds of reading subtracted.

        The pictures may already have been in memory, and the reading time is an estimate: the remainder lies in an interval. Its value closest
        to the forecast is taken. A run whose interval contains the forecast carries no information and is left out.
        """
        configs = [config for config, _ in runs]
        points, whole, reading = self.points(space, configs), [took for _, took in runs], self.reading(configs)
        if not self.reads:
            return [TimedRun(point, took, spread) for point, took in zip(points, whole, strict=True)]
        foreseen = [forecast.value for forecast in self.forecaster.forecast(points)]
        remainders = np.clip(foreseen, whole - (1 + _READING_ERROR) * reading, whole)
        return [
            TimedRun(point, float(took), spread)
            for point, took, forecast_s in zip(points, remainders, foreseen, strict=True)
            if took != forecast_s
        ]


def no_durations(space: ConfigurationSpace) -> Durations:
    """Return forecasts without a history, to be fitted by the study's own runs."""
    names = varied_names(space)
    return Durations(names, without_history(len(names)))


def fit_history(location: Location, space: ConfigurationSpace) -> Durations | None:
    """Fit forecasts of durations on a dataset, and measure the time to read its pictures on this machine.

    Args:
        location: where the dataset lies in a history.
        space: of the history.

    Returns: the forecasts; None where the history has no duration.
    """
    table, origin = _duration_table(location)
    axes = varied_names(space)
    with one_thread():
        fitted = fit_durations(configs=coordinates(space, axes, location.embedded.configs), **table)
    return None if fitted is None else Durations(axes, fitted, origin, _measure_reading(location, origin))


def _measure_reading(location: Location, origin: str) -> dict[int, float]:
    """Measure the seconds to read all pictures, by image size; empty for workloads that read them only once."""
    named = workload_of(origin)
    if location.query is None or named is None or not named[0].chooses_image_size:
        return {}
    sizes = {size for config in location.embedded.configs if isinstance(size := config.get("image_size"), int)}
    return {size: seconds_to_read(location.query.source, size) for size in sorted(sizes)}


def _duration_table(location: Location) -> tuple[dict[str, Any], str]:
    """Return a history's durations as arguments of `fit_durations`, and the origin of the runs."""
    embedded, near = location.embedded, location.with_runs
    seconds, origin = mean_durations(embedded.read_runs(), near.names, embedded.configs)
    return {
        "seconds": seconds,
        "groups": [embedded.groups[row] for row in near.rows],
        "sizes": sizes_of(embedded.about.at(near.rows)),
        "query": sizes_of([location.summary])[0],
    }, origin


def mean_durations(runs: HistoryRuns, names: Sequence[str], configs: Sequence[Config]) -> tuple[Floats, str]:
    """Compute the mean durations of successful runs, those of the most frequent origin.

    Args:
        runs: all of a history, perhaps of more datasets and configurations.
        names: `m` datasets.
        configs: `c` configurations.

    Returns: `m x c` seconds, the geometric mean of repeated runs, NaN = unknown; and the origin.
    """
    table = runs.table
    row_by_name = {name: row for row, name in enumerate(names)}
    row_of = np.array([row_by_name.get(name, -1) for name in runs.names], dtype=np.intp)
    column_by_key = {config_key(config): column for column, config in enumerate(configs)}
    column_of = np.array([column_by_key.get(config_key(config), -1) for config in runs.configs], dtype=np.intp)
    counts = Counter[str]()
    origins = [bare_origin(bare) for bare in table.origins]
    ended = (row_of[table.dataset] >= 0) & (table.status == STATUSES.index(Status.OK)) & (table.duration > 0)
    for number, count in enumerate(np.bincount(table.origin[ended], minlength=len(origins)).tolist()):
        counts[origins[number]] += count
    origin = counts.most_common(1)[0][0] if counts.total() else ""
    ended &= np.array([bare == origin for bare in origins], dtype=np.bool_)[table.origin]
    ended &= column_of[table.config] >= 0
    cells = row_of[table.dataset[ended]], column_of[table.config[ended]]
    totals, numbers = np.zeros((len(names), len(configs))), np.zeros((len(names), len(configs)))
    np.add.at(totals, cells, np.log(table.duration[ended]))
    np.add.at(numbers, cells, 1)
    return np.where(numbers > 0, np.exp(totals / np.maximum(numbers, 1)), np.nan), origin


def with_seconds(designs: Sequence[InitialDesign], location: Location) -> tuple[InitialDesign, ...]:
    """Add to configurations their expected seconds on the history's machine, where the history has them.

    For a configuration changed for another space they are unknown.
    """
    by_column = measured_durations(**_duration_table(location)[0])
    seconds = {config_key(config): by_column.get(column) for column, config in enumerate(location.embedded.configs)}
    keys = [config_key(design.config) for design in designs]
    return tuple(replace(design, seconds=seconds.get(key)) for design, key in zip(designs, keys, strict=True))


def varied_names(space: ConfigurationSpace) -> tuple[str, ...]:
    """Return the names of a space's hyperparameters that are not constant."""
    return tuple(name for name in space if not hasattr(space[name], "value"))


def sizes_of(datasets: Sequence[DatasetInfo | DatasetSummary]) -> Floats:
    """Return the logarithms of the numbers of images and of classes, the size features of durations, `m x 2`."""
    return np.log(np.maximum([(about.n_images, about.n_classes) for about in datasets], 1.0))


_FEW, _MANY = 4, 12
"""Neighbouring pictures read per call, few and many: the difference cancels the fixed cost of a call, such as a table's group of rows."""
_MOST, _ENOUGH_S = 8, 0.5
"""Most positions sampled in the collection, and seconds after which sampling stops."""


def seconds_to_read(source: ImageSource, size: int) -> float:
    """Estimate the seconds to read all pictures of a collection from a sample.

    Args:
        source: the collection; a broken picture counts with the seconds that it took.
        size: pixels a side.
    """
    n = len(source)
    if n <= _MANY:
        return _time_reading(source, range(n), size)
    # Opens files and fills caches.
    _time_reading(source, range(1), size)
    began, took, positions = time.perf_counter(), 0.0, 0
    for start in np.random.default_rng(0).permutation(n - _MANY + 1)[:_MOST].tolist():
        few = _time_reading(source, range(start, start + _FEW), size)
        took += _time_reading(source, range(start, start + _MANY), size) - few
        positions += 1
        if time.perf_counter() - began >= _ENOUGH_S:
            break
    return max(took, 0.0) / (positions * (_MANY - _FEW)) * n


def _time_reading(source: ImageSource, indices: Sequence[int], size: int) -> float:
    began = time.perf_counter()
    # All of these are broken; training reports them.
    with suppress(BrokenImagesError):
        source.read(indices, size=size, skip_broken=True)
    return time.perf_counter() - began
