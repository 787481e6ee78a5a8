"""A study's trials in their order: what each came to, the best so far, the warm ones marked with what was promised for them."""

from typing import Any

import numpy as np

from warmstart.bo.diagnostics import best_so_far
from warmstart.plots.style import GREY, HIGH, INK, LOW, new_figure
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.study_record import StudyRecord
from warmstart.studies.results.trial import Trial

WARM = "#009E73"
_WIDE = 4.0
"""A value so many interquartile ranges beyond the others is drawn at the edge."""


def best_so_far_figure(found: StudyRecord) -> Any:
    """Draw errors, or the metric, against trials; promised errors as short lines beside the warm trials."""
    errors = np.array(
        [np.nan if t.error is None or not t.feasible else t.error for t in found.trials], dtype=np.float64
    )
    known = errors[np.isfinite(errors)]
    if not len(known):
        return None
    number = np.array([trial.number for trial in found.trials])
    warm = np.array([found.warm_of(trial) is not None for trial in found.trials])
    promised = _promised(found)
    top = edge_of(np.concatenate([known, promised[np.isfinite(promised)]]))

    def value(numbers: Any) -> Any:
        return np.array([found.metric.to_value(float(each)) for each in np.atleast_1d(numbers)])

    figure = new_figure(7.6, 3.9)
    axes = figure.add_subplot()
    shown = np.minimum(errors, top)
    inside = errors <= top
    size = 5.5 if len(errors) <= 120 else 3.0
    for rows, colour, marker, label, grow in (
        (inside & ~warm, LOW, "o", "trial", 0.0),
        (inside & warm, WARM, "D", "warm trial", 1.5),
    ):
        if rows.any():
            axes.plot(number[rows], value(shown[rows]), marker, color=colour, markersize=size + grow, mfc="white" if not grow else colour, zorder=3, label=label)  # fmt: skip
    beyond = errors > top
    if beyond.any():
        away = "v" if found.metric.maximize else "^"
        for rows, colour in ((beyond & ~warm, LOW), (beyond & warm, WARM)):
            axes.plot(number[rows], value(shown[rows]), away, color=colour, markersize=size, clip_on=False, zorder=3)
        axes.plot([], [], away, color=GREY, markersize=size, label="far beyond")
    has = np.isfinite(promised)
    if has.any():
        axes.hlines(value(np.minimum(promised[has], top)), number[has] - 0.45, number[has] + 0.45, color=WARM, linewidth=1.6, linestyles=(0, (2, 1)), label="promised for it", zorder=2)  # fmt: skip
    best = best_so_far(errors)
    steps = np.isfinite(best)
    axes.step(number[steps], value(best[steps]), where="post", color=HIGH, linewidth=2.0, label="best so far", zorder=4)
    pruned = np.array([trial.status is TrialStatus.PRUNED for trial in found.trials])
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
    axes.set_ylabel(found.metric.name)
    axes.grid(axis="y", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)
    if found.best is not None:
        axes.set_title(_title(found, found.best), loc="left", pad=12)
    figure.legend(loc="outside lower left", ncols=6, frameon=False)
    return figure


def _title(found: StudyRecord, best: Trial) -> str:
    return f"best {found.metric.name} {found.value(best):.5g}, trial {best.number}, of {len(found.trials)} trials"


def _promised(found: StudyRecord) -> Any:
    """Return the error that was promised for each trial's configuration; NaN where none was."""
    configs = [found.warm_of(trial) for trial in found.trials]
    promised = [None if warm is None else warm.promised for warm in configs]
    return np.array([np.nan if error is None else error for error in promised], dtype=np.float64)


def edge_of(errors: Any) -> float:
    """Return the largest error that is drawn in its place: those far above the others are not."""
    middle, high = np.quantile(errors, [0.25, 0.75])
    return min(float(errors.max()), float(high + _WIDE * max(high - middle, 1e-12)))
