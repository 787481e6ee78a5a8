"""Evaluate suggestions for measured datasets, which the history treats as new."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.error_tables import fill_failed
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.models.evaluation_settings import EvaluationSettings
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.suggestions.records import DatasetSummary
from warmstart.training.evaluation.methods import TRUE_NORMALISED, Case, choose_methods, make_methods
from warmstart.training.evaluation.replay import Outcome, Replay, Task
from warmstart.training.evaluation.report import make_report
from warmstart.training.evaluation.table import ErrorTable

if TYPE_CHECKING:
    from warmstart.models.evaluate import Show
    from warmstart.suggestions.embedded_history import EmbeddedHistory
    from warmstart.suggestions.location import Location


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """A measured dataset with its location in a history.

    Attributes:
        label: name for reports.
        group: its source in the history; its own group if unknown there.
        errors: `c` over the history's configurations, NaN = not measured; a failed run counts as error 1.
        location: among the datasets of other sources and with other images.
    """

    label: str
    group: str
    errors: NDArray[np.float64]
    location: "Location"

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return the rows of these datasets with runs."""
        return self.location.with_runs.rows

    @property
    def distances(self) -> NDArray[np.float64]:
        """Return the model's distances to them."""
        return self.location.with_runs.distances


def evaluate_queries(
    queries: Sequence[str], plan: EvaluationSettings, *, history: Path, model: Path, progress: "Show | None" = None
) -> dict[str, Any]:
    """Compare a history's suggestions for measured datasets with their measured errors.

    Args:
        queries: ``FILE.h5::NAME``, or names of the history's own datasets, on which its model was trained.
        plan: methods, horizon, repeats and seed count; no model is trained.
        history: to suggest from.
        model: of it.
        progress: called with (queries done, queries, name).

    Returns: the report of `warmstart.training.evaluation.report.make_report` on the measured configurations, with `queries`: the
        suggestions and their errors.

    Raises:
        UsageError: an unknown name or method, or a setting without effect here.
        MissingPathError: a file that is not there.
        DataError: no measured configuration that the history has.
        StorageError: a file that cannot be read.
    """
    from warmstart.models.evaluate import LEARNED

    _check_settings(plan)
    embedded = load_embedded_history(history, model, device=plan.device)
    if embedded.model is None:
        msg = f"{history}: expected datasets with images, to compare the query with, got runs alone. Add images: `warmstart history add`."
        raise DataError(msg)
    measured = [_measured_query(query, embedded, device=plan.device) for query in dict.fromkeys(queries)]
    table = _table(embedded, measured)
    methods = choose_methods(make_methods([LEARNED], LEARNED, has_unit=False), plan.methods)
    horizon = min(plan.horizon, max(int((~np.isnan(query.errors)).sum()) for query in measured))
    replay = Replay(methods, horizon, plan.repeats, plan.seed, plan.surrogate)
    matrix = np.full((len(table.datasets),) * 2, np.nan)
    played = []
    for number, query in enumerate(measured):
        row = len(embedded.names) + number
        matrix[row, query.rows] = query.distances
        played.append(replay(_task(row, query, table, embedded)))
        if progress is not None:
            progress(number + 1, len(measured), query.label)
    outcome = Outcome(
        table, "leave-source-out", horizon, plan.repeats, plan.seed, methods, tuple(played), {LEARNED: matrix}
    )
    reference = plan.reference or ("joint" if "joint" in methods else next(iter(methods)))
    report = make_report(outcome, reference=reference)
    suggestions = [_suggestion_outcomes(query, embedded) for query in measured]
    shared = int(np.any([~np.isnan(query.errors) for query in measured], axis=0).sum())
    return {**report, "n_configs": shared, "history": str(embedded.path), "model": str(model), "queries": suggestions}


def _check_settings(plan: EvaluationSettings) -> None:
    """Refuse settings of the evaluation with trained models."""
    from warmstart.models.evaluate import check_trains_nothing

    usual = EvaluationSettings()
    check_trains_nothing(plan, "query")
    chosen = [
        name for name in ("protocol", "only", "surrogate", "workers") if getattr(plan, name) != getattr(usual, name)
    ]
    if chosen:
        msg = "cannot be used with `query`, which uses one process and the whole history."
        raise UsageError(msg, param=chosen[0])


