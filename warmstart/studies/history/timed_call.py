"""Plan the time of one call of a study: durations from the history, a short run on this machine, and the plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.records import Config
from warmstart.history_store.space import load_space, same_space, shown
from warmstart.history_store.wording import counted, exact_duration
from warmstart.locations import history_path
from warmstart.measured_with import workload_of
from warmstart.metafeat.device import resolve_device
from warmstart.studies.execution.pace import Pace, PlannedPace, finished_here
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.execution.worker import Runners
from warmstart.studies.objectives.base import Objective, TrialStatus
from warmstart.studies.own_workload import OwnScript
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.trial_queue import TrialQueue
from warmstart.suggestions.lookup import Sources
from warmstart.timing.durations import Durations, fit_history, mean_durations, no_durations
from warmstart.timing.forecast import UNKNOWN, TimedRun
from warmstart.timing.plan import TimeLimit, TimePlan
from warmstart.timing.short_run import LONGER_SHARE, ShortRun, short_run_by
from warmstart.training.workloads import get_workload
from warmstart.training.workloads.run_plan import RunPlan

if TYPE_CHECKING:
    from warmstart.studies.results.summary import TuneResult
    from warmstart.suggestions.location import Location
    from warmstart.suggestions.query import Query

FINISH_S, FINISH_SHARE, BUSY_SHARE = 10.0, 0.2, 0.25
"""Reserve for the end of a call (stopping a trial, the report, its pictures): seconds, at most the first share of its
time; on a busy machine as long as the start took, at most the second share."""
SLACK = 0.95
"""Share of the time that is planned: some passes between two trials."""
SHARE = 0.25
"""Largest share of the time for loading the process, and again for a short run."""
_WORTH_LOADING_S = 120.0
"""Seconds for trials from which more workers pay: each loads torch and the dataset."""


@dataclass(slots=True)
class TimedCall:
    """The time budget of one call.

    Attributes:
        began: `time.monotonic` when the call began.
        seconds: of the call.
        workers: trials at a time.
        target: objective of the trials.
        on_message: called with each message line.
        runner: of the target, if trials run in a child of this process; else a short run starts one.
        plan: of the history's configurations, if the study begins with them.
        start: seconds from the beginning of the call to this object.
        loads: seconds in which several workers load their objectives.
        run_plan: the workload's own plan, instead of the history's configurations and the search; None = it has none.
        finish: seconds that are kept for the end of the call.
    """

    began: float
    seconds: float
    workers: int
    target: Objective
    on_message: Callable[[str], object]
    runner: TrialRunner | None = None
    plan: TimePlan | None = None
    start: float = field(init=False)
    loads: float = field(default=0.0, init=False)
    run_plan: RunPlan | None = None
    finish: float = field(init=False)

    def __post_init__(self) -> None:
        """Record how long the start took, as an estimate of the end."""
        self.start = time.monotonic() - self.began
        self.finish = max(min(FINISH_S, FINISH_SHARE * self.seconds), min(self.start, BUSY_SHARE * self.seconds))

    @property
    def ends(self) -> float:
        """Return `time.monotonic` at which the last trial must have ended."""
        return self.began + self.seconds - self.finish

    def runs_by(self, load: Callable[[], Runners | None]) -> Runners | None:
        """Load the runners of the trials, and use the first for short runs; None on a cluster.

        With several workers the loading time counts twice: each worker loads, and so does its trial process.
        """
        began = time.monotonic()
        runners = load()
        if runners is not None:
            self.runner = runners[0]
            self.loads = 2 * (time.monotonic() - began) if self.workers > 1 else 0.0
        return runners

    @property
    def over(self) -> float:
        """Return `time.monotonic` at which the call must end."""
        return self.began + self.seconds

    @property
    def left(self) -> float:
        """Return the remaining seconds for trials."""
        return self.ends - self.loads - time.monotonic()

    def limit(self, spec: StudySpec) -> TimeLimit:
        """Return the time limit for a plan, with a function for short runs of a study's workload."""
        available = self.left
        return TimeLimit(
            available,
            lambda _origin, config: self.short_run(spec, config),
            self.workers,
            spent=lambda: available - SLACK * max(self.left, 0.0),
        )

    def short_run(self, spec: StudySpec, config: Config) -> ShortRun | None:
        """Time a part of a run; None for a user's objective, or if a run has no known steps."""
        if spec.workload is None:
            return None
        workload = get_workload(spec.workload)
        amount = workload.steps(workload.budget(spec.objective.get("target_budget"), amount=spec.budget), config=config)
        if not amount:
            return None
        if self.runner is not None:
            return self._short_run_by(self.runner, config, amount)
        with TrialRunner(self.target) as runner:
            return self._short_run_by(runner, config, amount)

    def _short_run_by(self, runner: TrialRunner, config: Config, amount: float) -> ShortRun | None:
        """Time a part of a run by a runner, within a share of the time; print why if there is no result."""
        end, note, has_loaded = time.monotonic() + SHARE * max(self.left, 1.0), "too slow", False

        def train(config: Config, part: float) -> bool:
            nonlocal end, note, has_loaded
            if (left := end - time.monotonic()) <= 0:
                return False
            outcome = runner.run(config, seed=0, budget=part, timeout=left)
            note = outcome.note or note
            if not has_loaded:  # trials need that anyway
                end, has_loaded = time.monotonic() + SHARE * max(self.left, 1.0), True
            return outcome.error is not None

        short_run = short_run_by(train, config, amount, longer_s=LONGER_SHARE * max(self.left, 0.0))
        if short_run is None:
            failure = "The short run that was to tell how fast this machine is gave no result"
            self.on_message(f"{failure} ({note}): the first trials tell.")
        return short_run

    def pace(self, queue: TrialQueue, *, sources: Sources, query: Query | None) -> Pace:
        """Return the durations of a study's trials on this machine, with the time at which they must end.

        Args:
            queue: the study.
            sources: the history.
            query: the dataset of the study, if it is open.
        """
        if self.run_plan is not None:
            return PlannedPace(self.ends, no_durations(load_space(queue.plan.space)), over=self.over).of(
                self.run_plan, queue
            )
        if self.plan is not None:
            return Pace(self.ends, self.plan.durations, self.plan.timed_runs, self.over)
        spec, space = queue.plan, load_space(queue.plan.space)
        durations = known_durations(spec, sources=sources, query=query) or no_durations(space)
        timed_runs = list[TimedRun]()
        if spec.workload is not None and not any(finished_here(queue.trials())):
            configs = [dict(item.config) for item in spec.configs] or [dict(space.get_default_configuration())]
            seconds = [item.value for item in durations.forecast(space, configs)]
            config = configs[seconds.index(min(seconds))]  # the quickest, as in a plan
            short_run = self.short_run(spec, config)
            timed_runs = (
                []
                if short_run is None
                else durations.timed(space, [(config, short_run.seconds)], spread=short_run.spread)
            )
        return Pace(self.ends, durations, tuple(timed_runs), self.over)


