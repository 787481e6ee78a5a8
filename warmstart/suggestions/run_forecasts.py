"""Forecasts of final errors of runs on a dataset, from the learning curves of a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.curve_forecast import SHARES, CurveForecaster, RunForecast, TrainingRun, fit_curves, resample
from warmstart.history_store.axes import coordinates
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.records import Config, Status
from warmstart.suggestions.expectations import views
from warmstart.suggestions.translation import translate

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.suggestions.location import Location

MANY = 200
"""Most nearest datasets whose curves are read."""
_LEAST_MEASURED = 0.5
"""Least share of the datasets with a curve of a configuration."""


@dataclass(frozen=True, slots=True, eq=False)
class RunForecasts:
    """Forecasts of runs on one dataset, over one space.

    Attributes:
        names: hyperparameters that the history's configurations have in common with the space.
        forecaster: over these.
    """

    names: tuple[str, ...]
    forecaster: CurveForecaster

    def run(
        self, space: ConfigurationSpace, config: Config, reports: Mapping[float, float], *, length: float
    ) -> TrainingRun:
        """Return a run as the forecast takes it.

        Args:
            space: of the configuration.
            config: values by name.
            reports: errors in [0, 1] by step.
            length: steps of the whole run.
        """
        steps = sorted(reports)
        shares = tuple(min(step / length, 1.0) for step in steps)
        return TrainingRun(coordinates(space, self.names, [config])[0], shares, tuple(reports[step] for step in steps))

    def forecast(self, run: TrainingRun, further: Sequence[TrainingRun] = ()) -> RunForecast:
        """Forecast the end of a run; see `warmstart.bo.transfer.curve_forecast.CurveForecaster.forecast`."""
        with one_thread():
            return self.forecaster.forecast(run, further)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {"names": list(self.names), **self.forecaster.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Build forecasts from the fields of `to_dict`; raises as `CurveForecaster.from_dict`."""
        rest = {name: value for name, value in record.items() if name != "names"}
        return cls(tuple(record["names"]), CurveForecaster.from_dict(rest))


def fit_run_forecasts(
    location: Location, space: ConfigurationSpace, *, rename: Mapping[str, str]
) -> RunForecasts | None:
    """Fit forecasts of runs on a dataset.

    Args:
        location: the dataset's location in a history.
        space: of the runs.
        rename: the history's names by those of the space.

    Returns: the forecasts; None with too few learning curves, or no hyperparameter in common with the space.
    """
    embedded, near = location.embedded, location.with_runs
    rows = near.within(near.among, MANY).rows[:MANY]
    with History.open(embedded.path) as history:
        curves = read_curves(history, [embedded.names[row] for row in rows])
    measured = np.asarray(~np.isnan(curves).any(axis=2))
    useful = measured.sum(axis=1) > 0
    rows, curves, measured = rows[useful], curves[useful], measured[useful]
    columns = np.flatnonzero(measured.mean(axis=0) >= _LEAST_MEASURED) if len(rows) else np.array([], np.int64)
    translation = translate(embedded, space, rename)
    values = {
        name: [column[row] for row in columns]
        for name, column in translation.columns.items()
        if not hasattr(space[name], "value")
    }
    names = tuple(name for name, column in values.items() if all(value is not None for value in column))
    if not len(columns) or not names:
        return None
    configs = [{name: values[name][n] for name in names} for n in range(len(columns))]
    features, query = _features(location, rows)
    with one_thread():
        fitted = fit_curves(
            features,
            curves[:, columns],
            [embedded.groups[row] for row in rows],
            coordinates(space, names, configs),
            query=query,
        )
    return None if fitted is None else RunForecasts(names, fitted)


def read_curves(history: History, names: Sequence[str]) -> NDArray[np.float64]:
    """Read the learning curves of some datasets.

    Args:
        history: open.
        names: `m` datasets.

    Returns: `m x c x s` errors at `SHARES` of completed runs, the mean of repeated ones; NaN = unknown.
    """
    rows = {name: row for row, name in enumerate(names)}
    columns = {config_key(config): column for column, config in enumerate(history.configs)}
    totals = np.zeros((len(names), len(columns), len(SHARES)))
    counts = np.zeros_like(totals)
    table, all_names = history.table(), history.names
    is_among = np.array([name in rows for name in all_names], dtype=np.bool_)
    for run in table.records(all_names, history.configs, np.flatnonzero(is_among[table.dataset])):
        if len(run.curve) < 2 or run.status is not Status.OK:
            continue
        errors = resample(run.curve, run.curve[-1][0])
        measured = ~np.isnan(errors)
        cell = rows[run.dataset], columns[config_key(run.config)]
        totals[cell] += np.where(measured, errors, 0.0)
        counts[cell] += measured
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)


def _features(
    location: Location, rows: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return the two sets of features of some rows and of the dataset; constants if any are unknown."""
    references = location.embedded.references
    at = {} if references is None else {name: row for row, name in enumerate(references.names)}
    names = [location.embedded.names[row] for row in rows]
    if location.features is None or references is None or references.features is None or not set(names) <= set(at):
        return (np.zeros((len(rows), 1)),) * 2, (np.zeros(1),) * 2
    wide, narrow = views(references.features[[at[name] for name in names]])
    query_views = views(location.features[None])
    return (wide, narrow), (query_views[0][0], query_views[1][0])
