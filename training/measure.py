"""What a collecting worker does: read a dataset from the history, train, tell what came out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from history_store.errors import UsageError, WarmstartError
from history_store.records import Evaluation, Status
from training.budget import Budget
from training.plan import Cell
from training.target_config import TargetConfig

if TYPE_CHECKING:
    import torch

    from training.target import TargetData


@dataclass(frozen=True, slots=True)
class Measured:
    """What a worker hands back.

    Attributes:
        evaluation: of the cell; None where the collection cannot go on.
        note: what happened where the run failed.
        stop: why the collection cannot go on: a history that is gone, say.
    """

    evaluation: Evaluation | None
    note: str = ""
    stop: WarmstartError | None = None


def lost_evaluation(cell: Cell, status: Status, origin: str, *, duration: float = math.nan) -> Evaluation:
    """Record a cell that has no error."""
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
    """Give the wall seconds after which an executor ends a cell whose network should have given up by itself."""
    return 60 + 10 * timeout_s  # for a process that hangs, on a machine that is busy


@dataclass(slots=True)
class Measure:
    """Measures cells in a worker, one thread each; pickled without the dataset that it keeps.

    Attributes:
        history: file that holds the images.
        budget: of every run.
        device: of torch, e.g. ``cpu``, ``cuda:0``; None = the first GPU if there is one, else the CPU.
        timeout_s: seconds of duration after which a run is given up.
        origin: of the evaluations.
    """

    history: Path
    budget: Budget
    device: str | None = None
    timeout_s: float = math.inf
    origin: str = ""
    _kept: dict[str, TargetData] = field(default_factory=dict, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[Measure], tuple[Path, Budget, str | None, float, str]]:
        return Measure, (self.history, self.budget, self.device, self.timeout_s, self.origin)

    def __call__(self, cell: Cell, tell: Callable[[tuple[float, float]], None] | None = None) -> Measured:
        """Measure one cell; whatever happens to the run is an evaluation.

        Args:
            cell: what to measure.
            tell: called with (share of the run that is done, error) along the run; the error is NaN at its begin.
        """
        started = time.perf_counter()
        try:
            return Measured(self._train(cell, tell))
        except WarmstartError as error:
            return Measured(None, stop=error)
        except Exception as error:  # noqa: BLE001  a configuration that breaks is a result
            status = Status.OOM if out_of_memory(error) else Status.CRASHED
            self._kept.clear()
            duration = time.perf_counter() - started
            note = f"{type(error).__name__}: {error}"
            return Measured(lost_evaluation(cell, status, self.origin, duration=duration), note)

    def _train(self, cell: Cell, tell: Callable[[tuple[float, float]], None] | None) -> Evaluation:
        import torch

        from training.target import train_target

        torch.set_num_threads(1)
        if tell is not None:
            tell((0.0, math.nan))
        data = self._data(cell.dataset)
        length = self.budget.length(len(data.images), TargetConfig.of(cell.config).batch_size)
        report = None if tell is None else (lambda step, error: tell((step / length, error)))
        result = train_target(data, cell.config, self.budget, seed=cell.seed, timeout=self.timeout_s, report=report)
        return Evaluation(
            dataset=cell.dataset,
            config=cell.config,
            error=result.error,
            status=result.status,
            duration=result.duration,
            seed=cell.seed,
            curve=result.curve,
            origin=self.origin,
        )

    def _data(self, name: str) -> TargetData:
        if name not in self._kept:
            from history_store.history import History
            from training.target import TargetData

            self._kept.clear()
            with History.open(self.history) as history:
                stored = history.images(name)
                self._kept[name] = TargetData.of(
                    stored.array,
                    stored.labels,
                    stored.split,
                    n_classes=len(stored.class_names),
                    device=open_device(self.device),
                )
        return self._kept[name]


def open_device(name: str | None) -> torch.device:
    """Find a device and touch it.

    Args:
        name: of torch; None = the first GPU if there is one, else the CPU.

    Raises:
        UsageError: when there is none of that name.
    """
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, AssertionError, ValueError) as error:
        msg = f"device: expected one that torch can use here, got {name!r} ({str(error).splitlines()[0]}). Use cpu, cuda or cuda:0."
        raise UsageError(msg) from error
    return device


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out."""
    # By name, so that torch is not loaded for it; torch's CPU allocator raises a plain RuntimeError.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )
