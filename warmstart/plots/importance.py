"""Importance of hyperparameters by the study's surrogate."""

from typing import Any

import numpy as np

from warmstart.bo.importance import Importance
from warmstart.plots.natural_axis import NaturalAxis
from warmstart.plots.style import INK, LOW, new_figure

MOST = 20


def importance_figure(importance: Importance, axes_by_name: dict[str, NaturalAxis]) -> Any:
    """Draw one bar per hyperparameter: its share of the variance of the predicted error, alone and with interactions."""
    total, alone = np.median(importance.total, axis=0), np.median(importance.alone, axis=0)
    order = np.argsort(total, kind="stable")[-MOST:]
    rows = np.arange(len(order))
    figure = new_figure(6.4, 0.32 * len(order) + 1.5)
    axes = figure.add_subplot()
    low, high = np.quantile(importance.total[:, order], [0.1, 0.9], axis=0)
    axes.barh(rows, total[order], color="#a9c9de", edgecolor=LOW, linewidth=0.8, height=0.62, label="with others")
    axes.barh(rows, np.minimum(alone, total)[order], color=LOW, height=0.62, label="alone")
    axes.hlines(rows, low, high, color=INK, linewidth=1.1, label="10–90 % of the surrogate's samples")
    titles = [
        axes_by_name[importance.names[i]].title if importance.names[i] in axes_by_name else importance.names[i]
        for i in order
    ]
    axes.set_yticks(rows, titles)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0.0, max(1.0, float(high.max(initial=0.0))) * 1.02)
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_ylim(-0.6, len(order) - 0.4)
    left_out = len(importance.names) - len(order)
    more = f"; {left_out} that matter less are left out" if left_out else ""
    axes.set_xlabel(f"share of the variance of the predicted error{more}")
    figure.legend(loc="outside lower left", ncols=3, frameon=False)
    return figure
