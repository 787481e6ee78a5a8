"""Learning curves of a study's trials."""

from typing import Any

import numpy as np

from warmstart.plots.best_so_far import WARM
from warmstart.plots.style import HIGH, INK, new_figure
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.study_record import StudyRecord

LINES = 100
"""Most curves drawn, the best ones."""


def curves_figure(record: StudyRecord) -> Any:
    """Draw the curves of trials with at least two reports: the best thick, warm ones dashed, pruned ones with a cross; None without any."""
    from matplotlib.lines import Line2D

    trials = [trial for trial in record.trials if len(trial.curve) >= 2]
    if not trials:
        return None
    trials = sorted(trials, key=lambda trial: (trial.error is None, trial.error or 0.0))[:LINES]
    points = np.array([error for trial in trials for _, error in trial.curve if np.isfinite(error)])
    if not len(points):
        return None
    figure = new_figure(7.2, 3.9)
    axes = figure.add_subplot()
    best = record.best
    kinds = set()
    for trial in reversed(trials):
        x, y = (np.array(part, dtype=np.float64) for part in zip(*trial.curve, strict=True))
        values = np.array(
            [record.metric.to_value(float(reported)) if np.isfinite(reported) else np.nan for reported in y]
        )
        is_best, is_warm = best is not None and trial.number == best.number, record.warm_of(trial) is not None
        colour = HIGH if is_best else WARM if is_warm else "#8fb3cc"
        dashes = (4, 1.5) if is_warm else (None, None)
        axes.plot(x, values, color=colour, linewidth=2.2 if is_best else 1.1, dashes=dashes, zorder=3 if is_best else 2)
        kinds |= {"warm"} if is_warm else set()
        if trial.status is TrialStatus.PRUNED:
            kinds.add("pruned")
            axes.plot(x[-1], values[-1], "x", color=INK, markersize=4, zorder=4)
    top = float(np.quantile(points, 0.98))
    bottom = float(points.min())
    air = 0.05 * (top - bottom) or max(abs(top) * 0.05, 1e-12)
    ends = sorted((_value(record, bottom - air), _value(record, top + air)))
    axes.set_ylim(*ends)
    axes.set_xlabel("step")
    axes.set_ylabel(record.metric.name)
    axes.grid(axis="y", color="#ececec", linewidth=0.6)
    keys = [Line2D([], [], color=HIGH, linewidth=2.2, label="best trial"), Line2D([], [], color="#8fb3cc", label="others")]  # fmt: skip
    keys += [Line2D([], [], color=WARM, dashes=(4, 1.5), label="warm")] if "warm" in kinds else []
    keys += [Line2D([], [], color=INK, marker="x", linestyle="", label="stopped early")] if "pruned" in kinds else []
    figure.legend(handles=keys, loc="outside lower left", ncols=4, frameon=False)
    return figure


def _value(record: StudyRecord, error: float) -> float:
    return record.metric.to_value(error)