def known_durations(spec: StudySpec, *, sources: Sources, query: Query | None) -> Durations | None:
    """Return the history's durations of a study's trials; None if it has none of this objective, or is gone."""
    from warmstart.suggestions.advisor import Advisor

    if query is None:
        return None
    try:
        sources = replace(sources, history=history_path(sources.history, workload=spec.workload))
        advisor = Advisor(**asdict(sources), exclude_group=spec.exclude_group, seed=spec.seed)
        location = advisor.locate(query)
        if not has_durations_of(spec, location):
            return None
        durations = fit_history(location, load_space(spec.space))
    except WarmstartError:  # the study does not need the history any more
        return None
    return None if durations is None or not _is_measured_by(spec, durations.origin) else _without_level(durations, spec)


def has_durations_of(spec: StudySpec, location: Location) -> bool:
    """Tell whether a history is over the space of a study, so that its durations apply."""
    return same_space(location.embedded.space_json, spec.space)


def can_plan(spec: StudySpec, location: Location) -> bool:
    """Tell whether a history can plan the first trials of a study: over its space, with durations of its objective."""
    if spec.rename or not has_durations_of(spec, location):
        return False
    embedded = location.embedded
    _, origin = mean_durations(embedded.read_runs(), location.with_runs.names, embedded.configs)
    return _is_measured_by(spec, origin)


