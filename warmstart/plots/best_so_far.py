"""The errors of a study's trials in order, the best so far, and expected errors of the warm trials."""

from typing import Any

import numpy as np

from warmstart.bo.diagnostics import best_so_far
from warmstart.plots.style import GREY, HIGH, INK, LOW, new_figure
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.study_record import StudyRecord
from warmstart.studies.results.trial import Trial

WARM = "#009E73"
_WIDE = 4.0
"""A value this many interquartile ranges beyond the others is drawn at the edge."""


def best_so_far_figure(record: StudyRecord) -> Any:
    """Draw errors, or the metric, by trial, with the expected errors of warm trials as short lines; None without an error."""
    errors = np.array(
        [np.nan if t.error is None or not t.feasible else t.error for t in record.trials], dtype=np.float64
    )
    finite = errors[np.isfinite(errors)]
    if not len(finite):
        return None
    number = np.array([trial.number for trial in record.trials])
    warm = np.array([record.warm_of(trial) is not None for trial in record.trials])
    expected = _promised_errors(record)
    top = edge_of(np.concatenate([finite, expected[np.isfinite(expected)]]))

    def value(numbers: Any) -> Any:
        return np.array([record.metric.to_value(float(error)) for error in np.atleast_1d(numbers)])

    figure = new_figure(7.6, 3.9)
    axes = figure.add_subplot()
    clipped = np.minimum(errors, top)
    inside = errors <= top
    size = 5.5 if len(errors) <= 120 else 3.0
    for rows, colour, marker, label, grow in (
        (inside & ~warm, LOW, "o", "trial", 0.0),
        (inside & warm, WARM, "D", "warm trial", 1.5),
    ):
        if rows.any():
            axes.plot(number[rows], value(clipped[rows]), marker, color=colour, markersize=size + grow, mfc="white" if not grow else colour, zorder=3, label=label)  # fmt: skip
    beyond = errors > top
    if beyond.any():
        away = "v" if record.metric.maximize else "^"
        for rows, colour in ((beyond & ~warm, LOW), (beyond & warm, WARM)):
            axes.plot(number[rows], value(clipped[rows]), away, color=colour, markersize=size, clip_on=False, zorder=3)
        axes.plot([], [], away, color=GREY, markersize=size, label="far beyond")
    has = np.isfinite(expected)
    if has.any():
        axes.hlines(value(np.minimum(expected[has], top)), number[has] - 0.45, number[has] + 0.45, color=WARM, linewidth=1.6, linestyles=(0, (2, 1)), label="promised for it", zorder=2)  # fmt: skip
    best = best_so_far(errors)
    steps = np.isfinite(best)
    axes.step(number[steps], value(best[steps]), where="post", color=HIGH, linewidth=2.0, label="best so far", zorder=4)
    pruned = np.array([trial.status is TrialStatus.PRUNED for trial in record.trials])
    above = {"transform": axes.get_xaxis_transform(), "clip_on": False}
    for rows, marker, label in (
        (pruned, "|", "stopped early"),
        (~np.isfinite(errors) & ~pruned, "x", "failed or invalid"),
    ):
        if rows.any():
            axes.plot(
                number[rows], np.full(int(rows.sum()), 1.025), marker, color=INK, markersize=5, label=label, **above
            )
    axes.set_xlim(number.min() - 0.6, number.max() + 0.6)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("trial")
    axes.set_ylabel(record.metric.name)
    axes.grid(axis="y", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)
    if record.best is not None:
        axes.set_title(_title(record, record.best), loc="left", pad=12)
    figure.legend(loc="outside lower left", ncols=6, frameon=False)
    return figure


def _title(record: StudyRecord, best: Trial) -> str:
    return f"best {record.metric.name} {record.value(best):.5g}, trial {best.number}, of {len(record.trials)} trials"


def _promised_errors(record: StudyRecord) -> Any:
    """Return the expected errors of the trials' warm configurations; NaN without one."""
    configs = [record.warm_of(trial) for trial in record.trials]
    promised = [None if warm is None else warm.promised for warm in configs]
    return np.array([np.nan if error is None else error for error in promised], dtype=np.float64)


def edge_of(errors: Any) -> float:
    """Return the largest error to draw true to scale, without those far above the others."""
    middle, high = np.quantile(errors, [0.25, 0.75])
    return min(float(errors.max()), float(high + _WIDE * max(high - middle, 1e-12)))
