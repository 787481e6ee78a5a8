"""Replay of a table: every method chooses configurations for every held-out dataset, and their errors are looked up.

A result depends on the table, the seed and the method's name alone, not on the other methods, the evaluated datasets or
the number of workers.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.search import search_table
from warmstart.bo.transfer.regret import expected_evaluations, random_curve, regret_curve
from warmstart.history_store.errors import AllTrialsFailedError, DataError, UsageError
from warmstart.history_store.one_thread import one_thread
from warmstart.training.evaluation.methods import TRUE_NORMALISED, Case, Method
from warmstart.training.evaluation.metrics import Metric, given_metric, query_distances
from warmstart.training.evaluation.protocol import Fold, Protocol, folds
from warmstart.training.evaluation.table import ErrorTable
from warmstart.training.processes.executor import LocalExecutor

Matrix = NDArray[np.float64]
GOAL = 0.05
"""Regret to reach."""
CHEAP = 10
"""Draws of a random design for each repeat of a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Settings of a replay.

    Attributes:
        protocol: of the folds.
        horizon: evaluations of each dataset, at most all configurations.
        repeats: of searches; random designs are drawn ten times as often.
        seed: of everything random.
        only: datasets to evaluate; empty = all. The others stay in the history.
        workers: processes.
        surrogate: of the searches, a name for `warmstart.bo.search.search_table`.
    """

    protocol: Protocol
    horizon: int = 20
    repeats: int = 5
    seed: int = 0
    only: Sequence[str] = ()
    workers: int = 1
    surrogate: str = "gp"

    def __post_init__(self) -> None:
        """Check that horizon, repeats and workers are at least 1.

        Raises:
            UsageError: when a number is below 1.
        """
        for name in ("horizon", "repeats", "workers"):
            if getattr(self, name) < 1:
                msg = f"expected at least 1, got {getattr(self, name)}. Leave it out for the default."
                raise UsageError(msg, param=name)


@dataclass(frozen=True, slots=True)
class Task:
    """One held-out dataset, on which methods choose configurations.

    Attributes:
        row: of the dataset in the table.
        case: inputs of the methods.
        errors: `c` of the dataset, looked up and told to searches; NaN = failed.
    """

    row: int
    case: Case
    errors: Matrix


@dataclass(frozen=True, slots=True)
class DatasetResult:
    """Results of the methods on one dataset.

    Attributes:
        row: of the dataset in the table.
        curves: by method, `repeats x horizon` normalised regret; of `random` its expectation.
        evaluations: by method, mean number of evaluations to regret ≤ 0.05; horizon + 1 if not reached.
        promised: by method with a promise, `horizon` regrets expected before any evaluation.
    """

    row: int
    curves: Mapping[str, Matrix]
    evaluations: Mapping[str, float]
    promised: Mapping[str, Matrix] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of an evaluation.

    Attributes:
        table: of errors.
        protocol: of the folds.
        horizon: evaluations of each dataset.
        repeats: of searches.
        seed: of everything random.
        methods: by name.
        results: of the evaluated datasets, in the order of the table.
        distances: by metric, `m x m`, outputs of `warmstart.training.evaluation.metrics.query_distances`.
    """

    table: ErrorTable
    protocol: Protocol
    horizon: int
    repeats: int
    seed: int
    methods: Mapping[str, Method]
    results: tuple[DatasetResult, ...]
    distances: Mapping[str, Matrix]


@dataclass(frozen=True, slots=True)
class Replay:
    """Work of a worker: runs every method on a task.

    Attributes:
        methods: by name.
        horizon: evaluations of each dataset.
        repeats: of searches.
        seed: of everything random.
        surrogate: of the searches.
    """

    methods: Mapping[str, Method]
    horizon: int
    repeats: int
    seed: int
    surrogate: str

    def __call__(self, task: Task) -> DatasetResult:
        """Run every method on one task, on one BLAS thread."""
        curves: dict[str, Matrix] = {}
        evaluations: dict[str, float] = {}
        promised: dict[str, Matrix] = {}
        horizon = min(self.horizon, len(task.errors))
        pad = self.horizon - horizon  # after all configurations the regret stays 0
        with one_thread():
            needed = {method.metric for method in self.methods.values() if method.is_calibrated and method.metric}
            case = task.case.calibrated(sorted(needed))
            for name, method in self.methods.items():
                if method.design is None:
                    curves[name] = np.pad(random_curve(task.errors, horizon)[None], ((0, 0), (0, pad)), mode="edge")
                    evaluations[name] = expected_evaluations(task.errors, horizon, goal=GOAL)
                    continue
                repeats = list(self._play(name, method, replace(task, case=case), horizon))
                curves[name] = np.array(
                    [np.pad(regret_curve(task.errors, rows), (0, pad), mode="edge") for rows in repeats]
                )
                if method.search_after is None and method.is_calibrated and (method.metric or "") in case.calibrations:
                    promised[name] = np.pad(case.promise(method.metric or "", repeats[0]), (0, pad), mode="edge")
                evaluations[name] = float(np.mean(np.sum(curves[name] > GOAL, axis=1) + 1))
        return DatasetResult(task.row, curves, evaluations, promised)

    def _play(self, name: str, method: Method, task: Task, horizon: int) -> Iterator[Sequence[int]]:
        """Return the rows of each repeat, in order of evaluation."""
        assert method.design is not None  # noqa: S101  `random` has none and is not played
        searches = method.search_after is not None
        n = self.repeats if searches else self.repeats * CHEAP if method.is_random else 1
        for repeat in range(n):
            rng = np.random.default_rng([self.seed, zlib.crc32(name.encode()), task.row, repeat])
            count = horizon if method.search_after is None else min(method.search_after, horizon)
            rows = method.design(task.case, count, rng)
            if searches:
                assert task.case.unit is not None  # noqa: S101  `make_methods` leaves searches out without
                rows = search_table(
                    task.case.unit,
                    task.errors,
                    initial=rows,
                    t=horizon,
                    rng=rng,
                    surrogate=self.surrogate,
                    acquisition=method.acquisition,
                )
            yield rows


