"""Evaluation of suggestions for measured datasets: the history treats each as new."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.file.codec import config_key
from warmstart.models.evaluation_settings import EvaluationSettings

if TYPE_CHECKING:
    from warmstart.models.evaluate import Show
    from warmstart.suggestions.embedded_history import EmbeddedHistory
    from warmstart.suggestions.location import Location
    from warmstart.training.evaluation.table import ErrorTable


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """A dataset that was measured, seen from the history that answers.

    Attributes:
        label: name for reports.
        group: its source there; its own where the history does not know it.
        errors: `c` over the history's configurations, NaN = not measured; a run that failed counts as error 1.
        place: where it lies among the datasets that answer: none of its source, none with the same images.
    """

    label: str
    group: str
    errors: NDArray[np.float64]
    place: "Location"

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of the datasets that answer and have runs."""
        return self.place.with_runs.rows

    @property
    def distances(self) -> NDArray[np.float64]:
        """Distances to them, by the model."""
        return self.place.with_runs.distances


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

    Returns: the report of `warmstart.training.evaluation.report.make_report` on the configurations that were measured, with `queries`: what
        `suggest` would have said, and what came of each of it.

    Raises:
        UsageError: a name or a method that is not there, or a setting that says nothing here.
        MissingPathError: a file that is not there.
        DataError: nothing was measured that the history knows.
        StorageError: a file that cannot be read.
    """
    from warmstart.models.evaluate import LEARNED
    from warmstart.suggestions.embedded_history import load_embedded_history
    from warmstart.training.evaluation.methods import choose_methods, make_methods
    from warmstart.training.evaluation.replay import Outcome, Replay
    from warmstart.training.evaluation.report import make_report

    _check_settings(plan)
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


def _check_settings(plan: EvaluationSettings) -> None:
    """Refuse settings of an evaluation that holds datasets out and trains models."""
    from warmstart.models.evaluate import check_trains_nothing

    usual = EvaluationSettings()
    check_trains_nothing(plan, "query")
    chosen = [
        name for name in ("protocol", "only", "surrogate", "workers") if getattr(plan, name) != getattr(usual, name)
    ]
    if chosen:
        msg = (
            "expected none beside `query`, where one process asks the whole history, got one. Leave one of the two out."
        )
        raise UsageError(msg, param=chosen[0])


def _find(query: str, embedded: "EmbeddedHistory", *, device: str) -> MeasuredQuery:
    """Look a measured dataset up in its file, and place it in the history that answers."""
    from warmstart.history_store.error_tables import fill_failed
    from warmstart.history_store.history import History

    file, separator, name = query.rpartition("::")
    is_own = not separator or (Path(file).exists() and Path(file).samefile(embedded.path))
    if is_own and name not in embedded.names:
        msg = f"expected FILE.h5::NAME, or a dataset of {embedded.path}, got {query!r}. `warmstart history list` shows the names."
        raise UsageError(msg, param="query")
    with History.open(embedded.path if is_own else file) as history:
        if name not in history.names:
            msg = f"expected a dataset of {file}, got {name!r}. `warmstart history list` shows the names."
            raise UsageError(msg, param="query")
        row, info, has_images = history.names.index(name), history.dataset(name), history.has_images(name)
        known = dict(
            zip(map(config_key, history.configs), fill_failed(history.errors, history.failed)[row], strict=True)
        )
    errors = np.array([known.get(config_key(config), np.nan) for config in embedded.configs])
    if np.isnan(errors).all():
        msg = f"{query}: expected runs of configurations that {embedded.path} knows, got none. Measure some of them: `warmstart history collect --first`."
        raise DataError(msg, param="query")
    # Known under other names, perhaps: the same images are the same source.
    same = [
        embedded.groups[other]
        for other, about in enumerate(embedded.about)
        if about.fingerprint and about.fingerprint == info.fingerprint
    ]
    groups = [info.group, *same] if is_own else same
    place = _place(name, None if is_own and not has_images else query, groups, embedded, device=device)
    return MeasuredQuery(query, groups[0] if groups else f"{info.group} of {file}", errors, place)


def _place(
    name: str, query: str | None, groups: Sequence[str], embedded: "EmbeddedHistory", *, device: str
) -> "Location":
    """Place a dataset as `suggest` does; one of the history's own without images (`query` is None) by its stored embedding."""
    from warmstart.suggestions.advisor import Advisor
    from warmstart.suggestions.answer import DatasetSummary
    from warmstart.suggestions.location import locate_vector

    assert embedded.model is not None  # noqa: S101  refused above
    if query is not None:
        where = query if "::" in query else f"{embedded.path}::{query}"
        return Advisor(embedded.path, embedded.model.path, exclude_group=groups, device=device).locate(where)
    row = embedded.names.index(name)
    about = embedded.about[row]
    summary = DatasetSummary(name, about.n_images, about.n_classes, about.fingerprint, (about.n_train, about.n_val))
    rows = embedded.rows_without(groups, name)
    return locate_vector(embedded.vectors[row], embedded, rows, query=None, summary=summary, sample=None)


def _table(embedded: "EmbeddedHistory", asked: Sequence[MeasuredQuery]) -> "ErrorTable":
    """Put the queries below the history's datasets."""
    from warmstart.history_store.error_tables import fill_failed
    from warmstart.training.evaluation.table import ErrorTable

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
    from warmstart.models.evaluate import LEARNED
    from warmstart.training.evaluation.methods import TRUE_NORMALISED, Case
    from warmstart.training.evaluation.replay import Task

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
    """Say what `suggest` says, and what came of it where it was measured."""
    from warmstart.suggestions.advisor import Advisor

    assert embedded.model is not None  # noqa: S101  refused above
    answer = Advisor(embedded.path, embedded.model.path).suggest(query.place)
    known = dict(zip(map(config_key, embedded.configs), query.errors.tolist(), strict=True))
    came = [known[config_key(design.config)] for design in answer.suggestions]
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
            for design, error in zip(answer.suggestions, came, strict=True)
        ],
    }


def query_lines(queries: Sequence[dict[str, Any]]) -> list[str]:
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
        strategy = query.get("strategy", "joint")
        by = "" if strategy == "joint" else f", by strategy {strategy} ({', '.join(query['reasons'])})"
        lines.append(f"{query['dataset']}: {came}, best {query['best_error']:.3f}{by}{step}")
    return lines
