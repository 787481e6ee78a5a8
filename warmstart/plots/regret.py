"""Figures of an evaluation: regret curves and paired differences with intervals."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.plots.labels import spread
from warmstart.plots.read_study import PARTS, check_report
from warmstart.plots.style import HIGH, INK, LOW, Series, new_figure, save_figure, series, short, styled

MOST = 8
"""Most curves in one picture."""
_FLOOR = 1e-4
"""Lower end of a logarithmic axis: smaller regret does not matter."""
_KINDS = ("strategy", "baseline", "search", "control", "oracle")
_RIVALS = ("portfolio", "nearest-handcrafted", "cold-gp", "arbitrary")
"""Methods that a warm start has to beat."""
MOST_PAIRS = 25
"""Most rows of differences in one picture."""
_BANDS = 4
"""Most bands in one picture; with more curves only the reference has a band, the others have bars."""

Report = Mapping[str, Any]


def draw_regret(
    report: Report,
    folder: Path,
    *,
    stem: str = "regret",
    suffix: str = ".png",
    methods: Sequence[str] = (),
    times: Sequence[int] = (),
    most: int = MOST_PAIRS,
) -> list[Path]:
    """Draw a report of `warmstart evaluate` into an existing folder.

    ``STEM`` shows mean regret by evaluation with 95 % bands, ``STEM-differences`` the paired differences, and
    ``STEM-FIGURE-ACQUISITION`` the paper's figures with a panel per dataset, if the report has them.

    Args:
        report: the JSON document.
        folder: of the pictures.
        stem: beginning of their names.
        suffix: ``.png`` or ``.svg``.
        methods: curves to draw; up to eight chosen ones when left out.
        times: numbers of evaluations of the differences; all of the report when left out.
        most: number of differences, to the nearest methods; 0 = all.

    Returns: the files written.

    Raises:
        UsageError: a method or a time that the report does not have.
        DataError: an incomplete report.
        StorageError: a file cannot be written.
    """
    check_report(report)
    files: list[Path] = []
    with styled():
        figure = _curves(report, methods or choose_methods(report))
        _save(files, figure, folder / f"{stem}{suffix}")
        differences = _select_differences(report, times)
        if differences:
            _save(files, _forest(_nearest(differences, most), report), folder / f"{stem}-differences{suffix}")
        for name, by_acquisition in report.get("figures", {}).items():
            for acquisition, curves in by_acquisition.items():
                figure = draw_panels(curves, title=f"acquisition {acquisition.upper()}")
                _save(files, figure, folder / f"{stem}-{name}-{acquisition}{suffix}")
    return files


def choose_methods(report: Report) -> list[str]:
    """Choose up to eight methods: the reference, its rivals, then the best of every kind in turn, one oracle and one control.

    Returns: names, least mean regret first.
    """
    first = [report.get("ours"), *(difference["first"] for difference in report.get("differences", ()))]
    levels = {name: float(_floats(method["curve"]["mean"]).mean()) for name, method in report["rivals"].items()}
    ranked = sorted((name for name, level in levels.items() if np.isfinite(level)), key=levels.__getitem__)
    kinds: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for name in ranked:
        kinds.setdefault(report["rivals"][name].get("kind", "baseline"), []).append(name)
    del kinds["oracle"][1:], kinds["control"][1:]
    rounds = range(max(len(names) for names in kinds.values()))
    in_turn = [names[turn] for turn in rounds for names in kinds.values() if turn < len(names)]
    best = [names[0] for kind, names in kinds.items() if names and kind in ("oracle", "strategy")]
    chosen = [name for name in dict.fromkeys([*first, *best, *_RIVALS, *in_turn]) if name in ranked][:MOST]
    return [name for name in ranked if name in chosen]


def _save(files: list[Path], figure: Any, path: Path) -> None:
    """Save a figure and append its path to `files`."""
    save_figure(figure, path)
    files.append(path)


def _curves(report: Report, names: Sequence[str]) -> Any:
    """Draw mean regret by evaluation, with intervals and names at the ends."""
    from matplotlib.ticker import LogLocator, NullLocator

    unknown = sorted(set(names) - set(report["rivals"]))
    if unknown:
        msg = f"expected methods of the report ({', '.join(report['rivals'])}), got {', '.join(unknown)}. Name some of those."
        raise UsageError(msg, param="method")
    every = {name: {part: _floats(report["rivals"][name]["curve"][part]) for part in PARTS} for name in names}
    curves = {name: curve for name, curve in every.items() if np.isfinite(curve["mean"]).all()}
    if not curves:
        msg = "plot regret: expected a curve that is defined everywhere, got none. Choose other methods, or evaluate again."
        raise DataError(msg)
    means = np.concatenate([curve["mean"] for curve in curves.values()])
    is_log = bool(means.max() > 10 * max(float(means.min()), _FLOOR))
    floor = max(float(means.min()) / 2, _FLOOR) if is_log else -np.inf
    figure = new_figure(8.2, 5.0)
    axes = figure.add_subplot()
    ends, looks = [], []
    for number, (name, curve) in enumerate(curves.items()):
        look, x = series(number), np.arange(1, len(curve["mean"]) + 1)
        clipped = {part: np.maximum(values, floor) for part, values in curve.items()}
        is_reference = name == report.get("ours")
        width = 2.4 if is_reference else 1.6
        axes.plot(x, clipped["mean"], color=look.colour, linestyle=look.dash, linewidth=width, zorder=3 + is_reference)
        at = np.array([time for time in report["times"] if time <= len(x)], dtype=int) - 1
        marks = clipped["mean"][at]
        if is_reference or len(curves) <= _BANDS:
            axes.fill_between(x, clipped["low"], clipped["high"], color=look.colour, alpha=0.15, linewidth=0)
        else:
            # Shifted so that bars do not hide each other.
            shifted = x[at] * 1.014 ** (number - (len(curves) - 1) / 2)
            reach = np.abs(np.stack([marks - clipped["low"][at], clipped["high"][at] - marks]))
            axes.errorbar(shifted, marks, reach, fmt="none", ecolor=look.colour, elinewidth=0.8, zorder=2)
        look_of_marks = {"color": look.colour, "markeredgecolor": "white", "markeredgewidth": 0.6}
        axes.plot(x[at], marks, look.marker, **look_of_marks, zorder=4 + is_reference)
        ends.append((float(x[-1]), float(clipped["mean"][-1])))
        looks.append((name, look))
    if is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_ylim(bottom=floor * 0.9)
    else:
        axes.set_ylim(bottom=min(0.0, float(means.min())))
    # A warm start matters in the first evaluations.
    axes.set_xscale("log")
    axes.set_xlim(0.93, float(report["horizon"]) * 1.07)
    axes.set_xticks(sorted({*report["times"], int(report["horizon"])}))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("evaluations of the target network")
    axes.set_ylabel(
        "mean normalised regret" + (f" ({_FLOOR:g} and less at the bottom)" if means.min() < _FLOOR and is_log else "")
    )
    axes.set_title(f"{_evaluation_line(report)}\nbands and bars: 95 % intervals", loc="left", fontsize=9)
    axes.grid(axis="y", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)
    _name_ends(figure, axes, ends, looks)
    return figure


def _name_ends(
    figure: Any, axes: Any, ends: Sequence[tuple[float, float]], looks: Sequence[tuple[str, Series]]
) -> None:
    """Write the names of curves at their ends, moved apart where they would touch."""
    # Computes the layout, for positions in points.
    figure.canvas.draw()
    heights = np.array([axes.transData.transform(end)[1] for end in ends])
    bottom, top = axes.bbox.y0, axes.bbox.y1
    placed = spread(heights, 12.5, low=bottom, high=top)
    for (name, look), end, height in zip(looks, ends, placed, strict=True):
        axes.annotate(
            short(name, 30),
            end,
            xytext=(1.035, (height - bottom) / (top - bottom)),
            textcoords="axes fraction",
            va="center",
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": look.colour, "linewidth": 1.0, "relpos": (0, 0.5), "shrinkB": 3},
            annotation_clip=False,
        )


def _select_differences(report: Report, times: Sequence[int]) -> list[dict[str, Any]]:
    """Return the defined differences, at some times or at all."""
    defined = [
        {**difference, **{part: np.nan if difference[part] is None else float(difference[part]) for part in PARTS}}
        for difference in report.get("differences", ())
        if difference["mean"] is not None
    ]
    if not times:
        return defined
    selected = [difference for difference in defined if difference["measure"] in {f"regret@{time}" for time in times}]
    if not selected:
        msg = f"expected some of {', '.join(str(time) for time in report['times'])}, got {', '.join(str(time) for time in times)}. Name a time of the report."
        raise UsageError(msg, param="time")
    return selected


def _nearest(differences: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Return the differences of the `most` pairs with the smallest mean difference of regret."""
    pairs = _hardest_first(differences)
    if not most or len(pairs) <= most:
        return list(differences)
    means = {pair: [difference["mean"] for difference in differences if (difference["first"], difference["second"]) == pair and difference["measure"].startswith("regret")] for pair in pairs}  # fmt: skip
    far = {pair: abs(float(np.mean(values))) if values else np.inf for pair, values in means.items()}
    nearest = set(sorted(pairs, key=far.__getitem__)[:most])
    return [difference for difference in differences if (difference["first"], difference["second"]) in nearest]