def evaluate(
    table: ErrorTable,
    methods: Mapping[str, Method],
    *,
    metrics: Mapping[str, Metric],
    settings: ReplaySettings,
    progress: Callable[[int, int, str], None] | None = None,
) -> Outcome:
    """Run every method on every held-out dataset of the protocol.

    Args:
        table: of errors.
        methods: by name, see `warmstart.training.evaluation.methods.make_methods`.
        metrics: by the names that the methods use; the metric of the oracles is added.
        settings: of the replay.
        progress: called with (finished datasets, all datasets, name of the last).

    Raises:
        UsageError: when a name is unknown, or a number is out of range.
        DataError: when a fold holds out all datasets, or a distance is no number.
        AllTrialsFailedError: when workers died.
    """
    unknown = [name for name in settings.only if name not in table.datasets]
    if unknown:
        msg = f"expected datasets of {table.name}, got {', '.join(unknown)}. It has {', '.join(table.datasets)}."
        raise UsageError(msg, param="only")
    all_folds = folds(settings.protocol, table.datasets, table.groups)
    all_metrics = {**metrics, TRUE_NORMALISED: given_metric(table.true_distances(normalised=True))}
    rows = [row for row, name in enumerate(table.datasets) if not settings.only or name in settings.only]
    distances = {name: query_distances(metric, all_folds, of=rows, name=name) for name, metric in all_metrics.items()}
    calibrated = {method.metric for method in methods.values() if method.is_calibrated}
    errors = table.known_errors()
    between = {name: metric for name, metric in all_metrics.items() if name in calibrated}
    tasks = _tasks(table, errors, all_folds, distances, between, settings.only)
    total = len(set(settings.only)) or len(table.datasets)
    horizon = min(settings.horizon, table.errors.shape[1])
    replay = Replay(methods, horizon, settings.repeats, settings.seed, settings.surrogate)
    results = []
    for result in _run(replay, tasks, min(settings.workers, total)):
        results.append(result)
        if progress is not None:
            progress(len(results), total, table.datasets[result.row])
    ordered = tuple(sorted(results, key=lambda one: one.row))
    reported = {name: distances[name] for name in metrics}
    return Outcome(table, settings.protocol, horizon, settings.repeats, settings.seed, methods, ordered, reported)


def _tasks(
    table: ErrorTable,
    errors: Matrix,
    all_folds: Sequence[Fold],
    distances: Mapping[str, Matrix],
    between: Mapping[str, Metric],
    only: Sequence[str],
) -> Iterator[Task]:
    """Yield the task of each evaluated dataset, over its measured configurations."""
    for fold in all_folds:
        rows = [row for row in fold.queries.tolist() if not only or table.datasets[row] in only]
        answering = np.ix_(fold.history, fold.history)
        inner = {name: metric(fold)[answering] for name, metric in between.items()} if rows else {}
        for row in rows:
            measured = ~np.isnan(errors[row])
            shares = ~np.isnan(errors[np.ix_(fold.history, measured)]).all(axis=1)
            answers = fold.history[shares]
            if not len(answers):
                msg = f"evaluate: expected other datasets that share a configuration with {table.datasets[row]}, got none. Measure shared ones, or leave it out with `only`."
                raise DataError(msg)
            case = Case(
                errors[np.ix_(answers, measured)],
                {name: matrix[row, answers] for name, matrix in distances.items()},
                None if table.unit is None else table.unit[measured],
                {name: matrix[np.ix_(shares, shares)] for name, matrix in inner.items()},
                tuple(table.groups[answer] for answer in answers),
            )
            yield Task(row, case, table.errors[row, measured])


def _run(replay: Replay, tasks: Iterator[Task], workers: int) -> Iterator[DatasetResult]:
    """Run tasks in this process or in workers; results come in any order."""
    if workers == 1:
        yield from map(replay, tasks)
        return
    for ended in LocalExecutor(workers).run(replay, tasks):
        if ended.result is None:
            msg = f"evaluate: expected an answer for every dataset, got none for row {ended.task.row}: {ended.note}. Use `workers` 1 to see why."
            raise AllTrialsFailedError(msg)
        yield ended.result
