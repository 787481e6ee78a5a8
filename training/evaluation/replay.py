"""Replay of a table: every method chooses for every held-out dataset, and its choices are looked up.

An answer depends on the table, the seed and the method's name alone: not on the other methods, nor on which datasets
are evaluated, nor on the number of workers.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

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
"""The regret to reach."""
CHEAP = 10
"""A random design without a search is drawn so many times as often as a search is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Who is held out, and how long and how often the methods search.

    Attributes:
        protocol: who is held out.
        horizon: evaluations a dataset; at most all configurations.
        repeats: of searches; random designs are drawn ten times as often.
        seed: of everything random.
        only: datasets to ask; none = all. All others answer all the same.
        workers: processes.
        surrogate: of the searches, a name that `warmstart.bo.search.search_table` knows.
    """

    protocol: Protocol
    horizon: int = 20
    repeats: int = 5
    seed: int = 0
    only: Sequence[str] = ()
    workers: int = 1
    surrogate: str = "gp"

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: when one is below 1.
        """
        for name in ("horizon", "repeats", "workers"):
            if getattr(self, name) < 1:
                msg = f"expected at least 1, got {getattr(self, name)}. Leave it out for the default."
                raise UsageError(msg, param=name)


@dataclass(frozen=True, slots=True)
class Task:
    """One held-out dataset.

    Attributes:
        row: of the dataset in the table.
        case: what the methods may know.
        errors: `c` of its own, looked up and told to searches; NaN = failed.
    """

    row: int
    case: Case
    errors: Matrix