def _measured_query(query: str, embedded: "EmbeddedHistory", *, device: str) -> MeasuredQuery:
    """Read a measured dataset from its file and locate it in the history."""
    file, separator, name = query.rpartition("::")
    is_in_history = not separator or (Path(file).exists() and Path(file).samefile(embedded.path))
    if is_in_history and name not in embedded.names:
        msg = f"expected FILE.h5::NAME, or a dataset of {embedded.path}, got {query!r}. `warmstart history list` shows the names."
        raise UsageError(msg, param="query")
    with History.open(embedded.path if is_in_history else file) as history:
        if name not in history.names:
            msg = f"expected a dataset of {file}, got {name!r}. `warmstart history list` shows the names."
            raise UsageError(msg, param="query")
        row, info, has_images = history.names.index(name), history.dataset(name), history.has_images(name)
        error_of = dict(
            zip(map(config_key, history.configs), fill_failed(history.errors, history.failed)[row], strict=True)
        )
    errors = np.array([error_of.get(config_key(config), np.nan) for config in embedded.configs])
    if np.isnan(errors).all():
        msg = f"{query}: expected runs of configurations that {embedded.path} knows, got none. Measure some of them: `warmstart history collect --first`."
        raise DataError(msg, param="query")
    # Datasets with the same images are the same source, under any name.
    twin_groups = [
        embedded.groups[candidate]
        for candidate, about in enumerate(embedded.about)
        if about.fingerprint and about.fingerprint == info.fingerprint
    ]
    groups = [info.group, *twin_groups] if is_in_history else twin_groups
    location = _locate(name, None if is_in_history and not has_images else query, groups, embedded, device=device)
    return MeasuredQuery(query, groups[0] if groups else f"{info.group} of {file}", errors, location)


def _locate(
    name: str, query: str | None, groups: Sequence[str], embedded: "EmbeddedHistory", *, device: str
) -> "Location":
    """Locate a dataset as `suggest` does; one without images (`query` is None) by its stored embedding."""
    from warmstart.suggestions.advisor import Advisor
    from warmstart.suggestions.location import locate_vector

    assert embedded.model is not None  # noqa: S101  checked above
    if query is not None:
        path = query if "::" in query else f"{embedded.path}::{query}"
        return Advisor(embedded.path, embedded.model.path, exclude_group=groups, device=device).locate(path)
    row = embedded.names.index(name)
    about = embedded.about[row]
    summary = DatasetSummary(name, about.n_images, about.n_classes, about.fingerprint, (about.n_train, about.n_val))
    rows = embedded.rows_without(groups, name)
    return locate_vector(embedded.vectors[row], embedded, rows, query=None, summary=summary, sample=None)


def _table(embedded: "EmbeddedHistory", queries: Sequence[MeasuredQuery]) -> "ErrorTable":
    """Return the error table of the history with the queries as further rows."""
    errors = fill_failed(*embedded.outcomes())
    # Rows without runs are never used.
    errors[np.isnan(errors).all(axis=1)] = 1.0
    return ErrorTable(
        embedded.path.name,
        np.vstack([errors, *(query.errors for query in queries)]),
        (*embedded.names, *(f"query {query.label}" for query in queries)),
        (*embedded.groups, *(query.group for query in queries)),
    )


def _task(row: int, query: MeasuredQuery, table: "ErrorTable", embedded: "EmbeddedHistory") -> Any:
    """Return the replay task of a query: the history's errors of the configurations measured on it."""
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
        groups=tuple(embedded.groups[source] for source in answers),
        calibrations={} if embedded.calibration is None else {LEARNED: embedded.calibration},
    )
    return Task(row, case, query.errors[measured])


def _suggestion_outcomes(query: MeasuredQuery, embedded: "EmbeddedHistory") -> dict[str, Any]:
    """Return the suggestions for a query with their measured errors and ranks."""
    from warmstart.suggestions.advisor import Advisor

    assert embedded.model is not None  # noqa: S101  checked above
    answer = Advisor(embedded.path, embedded.model.path).suggest(query.location)
    error_of = dict(zip(map(config_key, embedded.configs), query.errors.tolist(), strict=True))
    errors = [error_of[config_key(design.config)] for design in answer.suggestions]
    return {
        "dataset": query.label,
        "measured": int((~np.isnan(query.errors)).sum()),
        "best_error": float(np.nanmin(query.errors)),
        "strategy": answer.strategy,
        "reasons": list(answer.confidence.reasons),
        "suggested": [
            {
                "config": dict(design.config),
                "error": None if np.isnan(error) else error,
                "rank": None if np.isnan(error) else int((query.errors < error).sum()) + 1,
            }
            for design, error in zip(answer.suggestions, errors, strict=True)
        ],
    }


def query_lines(queries: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line per query: errors of its suggestions, and how to measure missing ones."""
    lines = []
    for query in queries:
        errors = [suggestion["error"] for suggestion in query["suggested"]]
        parts = [
            "not measured" if suggestion["error"] is None else f"{suggestion['error']:.3f} (place {suggestion['rank']})"
            for suggestion in query["suggested"]
        ]
        outcome = f"suggestions 1 to {len(parts)} reached {', '.join(parts)} of {query['measured']} measured"
        if all(error is None for error in errors):
            outcome = f"none of suggestions 1 to {len(parts)} is among the {query['measured']} configurations that both have measured"
        step = ""
        if None in errors:
            step = ". Measure what is suggested: `suggest --format json`, then `history collect --first`"
        strategy = query.get("strategy", "joint")
        by = "" if strategy == "joint" else f", by strategy {strategy} ({', '.join(query['reasons'])})"
        lines.append(f"{query['dataset']}: {outcome}, best {query['best_error']:.3f}{by}{step}")
    return lines
