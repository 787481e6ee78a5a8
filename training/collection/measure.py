"""Measure a cell in a worker: read the dataset from the history, train, return the evaluation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation, Status
from warmstart.training.collection.plan import Cell
from warmstart.training.processes.memory import out_of_memory
from warmstart.training.workloads import Budget, Prepared, StoredDataset, Workload, get_workload


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of a worker for one cell.

    Attributes:
        evaluation: of the cell; None when the collection cannot go on.
        note: reason of a failure.
        stop: reason why the collection cannot go on, such as a missing history.
    """

    evaluation: Evaluation | None
    note: str = ""
    stop: WarmstartError | None = None


def lost_evaluation(cell: Cell, status: Status, origin: str, *, duration: float = math.nan) -> Evaluation:
    """Return the evaluation of a cell without an error."""
    return Evaluation(
        dataset=cell.dataset,
        config=cell.config,
        error=math.nan,
        status=status,
        duration=duration,
        seed=cell.seed,
        origin=origin,
    )


def limit_of(timeout_s: float) -> float:
    """Return the wall seconds after which an executor ends a cell that outlived its time limit."""
    return 60 + 10 * timeout_s  # generous: only for processes that hang, also on a busy machine


@dataclass(slots=True)
class Measure:
    """Work of a worker: measures one cell at a time on one thread. Pickled without its cached dataset.

    Attributes:
        history: file that holds the images.
        budget: of every run.
        device: of torch, e.g. ``cpu``, ``cuda:0``; None = the first GPU if there is one, else the CPU.
        timeout_s: largest duration of a run, in seconds.
        origin: of the evaluations.
        workload: of the runs.
    """

    history: Path
    budget: Budget
    device: str | None = None
    timeout_s: float = math.inf
    origin: str = ""
    workload: Workload = field(default_factory=get_workload)
    _datasets: dict[str, tuple[Prepared, int]] = field(default_factory=dict, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[Measure], tuple[Path, Budget, str | None, float, str, Workload]]:
        return Measure, (self.history, self.budget, self.device, self.timeout_s, self.origin, self.workload)

    def __call__(self, cell: Cell, tell: Callable[[tuple[float | None, float]], None] | None = None) -> Measured:
        """Measure one cell; a failed run is an evaluation too.

        Args:
            cell: to measure.
            tell: called with (finished share of the run, error) during the run; the error is NaN at the start, the
                share None later if the workload does not know it.
        """
        started = time.perf_counter()
        try:
            return self._train(cell, tell)
        except WarmstartError as error:
            return Measured(None, stop=error)
        except Exception as error:  # noqa: BLE001  a crash is a result
            status = Status.OOM if out_of_memory(error) else Status.CRASHED
            self._datasets.clear()
            duration = time.perf_counter() - started
            note = f"{type(error).__name__}: {error}"
            return Measured(lost_evaluation(cell, status, self.origin, duration=duration), note)

    def _train(self, cell: Cell, tell: Callable[[tuple[float | None, float]], None] | None) -> Measured:
        if not self.workload.is_own:
            import torch

            torch.set_num_threads(1)
        workload, budget = self.workload, self.budget
        if tell is not None:
            tell((0.0, math.nan))
        prepared, n_train = self._prepared(cell.dataset)
        length = workload.steps(budget, config=cell.config, n_train=n_train)

        def report(step: int, error: float) -> None:
            if tell is not None:
                tell((step / length if length else None, error))

        result = prepared.train(cell.config, seed=cell.seed, budget=budget, report=report, timeout_s=self.timeout_s)
        evaluation = Evaluation(
            dataset=cell.dataset,
            config=cell.config,
            error=result.error,
            status=result.status,
            duration=result.duration,
            seed=cell.seed,
            curve=result.curve,
            origin=self.origin,
        )
        return Measured(evaluation, result.note)

    def _prepared(self, name: str) -> tuple[Prepared, int]:
        """Return a prepared dataset, and the number of its training images."""
        if name not in self._datasets:
            self._datasets.clear()
            with History.open(self.history) as history:
                dataset = StoredDataset(history.images(name))
                prepared = self.workload.prepare(dataset, device=self.device)
                self._datasets[name] = prepared, len(dataset.rows("train"))
        return self._datasets[name]
