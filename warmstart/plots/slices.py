"""Predicted error along each hyperparameter of a study, in natural units, with the trials."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warmstart.bo.importance import Profile
from warmstart.plots.best_so_far import WARM
from warmstart.plots.natural_axis import NaturalAxis
from warmstart.plots.style import INK, LOW, new_figure, short
from warmstart.studies.results.study_record import StudyRecord

_ROW = 4
MOST = 12
_LETTERS = 26
"""Letters that fit below a panel, for all choices together."""
_BAND = "#c9dcea"


def slices_figure(record: StudyRecord, profiles: Sequence[Profile], axes_by_name: dict[str, NaturalAxis]) -> Any:
    """Draw one panel per hyperparameter: predicted error or metric with 95 % band, the others as in the best trial, and all trials.

    Args:
        record: the study.
        profiles: predictions, in the order of the picture.
        axes_by_name: of the space.
    """
    cuts = [profile for profile in profiles if profile.name in axes_by_name][:MOST]
    best = record.best
    if not cuts or best is None:
        return None
    trials = [trial for trial in record.trials if trial.error is not None and trial.feasible]
    errors = np.array([trial.error for trial in trials], dtype=np.float64)
    warm = np.array([record.warm_of(trial) is not None for trial in trials])
    low, high = _limits(np.concatenate([errors, *(cut.mean for cut in cuts)]))
    value = np.vectorize(record.metric.to_value, otypes=[np.float64])
    columns = min(len(cuts), _ROW)
    rows = -(-len(cuts) // columns)
    figure = new_figure(max(2.05 * columns + 0.6, 4.6), 2.2 * rows + 0.9)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for number, cut in enumerate(cuts):
        axes, axis = panels[divmod(number, columns)], axes_by_name[cut.name]
        x = np.array([axis.position(value) for value in cut.value])
        # A low error is a high metric.
        ends = np.sort([value(cut.low), value(cut.high)], axis=0)
        cut = replace(cut, mean=value(cut.mean), low=ends[0], high=ends[1])
        _prediction(axes, x, cut, is_line=not axis.choices)
        positions = np.array([axis.position(trial.config.get(cut.name)) for trial in trials])
        for mask, colour, marker in ((~warm, INK, "o"), (warm, WARM, "D")):
            visible = mask & (errors <= high)
            axes.plot(
                positions[visible], value(errors[visible]), marker, color=colour, markersize=3, mfc="none", mew=0.7
            )
        axes.axvline(axis.position(best.config.get(cut.name)), color=INK, linewidth=0.9, dashes=(1.5, 1.5), zorder=1)
        ticks, texts = axis.ticks(4)
        if axis.choices:
            texts = [short(text, max(4, _LETTERS // len(texts))) for text in texts]
        axes.set_xticks(ticks, texts, fontsize=7.5)
        axes.set_xlim(-0.04, 1.04)
        axes.set_ylim(*np.sort(value([low, high])))
        axes.set_title(axis.title, fontsize=9)
        if number % columns == 0:
            axes.set_ylabel(record.metric.name)
    for number in range(len(cuts), rows * columns):
        panels[divmod(number, columns)].set_visible(False)
    left_out = len(profiles) - len(cuts)
    more = f"\n{left_out} hyperparameters that matter less are left out." if left_out > 0 else ""
    words = f"Line and band: predicted {record.metric.name} and its 95 % band, the others as in the best trial (dotted).\nCircles: all trials, whatever else they varied; diamonds: warm ones."
    figure.supxlabel(words + more, fontsize=8)
    return figure


def _prediction(axes: Any, x: Any, cut: Profile, *, is_line: bool) -> None:
    if is_line and len(x) > 1:
        axes.fill_between(x, cut.low, cut.high, color=_BAND, linewidth=0)
        axes.plot(x, cut.mean, color=LOW, linewidth=1.6)
    else:
        axes.errorbar(
            x,
            cut.mean,
            [cut.mean - cut.low, cut.high - cut.mean],
            fmt="_",
            color=LOW,
            ecolor=_BAND,
            elinewidth=7,
            markersize=14,
            mew=2,
        )


def _limits(errors: Any) -> tuple[float, float]:
    """Return the range of errors to draw: all except those far above the others."""
    low, middle, upper = np.quantile(errors, [0.0, 0.25, 0.75])
    top = min(float(errors.max()), float(upper + 4.0 * max(upper - middle, 0.0)))
    air = 0.08 * (top - low) or max(abs(top) * 0.05, 1e-12)
    return float(low - air), float(top + air)
