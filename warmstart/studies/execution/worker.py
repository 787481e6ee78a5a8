"""Worker of one study, or of several: take a trial, run it, store the outcome, until none is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from warmstart.history_store.space import load_space
from warmstart.studies.execution.first_failures import ALIKE, fail_alike
from warmstart.studies.execution.pace import Pace
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.base import Objective, Outcome
from warmstart.studies.objectives.load import load_objective, without_broken
from warmstart.studies.objectives.measured import with_metric
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.study_group import StudyGroup
from warmstart.studies.state.trial_queue import Run, TrialQueue, Wait
from warmstart.training.workloads import DEFAULT

WAIT_S = 0.3
"""Between two looks for a trial while the last ones run elsewhere."""
KEPT = 4
"""Processes of objectives that stay while others run: each holds what it loaded."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one call of a study may spend; not part of its plan.

    Attributes:
        trials: that the study shall have.
        until: `time.monotonic` after which no trial begins, on this machine.
        trial_timeout: wall seconds of a trial.
        trial_memory: bytes of memory of a trial; None = any.
        pace: chooses what ends in time, where the call has one in which all of it is over.
    """

    trials: float = math.inf
    until: float = math.inf
    trial_timeout: float = math.inf
    trial_memory: int | None = None
    pace: Pace | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """All that another process needs to work on a study.

    Attributes:
        storage: as `open_store` takes it.
        studies: their names; several are tuned together.
        limits: of this call.
        objectives: one a study, where the plans alone cannot make them: a function that has no name to import it by.
        log: file for what the trials print.
    """

    storage: str
    studies: tuple[str, ...]
    limits: Limits
    objectives: tuple[Objective, ...] = ()
    log: Path | None = None

    def __call__(self) -> None:
        """Work until there is nothing left to do; raises as `work` and `open_queue`."""
        with StudyGroup.open(open_store(self.storage), self.studies) as group:
            objectives = self.objectives or [objective_of(queue.plan) for queue in group.queues]
            work(group, objectives, self.limits, log=self.log)


def objective_of(plan: StudySpec) -> Objective:
    """Make the objective of a plan.

    Raises:
        UsageError: when it is not here.
    """
    found = load_objective(
        plan.objective.get("function"),
        names=list(load_space(plan.space)),
        command=plan.objective.get("command"),
        dataset=plan.dataset,
        workload=plan.workload or DEFAULT,
        target_budget=plan.objective.get("target_budget"),
        device=plan.device,
        folder=Path(plan.folder),
    )
    return with_metric(without_broken(found) if plan.skip_broken else found, plan.measure)


def work(
    group: StudyGroup,
    objectives: Sequence[Objective],
    limits: Limits,
    *,
    log: Path | None = None,
    ended: Callable[[], object] = lambda: None,
    begun: Callable[[], object] = lambda: None,
    reported: Callable[[], object] = lambda: None,
    runners: Runners | None = None,
) -> None:
    """Run trials until the studies have as many as wanted, the time is up, or the first ones show that the objective fails.

    Args:
        group: the studies.
        objectives: what is evaluated, one a study.
        limits: of this call.
        log: file for what the trials print.
        ended: called after each trial of this worker.
        begun: called when a trial of this worker begins.
        reported: called when it reports.
        runners: of the objectives, with what they loaded; None = they are started here.

    Raises:
        UsageError: when the objective cannot be loaded; no trial was begun then.
        StorageError: when the storage does not answer; what was told stays.
    """
    with ExitStack() as stack:
        runners = runners or Runners(objectives, log, stack)
        if limits.pace is not None:
            _keep_to(limits.pace, group)
        first: list[Outcome] = []
        while time.monotonic() < limits.until:
            chosen = _next(group, limits)
            if chosen is None:
                return
            if chosen == "wait":
                time.sleep(WAIT_S)
                continue
            i, run = chosen
            outcome = _evaluated(group.queues[i], run, runners[i], limits, begun=begun, reported=reported)
            group.queues[i].end(run, outcome)
            ended()
            if len(first) < ALIKE:
                first.append(outcome)
                if len(first) == ALIKE and _is_broken(first, group):
                    return


def _evaluated(
    queue: TrialQueue,
    run: Run,
    runner: TrialRunner,
    limits: Limits,
    *,
    begun: Callable[[], object],
    reported: Callable[[], object],
) -> Outcome:
    """Run a trial, and give what came of it."""
    paced = None if limits.pace is None else limits.pace.watch(queue, load_space(queue.plan.space), run)
    begun()

    def report(step: float, error: float) -> bool:
        stop = queue.report(run, step, error)
        reported()
        return stop or (paced is not None and paced.report(step))

    outcome = runner.run(
        run.config,
        seed=run.seed,
        budget=queue.plan.budget,
        report=report,
        timeout=limits.trial_timeout if paced is None else min(limits.trial_timeout, paced.seconds),
        memory=limits.trial_memory,
        title=f"{queue.name}, trial {run.number}",
    )
    return outcome if paced is None else paced.ended(outcome, timeout=limits.trial_timeout)


def _is_broken(first: Sequence[Outcome], group: StudyGroup) -> bool:
    """Tell whether the first trials of a worker failed alike, and the studies have none that gave an error."""
    return fail_alike((each.status, each.note) for each in first) and not group.has_error()


def _next(group: StudyGroup, limits: Limits) -> tuple[int, Run] | Wait | None:
    """Choose a trial; none where the choice took all the time that was left: then it is kept for another call."""
    began = time.monotonic()
    chosen = group.next(limits.trials)
    if limits.pace is None or chosen is None or chosen == "wait":
        return chosen
    limits.pace.choices.append(time.monotonic() - began)
    if limits.pace.left > 0:
        return chosen
    i, run = chosen
    group.queues[i].let_go(run)
    return None


def _keep_to(pace: Pace, group: StudyGroup) -> None:
    """Let studies choose from now on what ends in time, by what it promises per second."""
    for queue in group.queues:
        queue.choose_among(partial(pace.fits, queue, load_space(queue.plan.space)))


class Runners:
    """The processes of several objectives; each has loaded its own once, and the latest few stay."""

    def __init__(self, objectives: Sequence[Objective], log: Path | None, stack: ExitStack) -> None:
        """Start all in turn, so that one that cannot be loaded is told of before any trial.

        Args:
            objectives: of the runners.
            log: of their trials.
            stack: ends those that are left.

        Raises:
            UsageError: when an objective cannot be loaded.
        """
        self._objectives, self._log = objectives, log
        self._started: dict[int, tuple[TrialRunner, ExitStack]] = {}
        self._stack = stack
        for i in range(len(objectives)):
            self[i]

    def __getitem__(self, i: int) -> TrialRunner:
        """Return the runner of an objective, started anew where it was ended for others."""
        found = self._started.pop(i, None)
        if found is None:
            if len(self._started) == KEPT:
                self._started.pop(next(iter(self._started)))[1].close()
            life = self._stack.enter_context(ExitStack())
            found = life.enter_context(TrialRunner(self._objectives[i], log=self._log)), life
        self._started[i] = found  # the latest is the last
        return found[0]
