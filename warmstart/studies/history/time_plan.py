"""How the time of one call of a study is to be used: what the history says of seconds, a short run here, and the plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from warmstart.bo.transfer.duration_forecast import UNKNOWN, TimedRun
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.records import Config
from warmstart.history_store.space import load_space, same_space, shown
from warmstart.history_store.wording import counted, exact_duration
from warmstart.locations import history_path
from warmstart.measured_with import workload_of
from warmstart.studies.execution.pace import Pace, finished_here
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.execution.worker import Runners
from warmstart.studies.objectives.base import Objective, TrialStatus
from warmstart.studies.options import Sources
from warmstart.studies.own_workload import OwnScript
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.trial_queue import TrialQueue
from warmstart.suggestions.durations import Durations, fit_history, no_durations
from warmstart.suggestions.short_run import LONGER_SHARE, ShortRun, short_run_by
from warmstart.suggestions.time_plan import TimeLimit, TimePlan
from warmstart.training.workloads import get_workload

if TYPE_CHECKING:
    from warmstart.studies.results.summary import TuneResult
    from warmstart.suggestions.location import Location
    from warmstart.suggestions.query import Query

FINISH_S, FINISH_SHARE, BUSY_SHARE = 10.0, 0.2, 0.25
"""Of the time of a call, so much is kept for its end (a trial that is ended, the report, its pictures), but no more than that share; where the
machine is busy, as long as the start took, but no more than the second share."""
SLACK = 0.95
"""Share of the time that is planned: some goes by between two trials."""
SHARE = 0.25
"""Share of the time that a short run may take at most, and what the process loads before it."""
_WORTH_LOADING_S = 120.0
"""Seconds for trials from which more workers are worth it: each of them loads torch and the dataset."""


@dataclass(slots=True)
class TimedCall:
    """The time of one call.

    Attributes:
        began: `time.monotonic` when the call began.
        seconds: that it has.
        workers: trials at a time.
        target: what is evaluated.
        on_message: called with each line that a person should hear.
        runner: of the target, where trials run in this process's child; else a short run starts one.
        plan: what the history planned, where the study begins with that.
        start: seconds that the call took until this was made.
        loads: seconds until several workers, processes of their own, have loaded what they run.
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

    def __post_init__(self) -> None:
        """Note how long the start took, which tells how long the end will."""
        self.start = time.monotonic() - self.began

    @property
    def ends(self) -> float:
        """Return `time.monotonic` at which the last trial must have ended."""
        usual, busy = min(FINISH_S, FINISH_SHARE * self.seconds), min(self.start, BUSY_SHARE * self.seconds)
        return self.began + self.seconds - max(usual, busy)

    def runs_by(self, load: Callable[[], Runners | None]) -> Runners | None:
        """Load the targets, let that process make the short run, and return it; None where a cluster runs them.

        Several workers load the same again: themselves, and the process of their trials.
        """
        began = time.monotonic()
        runners = load()
        if runners is not None:
            self.runner = runners[0]
            self.loads = 2 * (time.monotonic() - began) if self.workers > 1 else 0.0
        return runners

    @property
    def over(self) -> float:
        """Return `time.monotonic` at which the call shall have ended."""
        return self.began + self.seconds

    @property
    def left(self) -> float:
        """Return the seconds that are left for trials."""
        return self.ends - self.loads - time.monotonic()

    def limit(self, spec: StudySpec) -> TimeLimit:
        """Return how much time the history may plan, with what makes short runs of a study's workload."""
        asked = self.left
        return TimeLimit(
            asked,
            lambda _origin, config: self.short_run(spec, config),
            self.workers,
            spent=lambda: asked - SLACK * max(self.left, 0.0),
        )

    def short_run(self, spec: StudySpec, config: Config) -> ShortRun | None:
        """Run a part of a configuration; None where the objective is a person's own, or a run has no parts that are known."""
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
        """Make a short run by a runner, within a share of the time; where it gives no result, say so."""
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

        found = short_run_by(train, config, amount, longer_s=LONGER_SHARE * max(self.left, 0.0))
        if found is None:
            said = "The short run that was to tell how fast this machine is gave no result"
            self.on_message(f"{said} ({note}): the first trials tell.")
        return found

    def pace(self, queue: TrialQueue, *, sources: Sources, query: Query | None) -> Pace:
        """Return what is known of how long the trials of a study take here, and when they must have ended.

        Args:
            queue: the study.
            sources: the history.
            query: the dataset of the study, where it is open.
        """
        if self.plan is not None:
            return Pace(self.ends, self.plan.durations, self.plan.timed_runs, self.over)
        spec, space = queue.plan, load_space(queue.plan.space)
        durations = known_durations(spec, sources=sources, query=query) or no_durations(space)
        told = list[TimedRun]()
        if spec.workload is not None and not any(finished_here(queue.trials())):
            configs = [dict(each.config) for each in spec.configs] or [dict(space.get_default_configuration())]
            seconds = [each.value for each in durations.forecast(space, configs)]
            config = configs[seconds.index(min(seconds))]  # the quickest, as in a plan
            found = self.short_run(spec, config)
            told = [] if found is None else durations.timed(space, [(config, found.seconds)], spread=found.spread)
        return Pace(self.ends, durations, tuple(told), self.over)


