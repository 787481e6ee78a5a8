"""When and where the trials of a study ran: a line a worker, a bar a trial."""

import time
from collections.abc import Sequence
from typing import Any

from warmstart.plots.style import HIGH, INK, LOW, new_figure, short
from warmstart.studies.results.study_record import StudyRecord
from warmstart.studies.results.trial_span import INTERRUPTED, RUNNING, TrialSpan

MOST_LANES = 24
"""Most workers with a line each; of more, trials share lines without names."""
_UNITS = ((172_800.0, 86_400.0, "days"), (7200.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
"""Least length of a study, seconds and name of each unit of time."""
_UNENDED = (RUNNING, INTERRUPTED)
_GROUPS = {"best": HIGH, "ok": "#8fb3cc", "stopped early": "#dadada", "failed": INK, "under way": "white"}
"""What a trial came to, with its colour."""


def timeline_figure(record: StudyRecord) -> Any:
    """Draw one bar per trial from its beginning to its end, the workers below each other; None without a beginning."""
    from matplotlib.collections import PolyCollection

    spans = [span for span in record.spans if span.start is not None]
    if not spans:
        return None
    start = min(span.start or 0.0 for span in spans)
    latest = max(span.end or span.start or 0.0 for span in spans)
    now = max(latest, time.time()) if any(span.state == RUNNING for span in spans) else latest
    length = max(now - start, 1e-3)
    _, second, unit = next(row for row in _UNITS if length >= row[0])
    lanes, names = _lanes(spans, now)
    best = record.best
    figure = new_figure(7.2, 0.2 * len(names) + 1.4)
    axes = figure.add_subplot()
    used = []
    for group, colour in _GROUPS.items():
        rows = [row for row, span in enumerate(spans) if _group(span, None if best is None else best.number) == group]
        if rows:
            used.append(group)
            left = [((spans[row].start or 0.0) - start) / second for row in rows]
            # A short trial in a long study stays visible.
            right = [
                max((_end(spans[row], now) - start) / second, x + length / second / 400)
                for row, x in zip(rows, left, strict=True)
            ]
            corners = [
                [(x, lanes[row] - 0.36), (x, lanes[row] + 0.36), (end, lanes[row] + 0.36), (end, lanes[row] - 0.36)]
                for row, x, end in zip(rows, left, right, strict=True)
            ]
            edge, width = (LOW, 0.8) if group == "under way" else ("white", 0.3)
            bars = PolyCollection(corners, facecolors=colour, edgecolors=edge, linewidths=width, label=group)
            axes.add_collection(bars)
    axes.set_yticks(range(len(names)), [short(name, 24) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1.01 * length / second)
    axes.set_xlabel(f"{unit} since the first trial began")
    figure.legend(loc="outside lower left", ncols=len(used), frameon=False)
    return figure


def _group(span: TrialSpan, best: int | None) -> str:
    if span.number == best:
        return "best"
    if span.state in _UNENDED:
        return "under way" if span.state == RUNNING else "failed"
    return {"ok": "ok", "diverged": "ok", "pruned": "stopped early"}.get(span.state, "failed")


def _end(span: TrialSpan, now: float) -> float:
    return now if span.end is None and span.state == RUNNING else max(span.end or 0.0, span.start or 0.0)


def _lanes(spans: Sequence[TrialSpan], now: float) -> tuple[list[int], list[str]]:
    """Return the line of each trial, and the names of the lines: those of the workers, or empty where they are too many."""
    workers = list(dict.fromkeys(span.worker or "" for span in spans))
    if len(workers) <= MOST_LANES:
        return [workers.index(span.worker or "") for span in spans], workers
    free: list[float] = []
    lanes = [0] * len(spans)
    for row in sorted(range(len(spans)), key=lambda row: spans[row].start or 0.0):
        span = spans[row]
        lane = next((lane for lane, end in enumerate(free) if end <= (span.start or 0.0)), len(free))
        if lane == len(free):
            free.append(0.0)
        free[lane], lanes[row] = _end(span, now), lane
    height = max(1, -(-len(free) // MOST_LANES))
    # Beyond that, neighbouring lines overlap: one sees how many trials ran, not which.
    return [lane // height for lane in lanes], [""] * (-(-len(free) // height))
