"""One worker of a study: take a trial, run it, tell what came of it, until there is nothing left to do."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from training.budget import COMPACT
from warmstart.studies.kinds import load_objective
from warmstart.studies.ledger import Ledger, open_ledger
from warmstart.studies.objective import Objective
from warmstart.studies.plan import Plan
from warmstart.studies.runner import TrialRunner
from warmstart.studies.storage import open_store

WAIT_S = 0.3
"""Between two looks for a trial while the last ones run elsewhere."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one call of a study may spend; not part of its plan.

    Attributes:
        trials: that the study shall have.
        until: `time.monotonic` after which no trial begins, on this machine.
        trial_timeout: wall seconds of a trial.
        trial_memory: bytes of memory of a trial; None = any.
    """

    trials: float = math.inf
    until: float = math.inf
    trial_timeout: float = math.inf
    trial_memory: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """All that another process needs to work on a study.

    Attributes:
        storage: as `open_store` takes it.
        study: its name.
        limits: of this call.
        objective: where the plan alone cannot make it: a function that has no name to import it by.
        log: file for what the trials print.
    """

    storage: str
    study: str
    limits: Limits
    objective: Objective | None = None
    log: Path | None = None

    def __call__(self) -> None:
        """Work until there is nothing left to do; raises as `work` and `open_ledger`."""
        with open_ledger(open_store(self.storage), self.study) as ledger:
            objective = self.objective or objective_of(ledger.plan)
            work(ledger, objective, self.limits, log=self.log)


def objective_of(plan: Plan) -> Objective:
    """Make the objective of a plan.

    Raises:
        UsageError: when it is not here.
    """
    from history_store.space import load_space

    return load_objective(
        plan.objective.get("function"),
        names=list(load_space(plan.space)),
        command=plan.objective.get("command"),
        dataset=plan.dataset,
        target_budget=plan.objective.get("target_budget") or COMPACT.name,
        device=plan.device,
        folder=Path(plan.folder),
    )


def work(
    ledger: Ledger,
    objective: Objective,
    limits: Limits,
    *,
    log: Path | None = None,
    ended: Callable[[], object] = lambda: None,
) -> None:
    """Run trials until the study has as many as wanted, or the time is up.

    Args:
        ledger: of the study.
        objective: what is evaluated.
        limits: of this call.
        log: file for what the trials print.
        ended: called after each trial of this worker.

    Raises:
        UsageError: when the objective cannot be loaded; no trial was begun then.
        StorageError: when the storage does not answer; what was told stays.
    """
    with TrialRunner(objective, log=log) as runner:
        while time.monotonic() < limits.until:
            run = ledger.next(limits.trials)
            if run is None:
                return
            if run == "wait":
                time.sleep(WAIT_S)
                continue
            outcome = runner.run(
                run.config,
                seed=run.seed,
                budget=ledger.plan.budget,
                report=lambda step, error, run=run: ledger.report(run, step, error),  # type: ignore[misc]
                timeout=limits.trial_timeout,
                memory=limits.trial_memory,
            )
            ledger.end(run, outcome)
            ended()
