"""Centres of errors (CCoV) by dataset and hyperparameter [Kim2017warmstart]."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.histories.ccov import CLEAR, Centres
from warmstart.plots.style import FAINT, GREY, HIGH, INK, LOW, new_figure, save_figure, series, short, styled

FEW = 6
"""Most datasets to draw as in the paper, in bars side by side; more are drawn as dots."""


def draw_ccov(centres: Centres, path: Path) -> None:
    """Draw CCoV - 0.5 into a PNG or SVG file: bars for a few datasets, dots for many.

    Filled: beyond two standard deviations of what chance alone gives. Many datasets are ordered by their first column with
    the widest spread, so that columns that follow it are seen to.

    Raises:
        StorageError: the file cannot be written.
    """
    with styled():
        save_figure(_bars(centres) if len(centres.names) <= FEW else _dots(centres), path)


def _axis_limit(centres: Centres) -> float:
    """Return half the range of the axis."""
    deviations = np.abs(centres.values - 0.5)[np.isfinite(centres.values)]
    most = float(deviations.max()) if len(deviations) else 0.1
    return min(max(math.ceil(most * 1.1 * 20) / 20, 0.1), 0.5)


def _bars(centres: Centres) -> Any:
    """Draw one bar per dataset and hyperparameter, with the range of chance as a bracket."""
    from matplotlib.patches import Patch

    count, wide = len(centres.names), 0.8 / len(centres.names)
    figure = new_figure(max(1.15 * len(centres.hyperparameters) + 2.2, 5.0), 4.2)
    axes = figure.add_subplot()
    reach = _axis_limit(centres)
    for row in range(count):
        look = series(row)
        x = np.arange(len(centres.hyperparameters)) - 0.4 + wide * (row + 0.5)
        for position, value, clear in zip(x, centres.values[row] - 0.5, centres.clear[row], strict=True):
            if np.isfinite(value):
                face = look.colour if clear else "white"
                axes.bar(
                    position,
                    value,
                    wide * 0.88,
                    facecolor=face,
                    edgecolor=look.colour if not clear else INK,
                    hatch=look.hatch,
                    linewidth=0.7,
                )
        middle, std = centres.chance[row] - 0.5, centres.noise_std[row]
        axes.errorbar(x, middle, CLEAR * std, fmt="none", ecolor=GREY, elinewidth=0.8, capsize=2.0, zorder=3)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks(range(len(centres.hyperparameters)), [_display_name(name) for name in centres.hyperparameters])
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(-reach, reach)
    axes.set_ylabel("CCoV − 0.5\n← errors gather at low · high values →", linespacing=1.5)
    keys = [
        Patch(facecolor=series(row).colour, edgecolor=INK, hatch=series(row).hatch, linewidth=0.7, label=short(name))
        for row, name in enumerate(centres.names)
    ]
    figure.legend(handles=keys, loc="outside upper left", ncols=min(count, 4), frameon=False)
    figure.supxlabel("Filled: beyond the bracket, ±2 standard deviations of what chance alone gives.", fontsize=8)
    return figure


def _dots(centres: Centres) -> Any:
    """Draw one column per hyperparameter and one row per dataset."""
    spreads = np.array(
        [np.ptp(column[np.isfinite(column)]) if np.isfinite(column).any() else 0.0 for column in centres.values.T]
    )
    # Reversed, so that undefined rows come first.
    order = np.argsort(centres.values[:, int(spreads.argmax())], kind="stable")[::-1]
    count, columns = len(centres.names), len(centres.hyperparameters)
    figure = new_figure(max(1.25 * columns + 2.0, 5.0), 0.142 * count + 1.5)
    panels = np.atleast_1d(figure.subplots(1, columns, sharey=True))
    reach, rows = _axis_limit(centres), np.arange(count)[::-1]
    for column, axes in enumerate(panels):
        values, clear = centres.values[order, column] - 0.5, centres.clear[order, column]
        middle, std = centres.chance[order, column] - 0.5, centres.noise_std[order, column]
        edges = np.repeat(rows, 2) + np.tile([0.5, -0.5], count)
        low, high = (np.repeat(middle + side * CLEAR * std, 2) for side in (-1, 1))
        axes.fill_betweenx(edges, low, high, color="#ececec", linewidth=0)
        axes.axvline(0, color=GREY, linewidth=0.6)
        for side, colour, marker in ((values <= middle, LOW, "<"), (values > middle, HIGH, ">")):
            for filled in (True, False):
                mask = side & (clear == filled)
                axes.plot(
                    values[mask],
                    rows[mask],
                    marker,
                    color=colour,
                    markersize=4.2,
                    markerfacecolor=colour if filled else "white",
                    markeredgewidth=0.8,
                )
        axes.set_title(_display_name(centres.hyperparameters[column]), fontsize=8.5)
        axes.set_xlim(-reach, reach)
        axes.set_xticks([-reach, 0, reach], [f"−{reach:g}", "0", f"+{reach:g}"], fontsize=7.5)
        axes.set_ylim(-0.7, count - 0.3)
        axes.set_yticks(rows, [short(centres.names[row]) for row in order], fontsize=7)
        axes.tick_params(axis="y", left=False)
        axes.spines["left"].set_visible(False)
        axes.hlines(rows[::5], -reach, reach, color=FAINT, linewidth=0.4, zorder=0)
    sides = "CCoV − 0.5:    ◁ errors gather at low values    |    errors gather at high values ▷"
    figure.supxlabel(
        f"{sides}\nFilled: beyond the grey band, ±2 standard deviations of what chance alone gives.", fontsize=8.5
    )
    return figure


def _display_name(name: str) -> str:
    """Format a hyperparameter's name: `log10_learning_rate` as "learning rate" over "(log)"."""
    words = short(name.removeprefix("log10_").replace("_", " "), 18)
    lines = "\n".join(words.rsplit(" ", 1)) if len(words) > 12 else words
    return f"{lines} (log)" if name.startswith("log10_") else lines
