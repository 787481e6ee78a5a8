"""Figures of an evaluation: regret curves, and paired differences with their intervals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.plots.labels import spread
from warmstart.plots.panels import draw_panels
from warmstart.plots.read_report import PARTS, check_report
from warmstart.plots.style import HIGH, INK, LOW, Series, new_figure, save_figure, series, short, styled

MOST = 8
"""So many curves can be told apart in one picture."""
_FLOOR = 1e-4
"""Where a logarithmic axis ends: regret below it is nothing to anybody."""
_KINDS = ("strategy", "baseline", "search", "control", "oracle")
_TELLING = ("portfolio", "nearest-handcrafted", "cold-gp", "arbitrary")
"""Methods that a warm start has to beat to be worth anything."""
MOST_PAIRS = 25
"""So many rows of differences can be read."""
_BANDS = 4
"""More bands hide each other: then ours alone has one, and the others have bars."""

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
    """Draw all that a report of `warmstart evaluate` holds into a folder that exists.

    ``STEM`` shows mean regret after each evaluation with 95 % bands, ``STEM-differences`` the paired differences,
    ``STEM-FIGURE-ACQUISITION`` the paper's figures, a panel a dataset, where the report has them.

    Args:
        report: the JSON document.
        folder: where the pictures go.
        stem: how their names begin.
        suffix: ``.png`` or ``.svg``.
        methods: which curves; up to eight telling ones when left out.
        times: which numbers of evaluations the differences are shown for; all of the report when left out.
        most: differences to so many methods, the nearest; 0 = to all.

    Returns: the files written.

    Raises:
        UsageError: a method or a time that the report does not have.
        DataError: no such report.
        StorageError: a file cannot be written.
    """
    check_report(report)
    files: list[Path] = []
    with styled():
        figure = _curves(report, methods or telling_methods(report))
        _keep(files, figure, folder / f"{stem}{suffix}")
        differences = _chosen_differences(report, times)
        if differences:
            _keep(files, _forest(_nearest(differences, most), report), folder / f"{stem}-differences{suffix}")
        for name, by_acquisition in report.get("figures", {}).items():
            for acquisition, curves in by_acquisition.items():
                figure = draw_panels(curves, title=f"acquisition {acquisition.upper()}")
                _keep(files, figure, folder / f"{stem}-{name}-{acquisition}{suffix}")
    return files


def telling_methods(report: Report) -> list[str]:
    """Choose up to eight methods: ours, those that it has to beat, then the best of every kind in turn, one oracle and one control.

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
    chosen = [name for name in dict.fromkeys([*first, *best, *_TELLING, *in_turn]) if name in ranked][:MOST]
    return [name for name in ranked if name in chosen]


def _keep(files: list[Path], figure: Any, path: Path) -> None:
    """Write a picture and note its file."""
    save_figure(figure, path)
    files.append(path)


def _curves(report: Report, names: Sequence[str]) -> Any:
    """Draw mean regret after each evaluation, with its interval and its name at its end."""
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
        shown = {part: np.maximum(values, floor) for part, values in curve.items()}
        is_reference = name == report.get("ours")
        width = 2.4 if is_reference else 1.6
        axes.plot(x, shown["mean"], color=look.colour, linestyle=look.dash, linewidth=width, zorder=3 + is_reference)
        at = np.array([place for place in report["times"] if place <= len(x)], dtype=int) - 1
        marks = shown["mean"][at]
        if is_reference or len(curves) <= _BANDS:
            axes.fill_between(x, shown["low"], shown["high"], color=look.colour, alpha=0.15, linewidth=0)
        else:
            beside = x[at] * 1.014 ** (number - (len(curves) - 1) / 2)  # bars that do not hide each other
            reach = np.abs(np.stack([marks - shown["low"][at], shown["high"][at] - marks]))
            axes.errorbar(beside, marks, reach, fmt="none", ecolor=look.colour, elinewidth=0.8, zorder=2)
        look_of_marks = {"color": look.colour, "markeredgecolor": "white", "markeredgewidth": 0.6}
        axes.plot(x[at], marks, look.marker, **look_of_marks, zorder=4 + is_reference)
        ends.append((float(x[-1]), float(shown["mean"][-1])))
        looks.append((name, look))
    if is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_ylim(bottom=floor * 0.9)
    else:
        axes.set_ylim(bottom=min(0.0, float(means.min())))
    axes.set_xscale("log")  # the first evaluations are what a start is about
    axes.set_xlim(0.93, float(report["horizon"]) * 1.07)
    axes.set_xticks(sorted({*report["times"], int(report["horizon"])}))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("evaluations of the target network")
    axes.set_ylabel(
        "mean normalised regret" + (f" ({_FLOOR:g} and less at the bottom)" if means.min() < _FLOOR and is_log else "")
    )
    axes.set_title(f"{_about(report)}\nbands and bars: 95 % intervals", loc="left", fontsize=9)
    axes.grid(axis="y", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)
    _name_ends(figure, axes, ends, looks)
    return figure


def _name_ends(
    figure: Any, axes: Any, ends: Sequence[tuple[float, float]], looks: Sequence[tuple[str, Series]]
) -> None:
    """Write each curve's name beside its end, names that would touch moved apart."""
    figure.canvas.draw()  # lays out, so that places in points are known
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


