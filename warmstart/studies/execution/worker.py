"""Worker of one or several studies: take a trial, run it, store the outcome, until none is left."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from warmstart.history_store.space import load_space
from warmstart.studies.execution.pace import Pace
from warmstart.studies.execution.tracking import Trackers
from warmstart.studies.execution.trial_folder import NO_OUTPUTS, TrialFolder, TrialOutputs
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.base import Objective, Outcome, TrialStatus
from warmstart.studies.objectives.load import load_objective, without_broken
from warmstart.studies.objectives.measured import with_metric
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.study_group import StudyGroup
from warmstart.studies.state.trial_queue import Run, TrialQueue, Wait
from warmstart.training.workloads import DEFAULT

WAIT_S = 0.3
"""Seconds between two looks for a trial while the last ones run elsewhere."""
MAX_RUNNING = 4
"""Processes of objectives at most: each holds its loaded data."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one call; not part of the study's plan.

    Attributes:
        trials: of the study, in all.
        until: `time.monotonic` after which no trial begins, on this machine.
        trial_timeout: wall seconds of a trial.
        trial_memory: bytes of memory of a trial; None = any.
        pace: of a call with a time limit; chooses configurations that end in time.
    """

    trials: float = math.inf
    until: float = math.inf
    trial_timeout: float = math.inf
    trial_memory: int | None = None
    pace: Pace | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """The picklable job of a worker process.

    Attributes:
        storage: name for `open_store`.
        studies: their names; several are tuned together.
        limits: of this call.
        objectives: one a study; empty = made from the plans, which is impossible for a function without an importable
            name.
        outputs: where the trials write.
    """

    storage: str
    studies: tuple[str, ...]
    limits: Limits
    objectives: tuple[Objective, ...] = ()
    outputs: TrialOutputs = NO_OUTPUTS

    def __call__(self) -> None:
        """Work until no trial is left; raises as `work` and `open_queue`."""
        with StudyGroup.open(open_store(self.storage), self.studies) as group:
            objectives = self.objectives or [objective_of(queue.plan) for queue in group.queues]
            work(group, objectives, self.limits, outputs=self.outputs)


def objective_of(plan: StudySpec) -> Objective:
    """Load the objective of a plan.

    Raises:
        UsageError: it cannot be loaded on this machine.
    """
    objective = load_objective(
        plan.objective.get("function"),
        names=list(load_space(plan.space)),
        command=plan.objective.get("command"),
        dataset=plan.dataset,
        workload=plan.workload or DEFAULT,
        target_budget=plan.objective.get("target_budget"),
        device=plan.device,
        folder=Path(plan.folder),
    )
    return with_metric(without_broken(objective, plan.skip_broken), plan.measure)


def work(
    group: StudyGroup,
    objectives: Sequence[Objective],
    limits: Limits,
    *,
    outputs: TrialOutputs = NO_OUTPUTS,
    on_end: Callable[[], object] = lambda: None,
    on_begin: Callable[[], object] = lambda: None,
    on_report: Callable[[], object] = lambda: None,
    runners: Runners | None = None,
) -> None:
    """Run trials until the studies have enough, the time is over, or the first trials show that the objective fails.

    Args:
        group: the studies.
        objectives: one a study.
        limits: of this call.
        outputs: where the trials write.
        on_end: called after each trial of this worker.
        on_begin: called when a trial of this worker begins.
        on_report: called when a trial of this worker reports.
        runners: of the objectives, already loaded; None = started here.

    Raises:
        UsageError: the objective cannot be loaded; then no trial was begun.
        StorageError: the storage does not answer; earlier outcomes stay.
    """
    with ExitStack() as stack:
        runners = runners or Runners(objectives, outputs.log, stack)
        trackers = stack.enter_context(Trackers(outputs.tracking))
        if limits.pace is not None:
            _restrict_to_pace(limits.pace, group)
        first: list[Outcome] = []
        while time.monotonic() < limits.until:
            chosen = _next(group, limits)
            if chosen is None:
                return
            if chosen == "wait":
                time.sleep(WAIT_S)
                continue
            i, run = chosen
            queue = group.queues[i]
            folder = outputs.make_folder(queue.name, run.number, run.seed, run.config)
            outcome = _run_trial(
                queue, run, runners[i], limits, folder=folder, trackers=trackers, on_begin=on_begin, on_report=on_report
            )
            queue.end(run, outcome)
            trackers.end(outcome)
            on_end()
            if len(first) < ALIKE:
                first.append(outcome)
                if len(first) == ALIKE and _is_broken(first, group):
                    return


def _run_trial(
    queue: TrialQueue,
    run: Run,
    runner: TrialRunner,
    limits: Limits,
    *,
    folder: TrialFolder | None,
    trackers: Trackers,
    on_begin: Callable[[], object],
    on_report: Callable[[], object],
) -> Outcome:
    """Run a trial, and return its outcome."""
    paced = None if limits.pace is None else limits.pace.watch(queue, load_space(queue.plan.space), run)
    on_begin()
    trackers.begin(queue.name, queue.plan, run)

    def report(step: float, error: float) -> bool:
        stop = queue.report(run, step, error)
        trackers.report(step, error)
        on_report()
        return stop or (paced is not None and paced.report(step))

    outcome = runner.run(
        run.config,
        seed=run.seed,
        budget=queue.plan.budget,
        report=report,
        timeout=limits.trial_timeout if paced is None else min(limits.trial_timeout, paced.seconds),
        memory=limits.trial_memory,
        title=f"{queue.name}, trial {run.number}",
        folder=folder,
    )
    return outcome if paced is None else paced.final_outcome(outcome, timeout=limits.trial_timeout)


def _is_broken(first: Sequence[Outcome], group: StudyGroup) -> bool:
    """Tell whether the first trials of a worker failed alike, and no trial of the studies has an error."""
    return fail_alike((outcome.status, outcome.note) for outcome in first) and not group.has_error()


def _next(group: StudyGroup, limits: Limits) -> tuple[int, Run] | Wait | None:
    """Choose a trial; None if the choice took the rest of the time: then the trial is left for another call."""
    began = time.monotonic()
    chosen = group.next(limits.trials)
    if limits.pace is None or chosen is None or chosen == "wait":
        return chosen
    limits.pace.choices.append(time.monotonic() - began)
    if limits.pace.left > 0:
        return chosen
    i, run = chosen
    group.queues[i].release_claim(run)
    return None


def _restrict_to_pace(pace: Pace, group: StudyGroup) -> None:
    """Restrict the studies to configurations that end in time, chosen by improvement per second."""
    for queue in group.queues:
        queue.choose_among(partial(pace.fits, queue, load_space(queue.plan.space)))


class Runners:
    """The processes of several objectives: each loads its objective once, and the latest few stay."""

    def __init__(self, objectives: Sequence[Objective], log: Path | None, stack: ExitStack) -> None:
        """Start all runners in turn, so that a failure to load is raised before any trial.

        Args:
            objectives: of the runners.
            log: of their trials.
            stack: ends the runners.

        Raises:
            UsageError: an objective cannot be loaded.
        """
        self._objectives, self._log = objectives, log
        self._started: dict[int, tuple[TrialRunner, ExitStack]] = {}
        self._stack = stack
        for i in range(len(objectives)):
            self[i]

    def __getitem__(self, i: int) -> TrialRunner:
        """Return the runner of an objective; start it again if it was ended to make room."""
        started = self._started.pop(i, None)
        if started is None:
            if len(self._started) == MAX_RUNNING:
                self._started.pop(next(iter(self._started)))[1].close()
            life = self._stack.enter_context(ExitStack())
            started = life.enter_context(TrialRunner(self._objectives[i], log=self._log)), life
        self._started[i] = started  # the latest is the last
        return started[0]


ALIKE = 5
"""Number of first trials that fail alike before a call stops."""
COMPARED_CHARS = 100
"""Characters of a note that are compared: the rest may be cut off, or specific to the configuration."""
_VALUE = re.compile(r"""'[^']*'|"[^"]*"|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?""")


def fail_alike(ends: Iterable[tuple[TrialStatus, str]]) -> bool:
    """Tell whether all trials crashed, or all gave no usable error, with the same note but for numbers and quotations.

    Timeouts, lack of memory and signals do not count: other configurations may avoid them.

    Args:
        ends: status and note of each trial.
    """
    kinds = {(status, _VALUE.sub("#", note)[:COMPARED_CHARS]) for status, note in ends}
    return len(kinds) == 1 and next(iter(kinds))[0] in (TrialStatus.FAILED, TrialStatus.CRASHED)
