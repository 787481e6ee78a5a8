"""Evaluation of suggestions for measured datasets: the history treats each as new."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from history_store.errors import DataError, UsageError
from warmstart.models.evaluation_settings import EvaluationSettings

if TYPE_CHECKING:
    from training.evaluation.table import ErrorTable
    from warmstart.models.evaluate import Show
    from warmstart.suggestions.embedded_history import EmbeddedHistory

SUGGESTED = 3
"""Suggestions that are looked up one by one."""


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """A dataset that was measured, seen from the history that answers.

    Attributes:
        label: name for reports.
        group: its source there; its own where the history does not know it.
        errors: `c` over the history's configurations, NaN = not measured; a run that failed counts as error 1.
        rows: datasets of the history that answer: none of its source, none without runs.
        distances: to them, by the model.
    """

    label: str
    group: str
    errors: NDArray[np.float64]
    rows: NDArray[np.int64]
    distances: NDArray[np.float64]


def evaluate_queries(
    queries: Sequence[str], plan: EvaluationSettings, *, history: Path, model: Path, progress: "Show | None" = None
) -> dict[str, Any]:
    """Ask a history about measured datasets and compare what it says with what came.

    Args:
        queries: ``FILE.h5::NAME``, or names of the history's own datasets, which its model has seen.
        plan: methods, horizon, repeats and seed count; no model is trained.
        history: that answers.
        model: of it.
        progress: called with (queries done, queries, name).

    Returns: the report of `training.evaluation.report.make_report` on the configurations that were measured, with `queries`: what
        `suggest` would have said, and what came of each of it.

    Raises:
        UsageError: a name or a method that is not there.
        MissingPathError: a file that is not there.
        DataError: nothing was measured that the history knows.
        StorageError: a file that cannot be read.
    """
    from training.evaluation.methods import choose_methods, make_methods
    from training.evaluation.replay import Outcome, Replay
    from training.evaluation.report import make_report
    from warmstart.models.evaluate import LEARNED
    from warmstart.suggestions.embedded_history import load_embedded_history

    embedded = load_embedded_history(history, model, device=plan.device)
    if embedded.model is None:
        msg = f"{history}: expected datasets with images, to compare the query with, got runs alone. Add images: `warmstart history add`."
        raise DataError(msg)
    asked = [_find(query, embedded, device=plan.device) for query in dict.fromkeys(queries)]
    table = _table(embedded, asked)
    methods = choose_methods(make_methods([LEARNED], LEARNED, has_unit=False), plan.methods)
    horizon = min(plan.horizon, max(int((~np.isnan(query.errors)).sum()) for query in asked))
    replay = Replay(methods, horizon, plan.repeats, plan.seed, plan.surrogate)
    matrix = np.full((len(table.datasets),) * 2, np.nan)
    played = []
    for place, query in enumerate(asked):
        row = len(embedded.names) + place
        matrix[row, query.rows] = query.distances
        played.append(replay(_task(row, query, table, embedded)))
        if progress is not None:
            progress(place + 1, len(asked), query.label)
    outcome = Outcome(
        table, "leave-source-out", horizon, plan.repeats, plan.seed, methods, tuple(played), {LEARNED: matrix}
    )
    reference = plan.reference or ("joint" if "joint" in methods else next(iter(methods)))
    report = make_report(outcome, reference=reference)
    said = [_suggested(query, embedded) for query in asked]
    shared = int(np.any([~np.isnan(query.errors) for query in asked], axis=0).sum())
    return {**report, "n_configs": shared, "history": str(embedded.path), "model": str(model), "queries": said}


def _find(query: str, embedded: "EmbeddedHistory", *, device: str) -> MeasuredQuery:
    """Look a measured dataset up in its file, and place it in the history that answers."""
    from history_store.error_tables import fill_failed
    from history_store.history import History
    from metafeat.embed import look_at
    from warmstart.suggestions.location import distances_to
    from warmstart.suggestions.query import open_query

    file, separator, name = query.rpartition("::")
    is_own = not separator or (Path(file).exists() and Path(file).samefile(embedded.path))
    if is_own:
        if name not in embedded.names:
            msg = f"expected FILE.h5::NAME, or a dataset of {embedded.path}, got {query!r}. `warmstart history list` shows the names."
            raise UsageError(msg, param="query")
        row = embedded.names.index(name)
        vector, group = embedded.vectors[row], embedded.groups[row]
        errors = fill_failed(embedded.errors, embedded.failed)[row]
    else:
        with History.open(file) as history:
            if name not in history.names:
                msg = f"expected a dataset of {file}, got {name!r}. `warmstart history list` shows the names."
                raise UsageError(msg, param="query")
            row, info = history.names.index(name), history.dataset(name)
            known = dict(zip(map(_key, history.configs), fill_failed(history.errors, history.failed)[row], strict=True))
        # Known under another name, perhaps: the same images are the same source.
        same = [
            i for i, about in enumerate(embedded.about) if about.fingerprint and about.fingerprint == info.fingerprint
        ]
        group = embedded.groups[same[0]] if same else f"{info.group} of {file}"
        errors = np.array([known.get(_key(config), np.nan) for config in embedded.configs])
        opened = open_query(query, download=False)
        assert embedded.model is not None  # noqa: S101  refused above
        vector = look_at(opened.source, embedded.model, fingerprint=opened.fingerprint, device=device).vector
    if np.isnan(errors).all():
        msg = f"{query}: expected runs of configurations that {embedded.path} knows, got none. Measure some of them: `warmstart history collect --first`."
        raise DataError(msg, param="query")
    answering = embedded.with_runs(embedded.rows_without([group] if group in embedded.groups else [], None))
    return MeasuredQuery(query, group, errors, answering, distances_to(vector, embedded, answering))


def _key(config: Any) -> Any:
    from history_store.file.codec import config_key

    return config_key(config)


def _table(embedded: "EmbeddedHistory", asked: Sequence[MeasuredQuery]) -> "ErrorTable":
    """Put the queries below the history's datasets."""
    from history_store.error_tables import fill_failed
    from training.evaluation.table import ErrorTable

    known = fill_failed(embedded.errors, embedded.failed)
    known[np.isnan(known).all(axis=1)] = 1.0  # a dataset without runs answers nothing
    return ErrorTable(
        embedded.path.name,
        np.vstack([known, *(query.errors for query in asked)]),
        (*embedded.names, *(f"query {query.label}" for query in asked)),
        (*embedded.groups, *(query.group for query in asked)),
    )