def _chosen_differences(report: Report, times: Sequence[int]) -> list[dict[str, Any]]:
    """Keep the differences that are defined, at the times asked for; at all where none is."""
    found = [
        {**one, **{part: np.nan if one[part] is None else float(one[part]) for part in PARTS}}
        for one in report.get("differences", ())
        if one["mean"] is not None
    ]
    if not times:
        return found
    kept = [one for one in found if one["measure"] in {f"regret@{time}" for time in times}]
    if not kept:
        msg = f"expected some of {', '.join(str(time) for time in report['times'])}, got {', '.join(str(time) for time in times)}. Name a time of the report."
        raise UsageError(msg, param="time")
    return kept


def _nearest(differences: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Keep the pairs that are nearest to each other on average over what was measured."""
    pairs = _hardest_first(differences)
    if not most or len(pairs) <= most:
        return list(differences)
    means = {pair: [one["mean"] for one in differences if (one["first"], one["second"]) == pair and one["measure"].startswith("regret")] for pair in pairs}  # fmt: skip
    far = {pair: abs(float(np.mean(values))) if values else np.inf for pair, values in means.items()}
    kept = set(sorted(pairs, key=far.__getitem__)[:most])
    return [one for one in differences if (one["first"], one["second"]) in kept]


def _forest(differences: Sequence[Mapping[str, Any]], report: Report) -> Any:
    """Draw a panel a measure and a row a pair, the hardest method first: mean difference, 95 % interval, zero."""
    measures = list(dict.fromkeys(one["measure"] for one in differences))
    pairs = _hardest_first(differences)
    firsts = list(dict.fromkeys(first for first, _ in pairs))
    rows = {pair: len(pairs) - 1 - place for place, pair in enumerate(pairs)}
    figure = new_figure(2.3 + 2.1 * len(measures), 1.5 + 0.27 * len(pairs))
    panels = np.atleast_1d(figure.subplots(1, len(measures), sharey=True))
    for measure, axes in zip(measures, panels, strict=True):
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        shown = [one for one in differences if one["measure"] == measure]
        left, right = _limits(shown)
        axes.set_xlim(left, right)
        for one in shown:
            _draw_difference(axes, one, rows[one["first"], one["second"]])
        axes.set_title(_measure(measure), fontsize=9)
        labels = [short(second if len(firsts) == 1 else f"{first} − {second}", 44) for first, second in rows]
        axes.set_yticks(list(rows.values()), labels)
        axes.set_ylim(-0.6, len(pairs) - 0.4)
        axes.locator_params(axis="x", nbins=4)
        axes.tick_params(axis="y", length=0, pad=9)
        axes.tick_params(axis="x", labelsize=7.5)
        axes.spines["left"].set_visible(False)
    subject = firsts[0] if len(firsts) == 1 else "the first"
    every = len({(one["first"], one["second"]) for one in report.get("differences", ()) if one["mean"] is not None})
    some = f"the {len(pairs)} nearest of {every} pairs; " if every > len(pairs) else ""
    figure.suptitle(f"{subject} less each method, paired ({some}{_about(report)})", fontsize=9.5, x=0.01, ha="left")
    figure.supxlabel(
        f"◂ {subject} is better    |    the method is better ▸\n"
        "Lines: 95 % intervals. Filled: beyond two standard errors. A number at the border: the mean of what lies beyond it.",
        fontsize=8.5,
    )
    return figure


def _hardest_first(differences: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Order the pairs: by their first, then by mean difference over what was measured, largest first."""
    means: dict[tuple[str, str], list[float]] = {}
    for one in differences:
        if one["measure"].startswith("regret") or (one["first"], one["second"]) not in means:
            means.setdefault((one["first"], one["second"]), []).append(one["mean"])
    order = list(dict.fromkeys(first for first, _ in means))
    return sorted(means, key=lambda pair: (order.index(pair[0]), -float(np.mean(means[pair]))))


def _limits(differences: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the ends of an axis on which the close differences can be read, whatever the far ones are."""
    ends = np.array([[one["low"], one["mean"], one["high"]] for one in differences])
    far = np.nanmax(np.abs(ends), axis=1)
    limit = min(2.5 * float(np.median(far)), float(far.max()))
    low, high = max(min(0.0, float(np.nanmin(ends))), -limit), min(max(0.0, float(np.nanmax(ends))), limit)
    margin = 0.1 * max(high - low, 1e-9)
    return low - margin, high + margin


def _draw_difference(axes: Any, one: Mapping[str, Any], row: int) -> None:
    """Draw one difference with its interval, or its number at the border where it lies beyond."""
    mean, (left, right) = one["mean"], axes.get_xlim()
    rim = 0.03 * (right - left)
    colour, marker = (LOW, "o") if mean <= 0 else (HIGH, "s")
    face = colour if one.get("two_standard_errors") else "white"
    if left + rim < mean < right - rim:
        axes.plot([one["low"], one["high"]], [row, row], color=colour, linewidth=1.6, solid_capstyle="butt")
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


def _measure(name: str) -> str:
    """Write a measure for people: `regret@3` as "regret after 3"."""
    measure, _, time = name.partition("@")
    return f"{measure.replace('_', ' ')} after {time}" if time else measure.replace("_", " ")


def _about(report: Report) -> str:
    """Say in a line what was evaluated."""
    return f"{report.get('table', 'evaluation')}: {report['protocol']}, {report['n_datasets']} datasets of {report['n_groups']} groups, {report['n_configs']} configurations"


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Read numbers; null is NaN."""
    return np.array(values, dtype=np.float64)