@dataclass(frozen=True, slots=True)
class Played:
    """What the methods' choices were worth on one dataset.

    Attributes:
        row: of the dataset in the table.
        curves: by method, `repeats x horizon` normalised regret; of `random` its expectation.
        evaluations: by method, mean number of evaluations to regret ≤ 0.05; horizon + 1 where it is not reached.
        promised: by method that promises something, `horizon` regrets expected before any was seen.
    """

    row: int
    curves: Mapping[str, Matrix]
    evaluations: Mapping[str, float]
    promised: Mapping[str, Matrix] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an evaluation.

    Attributes:
        table: what was replayed.
        protocol: who was held out.
        horizon: evaluations a dataset; `repeats` of what is random; `seed` of all of it.
        methods: by name.
        played: in the order of the table's datasets, those asked.
        distances: by metric, `m x m` as `warmstart.training.evaluation.metrics.query_distances` gives them.
    """

    table: ErrorTable
    protocol: Protocol
    horizon: int
    repeats: int
    seed: int
    methods: Mapping[str, Method]
    played: tuple[Played, ...]
    distances: Mapping[str, Matrix]


@dataclass(frozen=True, slots=True)
class Replay:
    """Plays every method on a task; what a worker is given once.

    Attributes:
        methods: by name.
        horizon: evaluations; `repeats` of searches; `seed` of all of it.
        surrogate: of the searches.
    """

    methods: Mapping[str, Method]
    horizon: int
    repeats: int
    seed: int
    surrogate: str

    def __call__(self, task: Task) -> Played:
        """Run every method on one task, on one BLAS thread."""
        curves: dict[str, Matrix] = {}
        evaluations: dict[str, float] = {}
        promised: dict[str, Matrix] = {}
        horizon = min(self.horizon, len(task.errors))
        pad = self.horizon - horizon  # once all is measured, the best is known
        with one_thread():
            wanted = {method.metric for method in self.methods.values() if method.is_calibrated and method.metric}
            case = task.case.calibrated(sorted(wanted))
            for name, method in self.methods.items():
                if method.design is None:
                    curves[name] = np.pad(random_curve(task.errors, horizon)[None], ((0, 0), (0, pad)), mode="edge")
                    evaluations[name] = expected_evaluations(task.errors, horizon, goal=GOAL)
                    continue
                played = list(self._play(name, method, replace(task, case=case), horizon))
                curves[name] = np.array(
                    [np.pad(regret_curve(task.errors, rows), (0, pad), mode="edge") for rows in played]
                )
                if method.search_after is None and method.is_calibrated and (method.metric or "") in case.calibrations:
                    promised[name] = np.pad(case.promise(method.metric or "", played[0]), (0, pad), mode="edge")
                evaluations[name] = float(np.mean(np.sum(curves[name] > GOAL, axis=1) + 1))
        return Played(task.row, curves, evaluations, promised)

    def _play(self, name: str, method: Method, task: Task, horizon: int) -> Iterator[Sequence[int]]:
        """Return the rows of each repeat, in order of evaluation."""
        assert method.design is not None  # noqa: S101  not asked for chance itself
        searches = method.search_after is not None
        n = self.repeats if searches else self.repeats * CHEAP if method.is_random else 1
        for repeat in range(n):
            rng = np.random.default_rng([self.seed, zlib.crc32(name.encode()), task.row, repeat])
            count = horizon if method.search_after is None else min(method.search_after, horizon)
            rows = method.design(task.case, count, rng)
            if searches:
                from warmstart.bo.search import search_table

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
    """Hold every dataset out by the protocol, and run every method on it.

    Args:
        table: of errors.
        methods: by name, see `warmstart.training.evaluation.methods.make_methods`.
        metrics: by the names that the methods use; the oracles' is added.
        settings: who is held out, and how long and how often the methods search.
        progress: called with (datasets done, datasets, name of the last).

    Raises:
        UsageError: an unknown name, or numbers out of range.
        DataError: nothing is left to answer, or a distance is no number.
        AllTrialsFailedError: workers died.
    """
    unknown = [name for name in settings.only if name not in table.datasets]
    if unknown:
        msg = f"expected datasets of {table.name}, got {', '.join(unknown)}. It has {', '.join(table.datasets)}."
        raise UsageError(msg, param="only")
    every = folds(settings.protocol, table.datasets, table.groups)
    asked = {**metrics, TRUE_NORMALISED: given_metric(table.true_distances(normalised=True))}
    rows = [row for row, name in enumerate(table.datasets) if not settings.only or name in settings.only]
    seen = {name: query_distances(metric, every, of=rows, name=name) for name, metric in asked.items()}
    calibrated = {method.metric for method in methods.values() if method.is_calibrated}
    known = table.known_errors()
    between = {name: metric for name, metric in asked.items() if name in calibrated}
    tasks = _tasks(table, known, every, seen, between, settings.only)
    total = len(set(settings.only)) or len(table.datasets)
    horizon = min(settings.horizon, table.errors.shape[1])
    replay = Replay(methods, horizon, settings.repeats, settings.seed, settings.surrogate)
    played = []
    for done in _run(replay, tasks, min(settings.workers, total)):
        played.append(done)
        if progress is not None:
            progress(len(played), total, table.datasets[done.row])
    ordered = tuple(sorted(played, key=lambda one: one.row))
    given = {name: seen[name] for name in metrics}
    return Outcome(table, settings.protocol, horizon, settings.repeats, settings.seed, methods, ordered, given)


def _tasks(
    table: ErrorTable,
    known: Matrix,
    every: Sequence[Fold],
    seen: Mapping[str, Matrix],
    between: Mapping[str, Metric],
    only: Sequence[str],
) -> Iterator[Task]:
    """Ask each dataset about the configurations that were measured on it, and give it what it may know of them."""
    for fold in every:
        rows = [row for row in fold.queries.tolist() if not only or table.datasets[row] in only]
        answering = np.ix_(fold.history, fold.history)
        inner = {name: metric(fold)[answering] for name, metric in between.items()} if rows else {}
        for row in rows:
            measured = ~np.isnan(known[row])
            shares = ~np.isnan(known[np.ix_(fold.history, measured)]).all(axis=1)
            answers = fold.history[shares]
            if not len(answers):
                msg = f"evaluate: expected other datasets that share a configuration with {table.datasets[row]}, got none. Measure shared ones, or leave it out with `only`."
                raise DataError(msg)
            case = Case(
                known[np.ix_(answers, measured)],
                {name: matrix[row, answers] for name, matrix in seen.items()},
                None if table.unit is None else table.unit[measured],
                {name: matrix[np.ix_(shares, shares)] for name, matrix in inner.items()},
                tuple(table.groups[other] for other in answers),
            )
            yield Task(row, case, table.errors[row, measured])


def _run(replay: Replay, tasks: Iterator[Task], workers: int) -> Iterator[Played]:
    """Play here, or in processes of their own; in any order."""
    if workers == 1:
        yield from map(replay, tasks)
        return
    for done in LocalExecutor(workers).run(replay, tasks):
        if done.result is None:
            msg = f"evaluate: expected an answer for every dataset, got none for row {done.task.row}: {done.note}. Use `workers` 1 to see why."
            raise AllTrialsFailedError(msg)
        yield done.result