def _task(row: int, query: MeasuredQuery, table: "ErrorTable", embedded: "EmbeddedHistory") -> Any:
    """Show the methods what the history knows of the configurations that were measured on the query."""
    from training.evaluation.methods import TRUE_NORMALISED, Case
    from training.evaluation.replay import Task
    from warmstart.models.evaluate import LEARNED

    measured = ~np.isnan(query.errors)
    shares = (~np.isnan(table.errors[np.ix_(query.rows, measured)])).sum(axis=1) > 0
    answers = query.rows[shares]
    if not len(answers):
        msg = f"{query.label}: expected datasets of {embedded.path} that share a configuration with it, got none. Measure others."
        raise DataError(msg, param="query")
    true = table.true_distances(normalised=True)[row, answers]
    case = Case(
        table.errors[np.ix_(answers, measured)],
        {LEARNED: query.distances[shares], TRUE_NORMALISED: true},
        None,
        groups=tuple(embedded.groups[other] for other in answers),
        calibrations={} if embedded.calibration is None else {LEARNED: embedded.calibration},
    )
    return Task(row, case, query.errors[measured])


def _suggested(query: MeasuredQuery, embedded: "EmbeddedHistory") -> dict[str, Any]:
    """Say what `suggest` would have said, and what came of it where it was measured."""
    from bo.transfer.designs import designs
    from bo.transfer.strategies.noise import USUAL_NOISE
    from history_store.error_tables import fill_failed

    errors = fill_failed(embedded.errors, embedded.failed)[query.rows]
    k, groups = min(SUGGESTED, errors.shape[1]), [embedded.groups[row] for row in query.rows]
    chosen = designs(errors, query.distances, k, calibration=embedded.calibration, groups=groups, noise=USUAL_NOISE)
    came = query.errors[[choice.row for choice in chosen]]
    return {
        "dataset": query.label,
        "measured": int((~np.isnan(query.errors)).sum()),
        "best_error": float(np.nanmin(query.errors)),
        "suggested": [
            {
                "config": dict(embedded.configs[choice.row]),
                "error": None if np.isnan(error) else float(error),
                "rank": None if np.isnan(error) else int((query.errors < error).sum()) + 1,
            }
            for choice, error in zip(chosen, came, strict=True)
        ],
    }


def told(queries: Sequence[dict[str, Any]]) -> list[str]:
    """Say in a line a query what came of what would have been suggested, and how to learn the rest."""
    lines = []
    for query in queries:
        errors = [one["error"] for one in query["suggested"]]
        parts = [
            "not measured" if one["error"] is None else f"{one['error']:.3f} (place {one['rank']})"
            for one in query["suggested"]
        ]
        came = f"suggestions 1 to {len(parts)} reached {', '.join(parts)} of {query['measured']} measured"
        if all(error is None for error in errors):
            came = f"none of suggestions 1 to {len(parts)} is among the {query['measured']} configurations that both have measured"
        step = ""
        if None in errors:
            step = ". Measure what is suggested: `suggest --format json`, then `history collect --first`"
        lines.append(f"{query['dataset']}: {came}, best {query['best_error']:.3f}{step}")
    return lines