def _is_measured_by(spec: StudySpec, origin: str) -> bool:
    """Tell whether runs of an origin measured the objective of a study."""
    if not origin:
        return False
    if spec.workload is not None:
        measured_with = workload_of(origin)
        return measured_with is not None and measured_with[0].name == spec.workload
    if origin == spec.origin:
        return True
    try:
        script = OwnScript(objective=spec.objective.get("function"), command=spec.objective.get("command"))
    except UsageError:
        return False
    return origin.split("/")[:2] == ["collect", f"own:{script.label}"]


def _without_level(durations: Durations, spec: StudySpec) -> Durations:
    """Drop the level of durations of another budget: only the ratios between configurations apply."""
    measured_with = workload_of(durations.origin)
    is_same = measured_with is None or measured_with[1] == spec.objective.get("target_budget")
    if is_same and spec.budget is None:
        return durations
    return replace(durations, forecaster=replace(durations.forecaster, level_spread=UNKNOWN))


def plan_lines(call: TimedCall, pace: Pace, spec: StudySpec, *, n_ended: int) -> list[str]:
    """Return the plan of a call as lines for people.

    Args:
        call: the call.
        pace: durations of its trials.
        spec: of the study.
        n_ended: trials that ended before.
    """
    left, plan = max(call.left, 0.0), call.plan
    if call.run_plan is not None:
        return [f"Plan: {exact_duration(left)} for {call.run_plan.line}."]
    if plan is None:
        if not pace.timed_runs and not pace.durations.forecaster.knows_level and not n_ended:
            return [f"Plan: {exact_duration(left)} for trials; the first ones tell how long each takes."]
        return [f"Plan: {exact_duration(left)} for trials, each begun only where it is likely to end in time."]
    if not plan.steps:
        return [f"Plan: of the history's configurations none ends in {exact_duration(left)}."]
    start = "start and end" if plan.short_run is None else "start, short run and end"
    overhead = f"The other {exact_duration(call.seconds - plan.limit)} are for {start}."
    lines = [f"Plan: {plan.line} {overhead}"]
    expected_errors: Mapping[int, float | None] = {n: design.promised for n, design in enumerate(spec.configs)}
    for n, step in enumerate(plan.steps):
        values = ", ".join(f"{name} {_short(value)}" for name, value in shown(step.config).items())
        error = expected_errors.get(n)
        expected = "" if error is None else f", error expected {error:.3g}"
        lines.append(f"  {n + 1}. {values}: {exact_duration(step.seconds.value)}{expected}")
    n_further, unmeasured = (
        int(plan.left * plan.workers / plan.usual),
        sum(not design.measured for design in spec.configs),
    )
    if n_further and unmeasured:
        count = counted(unmeasured, "configuration")
        lines.append(f"  then {count} of unknown duration (the history did not measure them), then the search")
    elif n_further:
        lines.append(f"  then the search: about {n_further} trials of some {exact_duration(plan.usual)}")
    return lines


def warn_unrun_plan(call: TimedCall | None, result: TuneResult, spec: StudySpec, *, trials: float) -> None:
    """Print how many runs of a call's plan did not end, for lack of time or by the limit of trials.

    A pruned trial counts as ended.
    """
    if call is None or call.plan is None:
        return
    configs = [
        trial.config for trial in result.trials if trial.status is not TrialStatus.PRUNED or spec.pruner != "none"
    ]
    unrun = sum(dict(step.config) not in configs for step in call.plan.steps)
    if unrun:
        runs, pronoun = counted(len(call.plan.steps), "planned run"), "it" if unrun == 1 else "them"
        if len(result.trials) - result.n_extra >= trials:
            call.on_message(
                f"Of {runs} {unrun} did not end before the last of {trials:g} trials. A larger `trials` runs {pronoun}."
            )
        else:
            call.on_message(f"Of {runs} {unrun} did not end in this time. The same command again runs {pronoun}.")


def warn_idle_cores(call: TimedCall, *, device: str) -> None:
    """Print that trials of a built-in network use one core, if there is time for more workers to load."""
    from joblib import cpu_count

    if call.left > _WORTH_LOADING_S and resolve_device(device) == "cpu" and (cores := cpu_count()) > 1:
        call.on_message(f"Trials run one at a time, on 1 of {cores} cores: more `workers` use the others, too.")


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
