"""Figures of a run of the optimiser: errors over time and diagnostics, from `Optimizer.to_dict`."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.acquisition.registry import ACQUISITIONS
from warmstart.bo.diagnostics import Diagnosis, Fit, Sensitivity, Shares, Slice, best_so_far
from warmstart.plots.style import FAINT, GREY, HIGH, INK, LOW, new_figure, save_figure, series, short, styled

_ROW = 4
"""Slices side by side."""
_MOST = 8
"""Most architectures with their own colour; the rest share one."""
_BLOCKS = 10
"""Parts of a run in which architectures are counted."""
_SHADED = 20
"""Least evaluations for a histogram over time behind the points."""
_WIDE = 5.0
"""An error this many interquartile ranges beyond the others is drawn at the edge."""
_BAND = "#c9dcea"


def draw_run(diagnosis: Diagnosis, folder: Path, *, stem: str = "run", suffix: str = ".png") -> list[Path]:
    """Draw the diagnostics of a run into an existing folder.

    ``STEM`` shows its errors in order, as a histogram over time, and the best so far; ``STEM-fit`` cross-validated predictions
    of errors; ``STEM-slices`` predictions and acquisition along each hyperparameter; ``STEM-sensitivity`` the influence of
    hyperparameters; ``STEM-architectures`` the evaluated architectures.

    Args:
        diagnosis: the diagnostics.
        folder: of the pictures.
        stem: beginning of their names.
        suffix: ``.png`` or ``.svg``.

    Returns: the files written.

    Raises:
        StorageError: a file cannot be written.
    """
    files: list[Path] = []
    with styled():
        parts = {
            "": _trace(diagnosis.errors),
            "-fit": diagnosis.fit and _fit(diagnosis.fit),
            "-slices": diagnosis.slices and _slices(diagnosis.slices, diagnosis),
            "-sensitivity": diagnosis.sensitivity and _sensitivity(diagnosis.sensitivity),
            "-architectures": diagnosis.shares and _architectures(diagnosis.shares),
        }
        for name, figure in parts.items():
            if figure is not None:
                files.append(folder / f"{stem}{name}{suffix}")
                save_figure(figure, files[-1])
    return files


def _limits(errors: NDArray[np.float64]) -> tuple[float, float]:
    """Return the range of an axis: all errors, except those far above the others."""
    low, middle, high = np.quantile(errors, [0.0, 0.25, 0.75])
    top = min(float(errors.max()), float(high + _WIDE * max(high - middle, 0.0)))
    air = 0.06 * (top - low) or max(abs(top) * 0.05, 1e-12)
    return float(low - air), float(top + air)


def _trace(errors: NDArray[np.float64]) -> Any:
    """Draw the errors in order over their histogram in time, the best so far, and the histogram of all errors."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Patch

    finite = errors[np.isfinite(errors)]
    low, high = _limits(finite)
    n, number = len(errors), np.arange(1, len(errors) + 1)
    figure = new_figure(8.2, 4.2)
    axes, histogram = figure.subplots(1, 2, sharey=True, width_ratios=(5, 1))
    clipped = np.clip(errors, low, high)
    bins = (np.linspace(0.5, n + 0.5, min(max(n // 4, 1), 40) + 1), np.linspace(low, high, 25))
    counts, _, _ = np.histogram2d(number[np.isfinite(errors)], clipped[np.isfinite(errors)], bins=bins)
    greys = LinearSegmentedColormap.from_list("counts", ["#ffffff", "#9a9a9a"])
    if n >= _SHADED:
        axes.pcolormesh(*bins, counts.T, cmap=greys, vmin=0, vmax=max(float(counts.max()), 3.0), rasterized=True)
    size = 4.5 if n <= 150 else 2.0
    inside = errors <= high
    axes.plot(number[inside], errors[inside], "o", color=LOW, markersize=size, markerfacecolor="white", label="error")
    if np.any(errors > high):
        axes.plot(
            number[errors > high],
            clipped[errors > high],
            "^",
            color=LOW,
            markersize=size,
            clip_on=False,
            label="far above",
        )
    axes.step(number, best_so_far(errors), where="post", color=HIGH, linewidth=2.2, label="best so far")
    failed = number[np.isnan(errors)]
    if len(failed):
        above = {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot(failed, np.full(len(failed), 1.02), "x", color=INK, label="failed or invalid", **above)
    axes.set_xlim(0.5, n + 0.5)
    axes.set_ylim(low, high)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("evaluation")
    axes.set_ylabel("error")
    histogram.hist(
        clipped[np.isfinite(errors)], bins=bins[1], orientation="horizontal", color="#b5b5b5", edgecolor="white"
    )
    histogram.axhline(float(finite.min()), color=HIGH, linewidth=2.2)
    histogram.set_xlabel("evaluations")
    histogram.xaxis.get_major_locator().set_params(integer=True, nbins=3)
    histogram.tick_params(axis="y", length=0)
    title = f"best error {finite.min():.5g} at evaluation {int(np.nanargmin(errors)) + 1} of {n}"
    axes.set_title(title, loc="left", pad=12)
    shade = [Patch(facecolor="#b5b5b5", label="darker: more evaluations")] if n >= _SHADED else []
    handles = [*axes.get_legend_handles_labels()[0], *shade]
    figure.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False)
    return figure


def _fit(fit: Fit) -> Any:
    """Draw measured errors against cross-validated predictions with 95 % bands."""
    figure = new_figure(5.4, 5.2)
    axes = figure.add_subplot()
    low, high = _limits(np.concatenate([fit.error, fit.mean]))
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.9, zorder=1)
    outside = ~fit.within
    for rows, colour, marker, label in (
        (~outside, LOW, "o", "within the 95 % band"),
        (outside, HIGH, "s", "beyond it"),
    ):
        if rows.any():
            axes.errorbar(
                fit.error[rows],
                fit.mean[rows],
                np.stack([fit.mean - fit.low, fit.high - fit.mean])[:, rows],
                fmt=marker,
                color=colour,
                elinewidth=0.8,
                markersize=4.5,
                label=f"{label} ({rows.sum()})",
            )
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    hidden = int(np.sum((fit.error > high) | (fit.mean > high) | (fit.mean < low)))
    axes.set_xlabel("error as measured" + (f" ({hidden} evaluations lie outside)" if hidden else ""))
    axes.set_ylabel("error as predicted without it")
    axes.set_title(f"{100 * fit.covered:.0f} % within the 95 % bands", loc="left")
    axes.legend(loc="upper left", frameon=False)
    return figure


def _slices(cuts: Sequence[Slice], diagnosis: Diagnosis) -> Any:
    """Draw for every hyperparameter the predicted error with 95 % band and evaluations, and the acquisition below."""
    columns = min(len(cuts), _ROW)
    rows = -(-len(cuts) // columns)
    figure = new_figure(max(2.1 * columns + 0.6, 4.6), 3.3 * rows + 0.9)
    ratios = [2.0, 1.0] * rows
    panels = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=ratios, sharey="row")
    errors = diagnosis.errors
    low, high = _limits(np.concatenate([errors[np.isfinite(errors)], *(cut.mean for cut in cuts)]))
    values = np.concatenate([cut.acquisition[np.isfinite(cut.acquisition)] for cut in cuts])
    for number, cut in enumerate(cuts):
        row, column = divmod(number, columns)
        above, below = panels[2 * row, column], panels[2 * row + 1, column]
        above.fill_between(cut.unit, cut.low, cut.high, color=_BAND, linewidth=0)
        above.plot(cut.unit, cut.mean, color=LOW, linewidth=1.6)
        within = errors <= high
        above.plot(cut.observed[within], errors[within], "o", color=INK, markersize=2.6, mfc="none", mew=0.6)
        below.plot(cut.unit, cut.acquisition, color=HIGH, linewidth=1.4, dashes=(4, 1))
        above.set_ylim(low, high)
        below.set_ylim(*_floor(values))
        for axes in (above, below):
            axes.axvline(cut.best, color=INK, linewidth=0.9, dashes=(1.5, 1.5), zorder=1)
            axes.set_xlim(-0.03, 1.03)
        above.set_xticks([])
        at = _ticks(cut)
        below.set_xticks(cut.unit[at], [_value_text(cut.value[i]) for i in at], fontsize=7.5)
        above.set_title(short(cut.name.replace("_", " "), 22), fontsize=9)
        if column == 0:
            above.set_ylabel("error, 95 % band")
            below.set_ylabel(ACQUISITIONS[diagnosis.acquisition].label)
    for number in range(len(cuts), rows * columns):
        row, column = divmod(number, columns)
        for axes in (panels[2 * row, column], panels[2 * row + 1, column]):
            axes.set_visible(False)
    words = (
        "Line and band: error as predicted along one hyperparameter,\nthe others as in the best configuration (dotted)."
    )
    figure.supxlabel(f"{words}\nCircles: all evaluations, whatever else they varied.", fontsize=8)
    return figure


def _floor(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the range of an acquisition axis, cut below, as a logarithm has no lower limit."""
    top = float(values.max())
    low = max(float(values.min()), float(np.quantile(values, 0.05)), top - 30.0)
    air = 0.08 * (top - low) or 0.5
    return low - air, top + air


def _ticks(cut: Slice) -> list[int]:
    """Choose the ticks of a slice: the middles of few steps, else the ends and the middle."""
    texts = [_value_text(value) for value in cut.value]
    starts = [i for i in range(len(texts)) if i == 0 or texts[i] != texts[i - 1]]
    if len(starts) <= 6 and sum(len(texts[i]) for i in starts) <= 24:
        ends = [*starts[1:], len(texts)]
        return [(start + end - 1) // 2 for start, end in zip(starts, ends, strict=True)]
    return [len(texts) // 12, len(texts) // 2, len(texts) - 1 - len(texts) // 12]


def _value_text(value: Any) -> str:
    """Format a value for a tick."""
    return f"{value:.2g}" if isinstance(value, float) else short(str(value), 10)


def _sensitivity(sensitivity: Sensitivity) -> Any:
    """Draw the range of every hyperparameter in lengthscales, over samples of the surrogate."""
    middle = np.median(sensitivity.spans, axis=0)
    order = np.argsort(middle, kind="stable")
    figure = new_figure(6.2, 0.3 * len(order) + 1.4)
    axes = figure.add_subplot()
    rows = np.arange(len(order))
    low, high = np.quantile(sensitivity.spans[:, order], [0.1, 0.9], axis=0)
    axes.barh(rows, middle[order], color="#a9c9de", edgecolor=LOW, linewidth=0.8, height=0.62)
    axes.hlines(rows, low, high, color=INK, linewidth=1.2)
    axes.plot(middle[order], rows, "|", color=INK, markersize=8)
    count = int(sensitivity.active.max())
    names = [short(name.replace("_", " ")) for name in sensitivity.names]
    seldom = ["" if n == count else f" ({n} of {count})" for n in sensitivity.active.tolist()]
    axes.set_yticks(rows, [names[i] + seldom[i] for i in order])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0.0)
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.set_xlabel(
        "lengthscales between the ends of the range: more = matters more\n(median and 10–90 % of sampled hyperparameters)"
        + ("\nIn brackets: evaluations in which it was active; few say little." if any(seldom) else "")
    )
    return figure


def _architectures(shares: Shares) -> Any:
    """Draw the shares of architectures in successive parts of the run."""
    from matplotlib.patches import Patch

    count = len(shares.names)
    names = [*shares.names[:_MOST]] if count <= _MOST else [*shares.names[: _MOST - 1], f"{count - _MOST + 1} others"]
    which = np.minimum(shares.indices, len(names) - 1)
    n = len(which)
    edges = np.unique(np.linspace(0, n, min(_BLOCKS, n) + 1).round().astype(int))
    figure = new_figure(7.6, 3.8)
    axes = figure.add_subplot()
    bottom = np.zeros(len(edges) - 1)
    for number in range(len(names)):
        look = series(number)
        share = np.array([np.mean(which[a:b] == number) for a, b in pairwise(edges)])
        axes.bar(
            edges[:-1] + 0.5,
            share,
            np.diff(edges),
            bottom,
            align="edge",
            color=look.colour,
            edgecolor="white",
            linewidth=0.8,
            hatch=look.hatch,
        )
        bottom += share
    axes.set_xlim(0.5, n + 0.5)
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.0, 0.5, 1.0], ["0", "50 %", "100 %"])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("evaluation")
    axes.set_ylabel("share of evaluations")
    totals = np.bincount(which, minlength=len(names))
    keys = [
        Patch(
            facecolor=series(number).colour,
            edgecolor="white",
            hatch=series(number).hatch,
            label=f"{short(name.replace('_', ' '))} ({totals[number]})",
        )
        for number, name in enumerate(names)
    ]
    figure.legend(handles=keys, loc="outside upper left", ncols=3, frameon=False)
    axes.spines["left"].set_color(FAINT)
    return figure
