"""Time limit of one call: choose configurations that end in time, by the durations of earlier trials."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from ConfigSpace import ConfigurationSpace
from optuna.trial import FrozenTrial

from warmstart.history_store.file.codec import config_key
from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.records import Config, Value
from warmstart.history_store.wording import exact_duration
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.state.attributes import CUT, OUTCOME, RUN, WORKER
from warmstart.studies.state.spec import warm_of
from warmstart.studies.state.trial_queue import Run, TrialQueue
from warmstart.timing.forecast import ExpectedSeconds, TimedRun
from warmstart.timing.schedule import SURE
from warmstart.training.workloads.run_plan import EndedRun, RunPlan

if TYPE_CHECKING:
    from warmstart.timing.durations import Durations


LIKELY = 0.5
"""Smallest chance to end in time with which a trial is begun..."""
_MIN_CHANCE = 0.1
"""...and for the surest warm configuration while the study has no result: the time has no other use."""
_LATE, _LATE_S = 4.0, 60.0
"""Factor and seconds by which a trial's stored times may exceed its duration; beyond, it had no worker for a while."""
_SPREAD = 0.15
"""Standard deviation of log seconds that are extrapolated from the reports of a stopped trial."""
_LOADING = math.log(2.0)
"""The same for the first trial of a worker, which also loads data."""
_MIN_SHARE = 0.1
"""Smallest share of a trial between its first and its last report for an extrapolation."""
_OVERRUN = 1.15
"""A trial is too slow if its rest takes more than so many times the remaining time."""
_SHORTER = 0.8
"""Largest share of a trial's seconds for a shorter replacement."""
_N_SPREAD = 128
"""Configurations spread over the space that are checked for one that would end in time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The end of a call, and the durations of trials on this machine.

    Attributes:
        ends: `time.monotonic` at which the last trial must have ended, on this machine.
        durations: forecasts over the space of the study.
        timed_runs: seconds of a short run on this machine.
        over: `time.monotonic` at which the whole call must end.
        choices: seconds of each choice of a trial so far; the end of the call fits the same model once more.
    """

    ends: float
    durations: Durations
    timed_runs: tuple[TimedRun, ...] = ()
    over: float = math.inf
    choices: list[float] = field(default_factory=list)

    @property
    def slowest(self) -> float:
        """Return the seconds of the slowest choice, an estimate of fitting the model."""
        return max(self.choices, default=0.0)

    @property
    def left(self) -> float:
        """Return the remaining seconds for trials, at least 0."""
        return max(min(self.ends, self.over - self.slowest) - time.monotonic(), 0.0)

    def fits(self, queue: TrialQueue, space: ConfigurationSpace, configs: Sequence[Config]) -> list[bool]:
        """Tell for each configuration whether it is likely to end in time; all do if no durations are known.

        If an untried warm configuration is surer to end, others must be about as sure; while the study has no result,
        warm ones too. Then even an unlikely one may be begun, if it is the surest.
        """
        trials = queue.trials()
        timed_runs, left = self._all_timed_runs(space, trials), self.left
        if timed_runs is None:
            return [left > 0] * len(configs)
        warm, chances = _untried(queue, trials), self._chances(space, configs, timed_runs, left=left)
        if not warm:
            return [bool(chance >= LIKELY) for chance in chances]
        surest = float(self._chances(space, warm, timed_runs, left=left).max())
        least = min(SURE, max(LIKELY, surest - 1e-9))
        of_warm = LIKELY if has_result(trials) else min(least, max(surest - 1e-9, _MIN_CHANCE))
        are_warm = [warm_of(config, queue.plan.configs) is not None for config in configs]
        return [
            bool(chance >= (of_warm if is_warm else least)) for chance, is_warm in zip(chances, are_warm, strict=True)
        ]

    def has_alternative(self, queue: TrialQueue, space: ConfigurationSpace, slow: TimedRun) -> bool:
        """Tell whether another configuration would likely end in time, if a slow trial were stopped now."""
        trials = queue.trials()
        timed_runs = self._all_timed_runs(space, trials) or []
        candidates = [*_untried(queue, trials), *queue.spread(_N_SPREAD, rng=np.random.default_rng(0))]
        chances = self._chances(space, candidates, [*timed_runs, slow], left=max(self.left - self.slowest, 0.0))
        return bool((chances >= LIKELY).any())

    def forecast(self, space: ConfigurationSpace, configs: Sequence[Config]) -> list[ExpectedSeconds]:
        """Forecast the seconds of configurations before any trial; empty if no durations are known."""
        return self._forecast(space, configs, self._all_timed_runs(space, ()))

    def watch(self, queue: TrialQueue, space: ConfigurationSpace, run: Run) -> PacedRun:
        """Return the observer of a trial that begins now."""
        trials = queue.trials()
        timed_runs, has_error = self._all_timed_runs(space, trials), has_result(trials)
        expected = self._forecast(space, [run.config], timed_runs)
        shorter = math.inf
        if expected and not has_error:
            seconds = [forecast.high for forecast in self._forecast(space, _untried(queue, trials), timed_runs)]
            shorter = min((high for high in seconds if high < _SHORTER * expected[0].value), default=math.inf)
        return PacedRun(self, queue, space, run, expected[0] if expected else None, shorter)

    def _all_timed_runs(self, space: ConfigurationSpace, trials: Sequence[FrozenTrial]) -> list[TimedRun] | None:
        """Return the timed runs on this machine; None if there are none and the history has no durations."""
        first, later = finished_here(trials)
        timed_runs = [*self.timed_runs, *self.durations.timed(space, later)]
        timed_runs += self.durations.timed(
            space, first, spread=0.0 if self.timed_runs else _LOADING
        )  # a short run has loaded it
        timed_runs += self.durations.timed(space, cut_here(trials), spread=_SPREAD)
        return timed_runs if timed_runs or self.durations.forecaster.knows_level else None

    def _forecast(
        self, space: ConfigurationSpace, configs: Sequence[Config], timed_runs: Sequence[TimedRun] | None
    ) -> list[ExpectedSeconds]:
        if timed_runs is None or not configs:
            return []
        return self.durations.forecast(space, configs, timed_runs)

    def _chances(
        self, space: ConfigurationSpace, configs: Sequence[Config], timed_runs: Sequence[TimedRun], *, left: float
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        with one_thread():
            return self.durations.chance_within(space, configs, left, timed_runs)


@dataclass(slots=True)
class PacedRun:
    """A running trial under the time limit of its call, stopped if it cannot end in time but another can.

    Attributes:
        pace: of the call.
        queue: the study.
        space: of it.
        run: the trial.
        expected: its seconds; None if unknown.
        shorter: seconds of a shorter configuration to run instead; infinite if there is none, or the study has a
            result.
        began: `time.monotonic` at its beginning.
        reports: `time.monotonic` and finished share at each report.
        is_slow: whether it was stopped because it would not end in time.
        is_over: whether it reported after the end of the time.
    """

    pace: Pace
    queue: TrialQueue
    space: ConfigurationSpace
    run: Run
    expected: ExpectedSeconds | None
    shorter: float
    began: float = field(default_factory=time.monotonic)
    reports: list[tuple[float, float]] = field(default_factory=list)
    is_slow: bool = False
    is_over: bool = False

    @property
    def seconds(self) -> float:
        """Return the time limit of the trial: the remaining seconds; if it overruns, minus those of a shorter one."""
        left = self.pace.left
        if self.expected is None or math.isinf(self.shorter):
            return max(left, 1e-3)
        # If it takes longer than expected, the shorter one will too, by the same factor.
        last_chance = left / (1 + self.shorter / self.expected.value)
        return max(last_chance if last_chance >= self.expected.high else left, 1e-3)

    @property
    def whole(self) -> float | None:
        """Return the extrapolated seconds of the whole trial, by its reports; None while they are too few."""
        if len(self.reports) < 2:
            return None
        (first, few), (last, many) = self.reports[0], self.reports[-1]
        if many - few < _MIN_SHARE or last <= first:
            return None
        return last - self.began + (1 - min(many, 1.0)) * (last - first) / (many - few)

    def report(self, step: float) -> bool:
        """Record a report; return whether to stop the trial, because it will not end in time and another would."""
        length = self.queue.plan.length(self.run.config)
        self.is_over = self.pace.left <= 0
        if self.is_over or not length:
            return self.is_over
        now = time.monotonic()
        self.reports.append((now, step / length))
        whole = self.whole
        if whole is None or whole - (now - self.began) <= _OVERRUN * self.pace.left:
            return False
        (slow,) = self.pace.durations.timed(self.space, [(self.run.config, whole)], spread=_SPREAD)
        self.is_slow = self.pace.has_alternative(self.queue, self.space, slow)
        return self.is_slow

    def final_outcome(self, outcome: Outcome, *, timeout: float) -> Outcome:
        """Return the outcome of the trial; if the time limit of the call stopped it, as pruned with a note.

        Args:
            outcome: of the trial.
            timeout: time limit of every trial, in seconds.
        """
        ran = time.monotonic() - self.began
        after = f"after {outcome.duration:.3g} s"
        if outcome.status is TrialStatus.PRUNED and self.is_slow:
            whole = self.whole or ran
            note = f"ended {after} for a shorter one: at its pace it takes {exact_duration(whole)}, more than there is"
            return replace(outcome, note=note, whole=whole)
        is_cut = outcome.status is TrialStatus.TIMEOUT and ran < timeout
        if not is_cut and not (outcome.status is TrialStatus.PRUNED and self.is_over):
            return outcome
        usual = 0.0 if self.expected is None else self.expected.value
        if self.pace.left > 0:
            note = f"ended {after} for a shorter one: it takes longer than foreseen"
            return replace(outcome, status=TrialStatus.PRUNED, note=note, whole=max(ran / _SHORTER, usual))
        whole = max(self.whole or ran, usual)
        note = f"ended with the time of the command, {after}"
        return replace(outcome, status=TrialStatus.PRUNED, note=note, whole=whole)


def _untried(queue: TrialQueue, trials: Sequence[FrozenTrial]) -> list[Config]:
    """Return the warm configurations without a trial, or only with trials that gave no information."""
    from warmstart.integrations.optuna.problem import is_uninformative

    tried = [
        trial.user_attrs[RUN]["config"] for trial in trials if RUN in trial.user_attrs and not is_uninformative(trial)
    ]
    tried_warm = [warm_of(config, queue.plan.configs) for config in tried]
    return [
        dict(design.config)
        for design in queue.plan.configs
        if not any(design is tried_config for tried_config in tried_warm)
    ]


def has_result(trials: Sequence[FrozenTrial]) -> bool:
    """Tell whether a trial ended with an error."""
    return any(trial.user_attrs.get(OUTCOME, {}).get("error") is not None for trial in trials)


def finished_here(
    trials: Sequence[FrozenTrial],
) -> tuple[list[tuple[Config, float]], list[tuple[Config, float]]]:
    """Return configurations and seconds of completed trials on this machine: first trials of workers, and later ones.

    Later trials count by the clock. First ones count by their own measurement, since by the clock they include loading.
    """
    first: list[tuple[Config, float]] = []
    later: list[tuple[Config, float]] = []
    workers = set[str]()
    for trial in trials:
        outcome = trial.user_attrs.get(OUTCOME, {})
        if outcome.get("status") != TrialStatus.OK.value or not _is_here(trial) or trial.duration is None:
            continue
        wall, measured = trial.duration.total_seconds(), outcome.get("duration") or math.nan
        is_late = wall <= 0 or wall > _LATE * measured + _LATE_S
        is_first = trial.user_attrs[WORKER] not in workers
        workers.add(trial.user_attrs[WORKER])
        seconds = measured if is_late or (is_first and measured < wall) else wall
        if seconds > 0:
            (first if is_first else later).append((trial.user_attrs[RUN]["config"], seconds))
    return first, later


def cut_here(trials: Sequence[FrozenTrial]) -> list[tuple[Config, float]]:
    """Return configurations and lower bounds of the seconds of trials on this machine that a time limit stopped."""
    cut = [(trial, trial.user_attrs.get(CUT)) for trial in trials if _is_here(trial)]
    return [(trial.user_attrs[RUN]["config"], float(seconds)) for trial, seconds in cut if seconds]


def _is_here(trial: FrozenTrial) -> bool:
    """Tell whether a trial ran on this machine."""
    return RUN in trial.user_attrs and str(trial.user_attrs.get(WORKER, "")).startswith(f"{socket.gethostname()}:")


def planned_key(config: Config) -> frozenset[tuple[str, Value]]:
    """Return the identity of a configuration, up to Optuna's rounding of floats."""
    return config_key(
        {name: float(f"{value:.9g}") if isinstance(value, float) else value for name, value in config.items()}
    )


@dataclass(frozen=True, slots=True)
class PlannedPace(Pace):
    """The end of a call, and the workload's plan for it.

    Attributes:
        run_plan: of the call.
        earlier: numbers of the trials of earlier calls.
        unusable: indices of planned configurations that the space of the study lacks.
        began: `time.monotonic` at the beginning of each trial of this call.
        took: wall seconds of each ended trial of this call.
    """

    run_plan: RunPlan | None = None
    earlier: frozenset[int] = frozenset()
    unusable: frozenset[int] = frozenset()
    began: dict[int, float] = field(default_factory=dict)
    took: dict[int, float] = field(default_factory=dict)

    def of(self, run_plan: RunPlan, queue: TrialQueue) -> Self:
        """Return the pace of a study that begins or goes on with a plan."""
        known = {planned_key(design.config) for design in queue.plan.configs}
        lacking = (index for index, config in enumerate(run_plan.configs) if planned_key(config) not in known)
        earlier = (trial.number for trial in queue.trials() if trial.state.is_finished())
        return replace(self, run_plan=run_plan, earlier=frozenset(earlier), unusable=frozenset(lacking))

    def fits(self, queue: TrialQueue, space: ConfigurationSpace, configs: Sequence[Config]) -> list[bool]:  # noqa: ARG002  the space is for forecasts
        """Tell for each configuration whether it is the plan's next one; a trial that lost its worker goes on."""
        assert self.run_plan is not None  # noqa: S101  of `of`
        runs, running = self._runs(queue)
        keys = [planned_key(config) for config in configs]
        if len(keys) == 1 and keys[0] in running:
            return [self.left > 0]
        chosen = self.run_plan.next(runs, left=self.left) if self.left > 0 else None
        wanted = None if chosen is None else planned_key(self.run_plan.configs[chosen])
        return [key == wanted for key in keys]

    def watch(self, queue: TrialQueue, space: ConfigurationSpace, run: Run) -> PacedRun:
        """Return the observer of a trial that begins now; the first may use the time of saving, as it is all there is to save."""
        self.began[run.number] = time.monotonic()
        pace = self if has_result(queue.trials()) else replace(self, ends=self.over)
        return PacedRun(pace, queue, space, run, None, float("inf"))

    def _runs(self, queue: TrialQueue) -> tuple[Mapping[int, EndedRun], set[object]]:
        """Return the plan's runs so far by index, and the keys of configurations that are running."""
        from warmstart.integrations.optuna.problem import is_uninformative

        assert self.run_plan is not None  # noqa: S101
        indices = {planned_key(config): index for index, config in enumerate(self.run_plan.configs)}
        runs = {index: EndedRun(None, 0.0, is_earlier=True) for index in self.unusable}
        running: set[object] = set()
        for trial in queue.trials():
            if RUN not in trial.user_attrs:
                continue
            key, number = planned_key(trial.user_attrs[RUN]["config"]), trial.number
            if not trial.state.is_finished():
                running.add(key)
            elif number in self.began and number not in self.took:
                self.took[number] = time.monotonic() - self.began[number]
            is_cut = number in self.earlier and is_uninformative(trial)  # by the end of its call: it is tried again
            if key in indices and not is_cut:
                outcome, is_earlier = trial.user_attrs.get(OUTCOME, {}), number in self.earlier
                took, metrics = self.took.get(number, 0.0), outcome.get("metrics", {})
                runs[indices[key]] = EndedRun(outcome.get("error"), took, is_earlier, metrics)
        return runs, running
