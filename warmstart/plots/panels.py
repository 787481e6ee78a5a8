"""Panels by dataset: best error so far from different starts, as in the figures of [Kim2017warmstart]."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warmstart.plots.style import new_figure, series, short

Curve = Mapping[str, Sequence[float]]


def draw_panels(curves: Mapping[str, Mapping[str, Curve]], *, title: str) -> Any:
    """Draw one panel per dataset.

    Args:
        curves: by start and dataset: `mean`, `low` and `high` after 1, 2, ... evaluations.
        title: above everything.

    Returns: the figure.
    """
    from matplotlib.lines import Line2D

    datasets = list(dict.fromkeys(name for by_dataset in curves.values() for name in by_dataset))
    columns = min(len(datasets), max(4, math.ceil(math.sqrt(len(datasets) * 0.8))))
    rows = math.ceil(len(datasets) / columns)
    figure = new_figure(max(1.75 * columns, 5.0), 1.45 * rows + 1.0)
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    starts = list(curves)
    for dataset, axes in zip(datasets, panels, strict=False):
        means: list[float] = []
        for number, start in enumerate(starts):
            if dataset not in curves[start]:
                continue
            curve, look = curves[start][dataset], series(number)
            mean = np.array(curve["mean"], dtype=np.float64)
            x = np.arange(1, len(mean) + 1)
            low, high = (np.array(curve[part], dtype=np.float64) for part in ("low", "high"))
            axes.fill_between(x, low, high, color=look.colour, alpha=0.1, linewidth=0)
            axes.plot(x, mean, color=look.colour, linestyle=look.dash, linewidth=1.2)
            means += mean[np.isfinite(mean)].tolist()
        low_end, high_end = min(means, default=0.0), max(means, default=1.0)
        # Bands of few repeats can be far wider than the means.
        air = max(0.2 * (high_end - low_end), 0.005)
        axes.set_ylim(low_end - air, high_end + air)
        axes.set_title(short(dataset, 22), fontsize=8, pad=3)
        axes.tick_params(labelsize=7, length=2)
        axes.locator_params(axis="y", nbins=4)
        axes.xaxis.get_major_locator().set_params(integer=True)
    for axes in panels[len(datasets) :]:
        axes.set_visible(False)
    keys = [
        Line2D([], [], color=series(n).colour, linestyle=series(n).dash, label=short(start))
        for n, start in enumerate(starts)
    ]
    figure.legend(
        handles=keys,
        loc="outside upper left",
        ncols=min(len(starts), 6),
        frameon=False,
        title=title,
        alignment="left",
        handlelength=3.2,
    )
    figure.supxlabel("evaluations", fontsize=9)
    figure.supylabel("best error so far", fontsize=9)
    return figure
