"""The pictures of a study, in reading order."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.bo.importance import Importance, Profile
from warmstart.history_store.errors import DataError, WarmstartError
from warmstart.plots.best_so_far import WARM, best_so_far_figure, edge_of
from warmstart.plots.natural_axis import NaturalAxis, axes_of
from warmstart.plots.style import FAINT, GREY, HIGH, INK, LOW, new_figure, save_figure, short, styled
from warmstart.plots.timeline import timeline_figure
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.study_model import LEAST, StudyModel, model_study
from warmstart.studies.results.study_record import StudyRecord
from warmstart.studies.results.trial import Trial

PICTURES = {
    "best-so-far": "Every trial in its order, and the best so far",
    "importance": "Which hyperparameters the error depends on",
    "parallel": "All trials over their hyperparameters",
    "slices": "Predicted error along each hyperparameter",
    "curves": "What the trials reported on their way",
    "timeline": "When and where each trial ran",
}
"""Names and captions of the pictures."""
MODELLED = ("importance", "slices")
"""Pictures of the study's surrogate, which takes seconds to fit."""
_OF_SPACE = (*MODELLED, "parallel")


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One picture of a study: its name in `PICTURES`, and the figure of matplotlib."""

    name: str
    figure: Any


LARGEST = 1e100
"""The largest error that is drawn: squares and differences of more are beyond what a float holds."""


def study_pictures(record: StudyRecord, *, notes: list[str], seed: int = 0) -> Iterator[Picture]:
    """Yield the pictures of a study, drawn inside `style.styled`.

    Args:
        record: the study.
        notes: extended by a line for every missing picture.
        seed: of the surrogate's samples.

    Raises:
        DataError: no trial with an error.
    """
    if record.best is None:
        msg = f"{record.name}: expected a trial with a result to draw, got none of {len(record.trials)}. Run some more, or correct the objective."
        raise DataError(msg)
    check_drawable(record)
    model = _model(record, notes, seed)
    if model is not None and model.never_varied:
        notes.append(
            f"{record.name}: no importance without two values that were tried: {', '.join(model.never_varied)}."
        )
    for name in PICTURES:
        figure = study_figure(record, name, model)
        if figure is not None:
            yield Picture(name, figure)


def check_drawable(record: StudyRecord) -> None:
    """Check that the errors of a study can be drawn.

    Raises:
        DataError: one is too large.
    """
    numbers = [
        error
        for trial in record.trials
        for error in (trial.error, *(error for _, error in trial.curve))
        if error is not None
    ]
    if (largest := max(map(abs, numbers), default=0.0)) > LARGEST:
        msg = f"{record.name}: expected errors of at most {LARGEST:g} to draw, got {largest:g}. Return smaller ones, or a failure."
        raise DataError(msg)


def study_figure(record: StudyRecord, name: str, model: StudyModel | None) -> Any:
    """Draw a picture of a study, inside `style.styled`; None where the study has nothing for it.

    Args:
        record: the study.
        name: of the picture, in `PICTURES`.
        model: of the study, which `MODELLED` pictures need, and which sorts the axes of others.
    """
    space = record.space
    axes = [] if space is None else axes_of(space)
    by_name = {axis.name: axis for axis in axes}
    order = [axis.name for axis in axes]
    if model is not None:
        weight = dict(zip(model.importance.names, np.median(model.importance.total, axis=0).tolist(), strict=True))
        order.sort(key=lambda name: -weight.get(name, 0.0))
        if name == "importance" and model.importance.names:
            return importance_figure(model.importance, by_name)
        if name == "slices":
            cuts = sorted(model.profiles, key=lambda cut: order.index(cut.name) if cut.name in order else len(order))
            return slices_figure(record, cuts, by_name)
    if name in MODELLED:
        return None
    if name == "parallel":
        return parallel_figure(record, [by_name[name] for name in order])
    return {"best-so-far": best_so_far_figure, "curves": curves_figure, "timeline": timeline_figure}[name](record)


def drawable_pictures(record: StudyRecord) -> list[str]:
    """Return the names of the pictures that a study has trials for, without drawing them."""
    results = [trial for trial in record.trials if trial.error is not None and trial.feasible]
    curves = [trial.curve for trial in record.trials] + [span.curve for span in record.spans]
    varies = len(results) >= LEAST and len({trial.error for trial in results}) > 1
    has = {
        "best-so-far": bool(results),
        "curves": any(len(curve) >= 2 for curve in curves),
        "timeline": any(span.start is not None for span in record.spans),
        "parallel": len(results) >= 2,
        "importance": varies,
        "slices": varies,
    }
    return [name for name in has if has[name] and (record.space_json or name not in _OF_SPACE)]


def draw_study(
    record: StudyRecord, folder: Path, *, stem: str = "study", suffix: str = ".png", seed: int = 0
) -> tuple[list[Path], list[str]]:
    """Draw a study into a folder that exists: ``STEM`` is the best so far, the others ``STEM-NAME``, as in `PICTURES`.

    Returns: the files written, and why others were not.

    Raises:
        DataError: no trial with an error.
        StorageError: a file cannot be written.
    """
    files: list[Path] = []
    notes: list[str] = []
    with styled():
        for picture in study_pictures(record, notes=notes, seed=seed):
            name = "" if picture.name == "best-so-far" else f"-{picture.name}"
            files.append(folder / f"{stem}{name}{suffix}")
            save_figure(picture.figure, files[-1])
    return files, notes


def _model(record: StudyRecord, notes: list[str], seed: int) -> StudyModel | None:
    try:
        return model_study(record, seed=seed)
    except WarmstartError as error:
        notes.append(str(error))
        return None


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


LINES = 100
"""Most curves drawn, the best ones."""


def curves_figure(record: StudyRecord) -> Any:
    """Draw the curves of trials with at least two reports: the best thick, warm ones dashed, pruned ones with a cross, those under way dotted; None without any."""
    from matplotlib.lines import Line2D

    trials = [trial for trial in record.trials if len(trial.curve) >= 2]
    running = [span for span in record.spans if len(span.curve) >= 2][:LINES]
    trials = sorted(trials, key=lambda trial: (trial.error is None, trial.error or 0.0))[:LINES]
    curves = [trial.curve for trial in trials] + [span.curve for span in running]
    points = np.array([error for curve in curves for _, error in curve if math.isfinite(error)])
    if not len(points):
        return None
    figure = new_figure(7.2, 3.9)
    axes = figure.add_subplot()
    best = record.best
    kinds = set()
    for trial in reversed(trials):
        x, values = _line(record, trial.curve)
        is_best, is_warm = best is not None and trial.number == best.number, record.warm_of(trial) is not None
        colour = HIGH if is_best else WARM if is_warm else "#8fb3cc"
        dashes = (4, 1.5) if is_warm else (None, None)
        axes.plot(x, values, color=colour, linewidth=2.2 if is_best else 1.1, dashes=dashes, zorder=3 if is_best else 2)
        kinds |= {"warm"} if is_warm else set()
        if trial.status is TrialStatus.PRUNED:
            kinds.add("pruned")
            axes.plot(x[-1], values[-1], "x", color=INK, markersize=4, zorder=4)
    for span in running:
        axes.plot(*_line(record, span.curve), color=INK, linewidth=1.1, dashes=(1.2, 1.2), zorder=3)
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
    keys += [Line2D([], [], color=INK, dashes=(1.2, 1.2), label="under way")] if running else []
    figure.legend(handles=keys, loc="outside lower left", ncols=5, frameon=False)
    return figure


def _line(record: StudyRecord, curve: Sequence[tuple[float, float]]) -> tuple[Any, Any]:
    """Return the steps of a curve, and its values of the metric."""
    values = [record.metric.to_value(error) if math.isfinite(error) else np.nan for _, error in curve]
    return np.array([step for step, _ in curve], dtype=np.float64), np.array(values, dtype=np.float64)


def _value(record: StudyRecord, error: float) -> float:
    return record.metric.to_value(error)


_ROW = 4
MOST_SLICES = 12
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
    cuts = [profile for profile in profiles if profile.name in axes_by_name][:MOST_SLICES]
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
    figure = new_figure(max(2.05 * columns + 0.6, 7.2), 2.2 * rows + 0.9)
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


MOST_AXES = 12
"""Most hyperparameters drawn, the first ones."""
MOST_LINES = 300
"""Most trials drawn, the best ones."""
_DASHES, _DOTS = (0, (4, 1.5)), (0, (1, 1.8))


def parallel_figure(record: StudyRecord, axes_of_space: Sequence[NaturalAxis]) -> Any:
    """Draw one line per trial through its hyperparameters to its value of the metric: darker = better, warm trials dashed, pruned ones dotted to their last report.

    Args:
        record: the study.
        axes_of_space: in the order of the picture, the most important first.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.lines import Line2D

    trials = [t for t in record.trials if t.error is not None and t.feasible]
    columns = list(axes_of_space)[:MOST_AXES]
    if len(trials) < 2 or not columns:
        return None
    trials = sorted(trials, key=lambda trial: trial.error or 0.0)[:MOST_LINES]
    errors = np.array([trial.error for trial in trials], dtype=np.float64)
    ranks = np.argsort(np.argsort(errors)) / max(len(errors) - 1, 1)
    figure = new_figure(max(1.15 * (len(columns) + 1) + 0.8, 7.2), 3.9)
    axes = figure.add_subplot()
    colours = LinearSegmentedColormap.from_list("best to worst", ["#08306b", "#4a90c2", "#c9dcea"])
    to_value = record.metric.to_value
    low, high = sorted(to_value(float(error)) for error in (errors.min(), edge_of(errors)))
    last, pruned = len(columns), _pruned(record)
    last_reports = [_heights(columns, trial, to_value(trial.curve[-1][1]), low, high) for trial in pruned]
    _draw_lines(axes, last_reports, colors=GREY, linewidths=0.8, linestyles=_DOTS, alpha=0.8, zorder=1)
    # The best trials last, so that they are on top.
    heights = [_heights(columns, trial, to_value(trial.error or 0.0), low, high) for trial in trials]
    is_warm = [record.warm_of(trial) is not None for trial in trials]
    rows = [row for row in reversed(range(1, len(trials))) if not is_warm[row]]
    shades = [colours(ranks[row]) for row in rows]
    _draw_lines(axes, [heights[row] for row in rows], colors=shades, linewidths=1.1, alpha=0.75, zorder=2)
    rows = [row for row in reversed(range(1, len(trials))) if is_warm[row]]
    _draw_lines(axes, [heights[row] for row in rows], colors=WARM, linewidths=1.1, linestyles=_DASHES, zorder=2)
    best_look = {"colors": WARM, "linestyles": _DASHES} if is_warm[0] else {"colors": [colours(0.0)]}
    _draw_lines(axes, heights[:1], linewidths=2.4, zorder=3, **best_look)
    for column, axis in enumerate(columns):
        _ruler(axes, column, *axis.ticks())
    values = np.linspace(low, high, 4) if high > low else np.array([low])
    texts = [f"{value:.3g}" for value in values]
    if edge_of(errors) < errors.max():
        edge, sign = (0, "≤") if record.metric.maximize else (-1, "≥")
        texts[edge] = f"{sign} {texts[edge]}"
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
    if any(is_warm):
        keys.append(Line2D([], [], color=WARM, dashes=(4, 1.5), label="warm"))
    if pruned:
        keys.append(Line2D([], [], color=GREY, linewidth=0.8, dashes=(1, 1.8), label="stopped early: its last report"))
    figure.legend(handles=keys, loc="outside lower left", ncols=4, frameon=False)
    return figure


def _pruned(record: StudyRecord) -> list[Trial]:
    """Return the pruned trials without an error, by their last report, at most `MOST_LINES`."""
    pruned = [t for t in record.trials if t.status is TrialStatus.PRUNED and t.error is None and t.curve]
    return sorted(pruned, key=lambda trial: trial.curve[-1][1])[:MOST_LINES]


def _draw_lines(axes: Any, lines: Sequence[Any], **look: Any) -> None:
    """Draw lines of one look: a line of its own for each trial takes seconds."""
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection([np.column_stack([np.arange(len(line)), line]) for line in lines], **look))


def _heights(columns: Sequence[NaturalAxis], trial: Trial, value: float, low: float, high: float) -> Any:
    """Return the heights of a trial's line on all axes; below them without a value."""
    heights = [axis.position(trial.config.get(axis.name)) for axis in columns]
    end = 0.0 if high <= low else min(max((value - low) / (high - low), 0.0), 1.0)
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