def _forest(differences: Sequence[Mapping[str, Any]], report: Report) -> Any:
    """Draw one panel per measure and one row per pair, the hardest method first: mean difference and 95 % interval."""
    measures = list(dict.fromkeys(difference["measure"] for difference in differences))
    pairs = _hardest_first(differences)
    firsts = list(dict.fromkeys(first for first, _ in pairs))
    rows = {pair: len(pairs) - 1 - rank for rank, pair in enumerate(pairs)}
    figure = new_figure(2.3 + 2.1 * len(measures), 1.5 + 0.27 * len(pairs))
    panels = np.atleast_1d(figure.subplots(1, len(measures), sharey=True))
    for measure, axes in zip(measures, panels, strict=True):
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        of_measure = [difference for difference in differences if difference["measure"] == measure]
        left, right = _limits(of_measure)
        axes.set_xlim(left, right)
        for difference in of_measure:
            _draw_difference(axes, difference, rows[difference["first"], difference["second"]])
        axes.set_title(_measure_title(measure), fontsize=9)
        labels = [short(second if len(firsts) == 1 else f"{first} − {second}", 44) for first, second in rows]
        axes.set_yticks(list(rows.values()), labels)
        axes.set_ylim(-0.6, len(pairs) - 0.4)
        axes.locator_params(axis="x", nbins=4)
        axes.tick_params(axis="y", length=0, pad=9)
        axes.tick_params(axis="x", labelsize=7.5)
        axes.spines["left"].set_visible(False)
    subject = firsts[0] if len(firsts) == 1 else "the first"
    every = len(
        {
            (difference["first"], difference["second"])
            for difference in report.get("differences", ())
            if difference["mean"] is not None
        }
    )
    scope = f"the {len(pairs)} nearest of {every} pairs; " if every > len(pairs) else ""
    figure.suptitle(
        f"{subject} less each method, paired ({scope}{_evaluation_line(report)})", fontsize=9.5, x=0.01, ha="left"
    )
    figure.supxlabel(
        f"◂ {subject} is better    |    the method is better ▸\n"
        "Lines: 95 % intervals. Filled: beyond two standard errors. A number at the border: the mean of what lies beyond it.",
        fontsize=8.5,
    )
    return figure


