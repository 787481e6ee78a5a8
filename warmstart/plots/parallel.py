"""Parallel coordinates of a study's trials in natural units."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from warmstart.plots.best_so_far import WARM, edge_of
from warmstart.plots.natural_axis import NaturalAxis
from warmstart.plots.style import FAINT, GREY, INK, new_figure
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.study_record import StudyRecord
from warmstart.studies.results.trial import Trial

MOST = 12
"""Most hyperparameters drawn, the first ones."""
LINES = 300
"""Most trials drawn, the best ones."""


def parallel_figure(record: StudyRecord, axes_of_space: Sequence[NaturalAxis]) -> Any:
    """Draw one line per trial through its hyperparameters to its error: darker = better, warm trials dashed, pruned ones dotted to their last report.

    Args:
        record: the study.
        axes_of_space: in the order of the picture, the most important first.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.lines import Line2D

    trials = [t for t in record.trials if t.error is not None and t.feasible]
    columns = list(axes_of_space)[:MOST]
    if len(trials) < 2 or not columns:
        return None
    trials = sorted(trials, key=lambda trial: trial.error or 0.0)[:LINES]
    errors = np.array([trial.error for trial in trials], dtype=np.float64)
    ranks = np.argsort(np.argsort(errors)) / max(len(errors) - 1, 1)
    figure = new_figure(max(1.15 * (len(columns) + 1) + 0.8, 5.0), 3.9)
    axes = figure.add_subplot()
    colours = LinearSegmentedColormap.from_list("best to worst", ["#08306b", "#4a90c2", "#c9dcea"])
    low, high = float(errors.min()), edge_of(errors)
    last, pruned = len(columns), _pruned(record)
    for trial in pruned:
        y = _heights(columns, trial, trial.curve[-1][1], low, high)
        axes.plot(range(last + 1), y, color=GREY, linewidth=0.8, dashes=(1, 1.8), alpha=0.8, zorder=1)
    # The best trials last, so that they are on top.
    for row in reversed(range(len(trials))):
        trial = trials[row]
        y = _heights(columns, trial, errors[row], low, high)
        is_warm, is_best = record.warm_of(trial) is not None, row == 0
        axes.plot(
            range(last + 1), y, color=WARM if is_warm else colours(ranks[row]), linewidth=2.4 if is_best else 1.1,
            dashes=(4, 1.5) if is_warm else (None, None), alpha=1.0 if is_best or is_warm else 0.75, zorder=3 if is_best else 2,
        )  # fmt: skip
    for column, axis in enumerate(columns):
        _ruler(axes, column, *axis.ticks())
    values = np.linspace(low, high, 4) if high > low else np.array([low])
    texts = [f"{record.metric.to_value(float(value)):.3g}" for value in values]
    if high < errors.max():
        texts[-1] = f"≥ {texts[-1]}" if not record.metric.maximize else f"≤ {texts[-1]}"
    _ruler(axes, last, np.linspace(0, 1, len(values)).tolist(), texts)
    if any(axis.name not in trial.config for axis in columns for trial in (*trials, *pruned)):
        axes.text(-0.06, -0.09, "unused", ha="right", va="center", fontsize=7, color=GREY)
    axes.set_xlim(-0.35, last + 0.55)
    axes.set_ylim(-0.13, 1.04)
    axes.set_xticks(range(last + 1), [*("\n".join(_halves(axis.title)) for axis in columns), record.metric.name])
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", length=0, labelsize=8)
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    keys = [
        Line2D([], [], color="#08306b", linewidth=2.4, label="best trial"),
        Line2D([], [], color="#4a90c2", label="others: darker is better"),
    ]
    if any(record.warm_of(trial) is not None for trial in trials):
        keys.append(Line2D([], [], color=WARM, dashes=(4, 1.5), label="warm"))
    if pruned:
        keys.append(Line2D([], [], color=GREY, linewidth=0.8, dashes=(1, 1.8), label="stopped early: its last report"))
    figure.legend(handles=keys, loc="outside lower left", ncols=4, frameon=False)
    return figure


def _pruned(record: StudyRecord) -> list[Trial]:
    """Return the pruned trials without an error, by their last report, at most `LINES`."""
    pruned = [t for t in record.trials if t.status is TrialStatus.PRUNED and t.error is None and t.curve]
    return sorted(pruned, key=lambda trial: trial.curve[-1][1])[:LINES]


def _heights(columns: Sequence[NaturalAxis], trial: Trial, error: float, low: float, high: float) -> Any:
    """Return the heights of a trial's line on all axes; below them without a value."""
    heights = [axis.position(trial.config.get(axis.name)) for axis in columns]
    end = 0.0 if high <= low else min(max((error - low) / (high - low), 0.0), 1.0)
    return np.array([-0.09 if np.isnan(height) else height for height in heights] + [end])


def _ruler(axes: Any, column: int, heights: Sequence[float], texts: Sequence[str]) -> None:
    """Draw one vertical axis with its values."""
    axes.vlines(column, 0, 1, color=GREY, linewidth=0.8, zorder=4)
    for height, text in zip(heights, texts, strict=True):
        axes.plot([column, column + 0.04], [height, height], color=GREY, linewidth=0.8, zorder=4)
        axes.text(
            column + 0.06, height, text, fontsize=7, va="center", color=INK, zorder=5,
            bbox={"facecolor": "white", "edgecolor": FAINT, "linewidth": 0.3, "alpha": 0.85, "pad": 0.8},
        )  # fmt: skip


def _halves(title: str) -> list[str]:
    """Break a long title at a space."""
    return title.rsplit(" ", 1) if len(title) > 10 and " " in title else [title]