def known_durations(spec: StudySpec, *, sources: Sources, query: Query | None) -> Durations | None:
    """Return what the history says of how long trials take; None where it says nothing of this job, or is gone."""
    from warmstart.suggestions.advisor import Advisor

    if query is None:
        return None
    try:
        sources = replace(sources, history=history_path(sources.history, workload=spec.workload))
        advisor = Advisor(**asdict(sources), exclude_group=spec.exclude_group, seed=spec.seed)
        place = advisor.locate(query)
        if not has_durations_of(spec, place):
            return None
        found = fit_history(place, load_space(spec.space))
    except WarmstartError:  # the study does not need the history any more
        return None
    return None if found is None or not _is_measured_by(spec, found.origin) else _levelled(found, spec)


def has_durations_of(spec: StudySpec, place: Location) -> bool:
    """Tell whether a history is over the space of a study, so that its durations may count."""
    return same_space(place.embedded.space_json, spec.space)


def can_plan(spec: StudySpec, place: Location) -> bool:
    """Tell whether a history can plan the first trials of a study: over its space, with durations of its job."""
    from warmstart.history_store.history import History
    from warmstart.suggestions.durations import read_durations

    if spec.rename or not has_durations_of(spec, place):
        return False
    names = [place.embedded.names[row] for row in place.with_runs.rows]
    with History.open(place.embedded.path) as history:
        _, origin = read_durations(history, names)
    return _is_measured_by(spec, origin)


def _is_measured_by(spec: StudySpec, origin: str) -> bool:
    """Tell whether runs of an origin are of what a study evaluates."""
    if not origin:
        return False
    if spec.workload is not None:
        named = workload_of(origin)
        return named is not None and named[0].name == spec.workload
    if origin == spec.origin:
        return True
    try:
        script = OwnScript(objective=spec.objective.get("function"), command=spec.objective.get("command"))
    except UsageError:
        return False
    return origin.split("/")[:2] == ["collect", f"own:{script.label}"]


def _levelled(found: Durations, spec: StudySpec) -> Durations:
    """Leave of durations of another budget only which configurations take longer, not how long."""
    named = workload_of(found.origin)
    is_same = named is None or named[1] == spec.objective.get("target_budget")
    if is_same and spec.budget is None:
        return found
    return replace(found, forecaster=replace(found.forecaster, level_spread=UNKNOWN))


def plan_lines(call: TimedCall, pace: Pace, spec: StudySpec, *, done: int) -> list[str]:
    """Say for people what will be done in the time.

    Args:
        call: the call.
        pace: what is known of seconds.
        spec: of the study.
        done: trials that ended before.
    """
    left, plan = max(call.left, 0.0), call.plan
    if plan is None:
        if not pace.told and not pace.durations.forecaster.knows_level and not done:
            return [f"Plan: {exact_duration(left)} for trials; the first ones tell how long each takes."]
        return [f"Plan: {exact_duration(left)} for trials, each begun only where it is likely to end in time."]
    if not plan.steps:
        return [f"Plan: of the history's configurations none ends in {exact_duration(left)}."]
    start = "start and end" if plan.short_run is None else "start, short run and end"
    rest_of_it = f"The other {exact_duration(call.seconds - plan.limit)} are for {start}."
    lines = [f"Plan: {plan.line} {rest_of_it}"]
    promised: Mapping[int, float | None] = {n: each.promised for n, each in enumerate(spec.configs)}
    for n, step in enumerate(plan.steps):
        values = ", ".join(f"{name} {_short(value)}" for name, value in shown(step.config).items())
        error = promised.get(n)
        expected = "" if error is None else f", error expected {error:.3g}"
        lines.append(f"  {n + 1}. {values}: {exact_duration(step.seconds.value)}{expected}")
    rest, unmeasured = int(plan.left * plan.workers / plan.usual), sum(not each.measured for each in spec.configs)
    if rest and unmeasured:
        named = counted(unmeasured, "configuration")
        lines.append(f"  then {named} of unknown duration (the history did not measure them), then the search")
    elif rest:
        lines.append(f"  then the search: about {rest} trials of some {exact_duration(plan.usual)}")
    return lines


def tell_unrun(call: TimedCall | None, found: TuneResult, spec: StudySpec, *, trials: float) -> None:
    """Say how many runs of the plan of a call, if there is one, did not end: for the time, or for the number of trials that a study may have.

    What a pruner stopped did end.
    """
    if call is None or call.plan is None:
        return
    had = [trial.config for trial in found.trials if trial.status is not TrialStatus.PRUNED or spec.pruner != "none"]
    unrun = sum(dict(step.config) not in had for step in call.plan.steps)
    if unrun:
        runs, them = counted(len(call.plan.steps), "planned run"), "it" if unrun == 1 else "them"
        if len(found.trials) - found.n_extra >= trials:
            call.on_message(
                f"Of {runs} {unrun} did not end before the last of {trials:g} trials. A larger `trials` runs {them}."
            )
        else:
            call.on_message(f"Of {runs} {unrun} did not end in this time. The same command again runs {them}.")


def tell_idle_cores(call: TimedCall, *, device: str) -> None:
    """Say that trials of a built-in network leave all cores but one idle, where there is time for more workers to load."""
    from joblib import cpu_count

    from warmstart.metafeat.device import resolve_device

    if call.left > _WORTH_LOADING_S and resolve_device(device) == "cpu" and (cores := cpu_count()) > 1:
        call.on_message(f"Trials run one at a time, on 1 of {cores} cores: more `workers` use the others, too.")


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