def _hardest_first(differences: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the pairs ordered by first method, then by mean difference, largest first."""
    means: dict[tuple[str, str], list[float]] = {}
    for difference in differences:
        if difference["measure"].startswith("regret") or (difference["first"], difference["second"]) not in means:
            means.setdefault((difference["first"], difference["second"]), []).append(difference["mean"])
    order = list(dict.fromkeys(first for first, _ in means))
    return sorted(means, key=lambda pair: (order.index(pair[0]), -float(np.mean(means[pair]))))


def _limits(differences: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the limits of an axis on which small differences are readable, without the largest ones."""
    ends = np.array([[difference["low"], difference["mean"], difference["high"]] for difference in differences])
    far = np.nanmax(np.abs(ends), axis=1)
    limit = min(2.5 * float(np.median(far)), float(far.max()))
    low, high = max(min(0.0, float(np.nanmin(ends))), -limit), min(max(0.0, float(np.nanmax(ends))), limit)
    margin = 0.1 * max(high - low, 1e-9)
    return low - margin, high + margin


def _draw_difference(axes: Any, difference: Mapping[str, Any], row: int) -> None:
    """Draw one difference with its interval, or its number at the border if it lies beyond."""
    mean, (left, right) = difference["mean"], axes.get_xlim()
    rim = 0.03 * (right - left)
    colour, marker = (LOW, "o") if mean <= 0 else (HIGH, "s")
    face = colour if difference.get("two_standard_errors") else "white"
    if left + rim < mean < right - rim:
        axes.plot(
            [difference["low"], difference["high"]], [row, row], color=colour, linewidth=1.6, solid_capstyle="butt"
        )
        axes.plot(mean, row, marker, color=colour, markerfacecolor=face, markersize=6, zorder=3)
        return
    is_left = mean < 0
    border = left if is_left else right
    axes.plot(border, row, "<" if is_left else ">", color=colour, markerfacecolor=face, markersize=6, clip_on=False)
    axes.annotate(
        f"{mean:.2g}".replace("-", "−"),
        (border, row),
        xytext=(6 if is_left else -6, 0),
        textcoords="offset points",
        ha="left" if is_left else "right",
        va="center",
        fontsize=7.5,
        color=colour,
    )


def _measure_title(name: str) -> str:
    """Format a measure: `regret@3` as "regret after 3"."""
    measure, _, time = name.partition("@")
    return f"{measure.replace('_', ' ')} after {time}" if time else measure.replace("_", " ")


def _evaluation_line(report: Report) -> str:
    """Return a line with table, protocol and counts of an evaluation."""
    return f"{report.get('table', 'evaluation')}: {report['protocol']}, {report['n_datasets']} datasets of {report['n_groups']} groups, {report['n_configs']} configurations"


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Return numbers as an array; None becomes NaN."""
    return np.array(values, dtype=np.float64)


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
