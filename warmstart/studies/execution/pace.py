"""How the time of one call is used: which configurations still end within it, by what the trials took so far."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from warmstart.bo.transfer.duration_forecast import ExpectedSeconds, TimedRun
from warmstart.bo.transfer.time_plan import SURE
from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.records import Config
from warmstart.history_store.wording import exact_duration
from warmstart.studies.execution.last_training import Candidate, LastTraining
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.state.spec import warm_of
from warmstart.studies.state.trial_queue import OUTCOME, RUN, WORKER, Run, TrialQueue

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from optuna.trial import FrozenTrial

    from warmstart.suggestions.durations import Durations

LIKELY = 0.5
"""Chance to end in time from which a trial is begun..."""
_SLIM = 0.1
"""...and from which the surest warm one is, while the study holds no result: what is left is of no other use."""
_LATE, _LATE_S = 4.0, 60.0
"""A trial whose times in the storage are so many times its duration, and so much more, lay with no worker for a while."""
_SPREAD = 0.15
"""Standard deviation of the logarithm of seconds that were extrapolated from the reports of a trial that was ended."""
_LOADING = math.log(2.0)
"""The same of the first trial of a worker, which loads what the later ones find loaded."""
_SEEN = 0.1
"""Share of a trial between its first and its last report from which on its pace is told."""
_SLOW = 1.15
"""A trial whose rest takes so many times what is left does not end in time."""
_SHORTER = 0.8
"""What is run instead of a trial takes at most such a share of it."""
_MORE = 1.5
"""Training the best once more, on more images, takes at most so many times as long."""
_TRIED = 128
"""Configurations all over the space among which one is sought that would still end in time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The end of a call, and what is known of how long trials take on this machine.

    Attributes:
        ends: `time.monotonic` at which the last trial has ended, on this machine.
        durations: forecasts over the space of the study.
        told: what a short run told.
        over: `time.monotonic` at which the whole call is over.
        choices: seconds that each choice of a trial took so far; the end of the call fits the same model once more.
        again: seconds that are kept at most for training a network once more.
        last: how that is done; None = no networks are saved.
        saved: so many networks are saved; the one of them that gains by the time, or else the first that is trained once more, gets it.
        kept: seconds that were kept for it after the trials so far, the latest last.
    """

    ends: float
    durations: Durations
    told: tuple[TimedRun, ...] = ()
    over: float = math.inf
    choices: list[float] = field(default_factory=list)
    again: float = 0.0
    last: LastTraining | None = None
    saved: int = 1
    kept: list[float] = field(default_factory=list)

    @property
    def slowest(self) -> float:
        """Return the seconds of the slowest choice, which is what fitting the model takes."""
        return max(self.choices, default=0.0)

    @property
    def left(self) -> float:
        """Return the seconds that are left for trials, at least 0."""
        again = self.kept[-1] if self.kept else 0.0
        return max(min(self.ends, self.over - self.slowest) - again - time.monotonic(), 0.0)

    def look(self, trials: Sequence[FrozenTrial]) -> None:
        """See how long it takes to train a network of the best trials so far once more, for all its steps."""
        if not self.again or self.last is None:
            return
        ended = _ended_well(trials)
        chosen = [ended[place] for place in self.last.choose(ended, self.saved, seconds=self.again)]
        leading = self.last.leading(chosen, seconds=self.again)
        if leading is not None:
            chosen = [chosen[leading]]
        for trial in chosen:
            if steps := self.last.steps(trial):
                whole = trial.seconds * max(steps / trial.steps, 1.0) if trial.steps else trial.seconds
                self.kept.append(min(self.again, _MORE * whole))
                return
        self.kept.append(0.0)

    def fits(self, queue: TrialQueue, space: ConfigurationSpace, configs: Sequence[Config]) -> list[bool]:
        """Tell of configurations which are likely to end in time; all where nothing is known of how long they take.

        What is likely is not enough where a warm configuration that has not had its turn is surer to end: for other
        configurations, and while the study holds no result for warm ones, too. Then the surest may be unlikely.
        """
        trials = queue.trials()
        self.look(trials)
        told, left = self._known(space, trials), self.left
        if told is None:
            return [left > 0] * len(configs)
        warm, chances = _untried(queue, trials), self._chances(space, configs, told, left=left)
        if not warm:
            return [bool(chance >= LIKELY) for chance in chances]
        surest = float(self._chances(space, warm, told, left=left).max())
        least = min(SURE, max(LIKELY, surest - 1e-9))
        of_warm = LIKELY if has_result(trials) else min(least, max(surest - 1e-9, _SLIM))
        are_warm = [warm_of(config, queue.plan.configs) is not None for config in configs]
        return [
            bool(chance >= (of_warm if is_warm else least)) for chance, is_warm in zip(chances, are_warm, strict=True)
        ]

    def finds_other(self, queue: TrialQueue, space: ConfigurationSpace, slow: TimedRun) -> bool:
        """Tell whether something else is likely to be chosen and end in time, were a trial ended now that takes so long."""
        trials = queue.trials()
        told = self._known(space, trials) or []
        others = [*_untried(queue, trials), *queue.spread(_TRIED, rng=np.random.default_rng(0))]
        found = self._chances(space, others, [*told, slow], left=max(self.left - self.slowest, 0.0))
        return bool((found >= LIKELY).any())

    def forecast(self, space: ConfigurationSpace, configs: Sequence[Config]) -> list[ExpectedSeconds]:
        """Forecast the seconds of configurations before any trial; none where nothing is known."""
        return self._forecast(space, configs, self._known(space, ()))

    def watch(self, queue: TrialQueue, space: ConfigurationSpace, run: Run) -> PacedRun:
        """Follow a trial that begins now."""
        trials = queue.trials()
        self.look(trials)
        told, has_one = self._known(space, trials), has_result(trials)
        own = self._forecast(space, [run.config], told)
        shorter = math.inf
        if own and not has_one:
            others = [each.high for each in self._forecast(space, _untried(queue, trials), told)]
            shorter = min((high for high in others if high < _SHORTER * own[0].value), default=math.inf)
        return PacedRun(self, queue, space, run, own[0] if own else None, shorter)

    def _known(self, space: ConfigurationSpace, trials: Sequence[FrozenTrial]) -> list[TimedRun] | None:
        """Return what runs here told of seconds; None where nothing at all is known of them."""
        first, later = finished_here(trials)
        told = [*self.told, *self.durations.timed(space, later)]
        told += self.durations.timed(space, first, spread=0.0 if self.told else _LOADING)  # a short run has loaded it
        told += self.durations.timed(space, cut_here(trials), spread=_SPREAD)
        return told if told or self.durations.forecaster.knows_level else None

    def _forecast(
        self, space: ConfigurationSpace, configs: Sequence[Config], told: Sequence[TimedRun] | None
    ) -> list[ExpectedSeconds]:
        if told is None or not configs:
            return []
        return self.durations.forecast(space, configs, told)

    def _chances(
        self, space: ConfigurationSpace, configs: Sequence[Config], told: Sequence[TimedRun], *, left: float
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        with one_thread():
            return self.durations.chance_within(space, configs, left, told)


@dataclass(slots=True)
class PacedRun:
    """A trial under way, beside the end of its call: what cannot end in time gives way to what can.

    Attributes:
        pace: of the call.
        queue: the study.
        space: of it.
        run: the trial.
        expected: seconds that it takes; None where nothing is known.
        shorter: seconds of a shorter configuration, to be run where this one does not end; infinite where there is none, or a result is at hand.
        began: `time.monotonic`.
        reports: when it reported, and at which share of it.
        is_slow: it was ended since it would not have ended in time.
        is_over: it reported after the time was over.
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
        """Return the seconds that the trial may take: all that are left, or, where it overruns, all but those of a shorter one."""
        left = self.pace.left
        if self.expected is None or math.isinf(self.shorter):
            return max(left, 1e-3)
        # Where it takes longer than expected, so does the shorter one.
        last_chance = left / (1 + self.shorter / self.expected.value)
        return max(last_chance if last_chance >= self.expected.high else left, 1e-3)

    @property
    def whole(self) -> float | None:
        """Return the seconds that all of it takes, by the pace of its reports; None while they tell too little."""
        if len(self.reports) < 2:
            return None
        (first, few), (last, many) = self.reports[0], self.reports[-1]
        if many - few < _SEEN or last <= first:
            return None
        return last - self.began + (1 - min(many, 1.0)) * (last - first) / (many - few)

    def report(self, step: float) -> bool:
        """Note a report; tell whether the trial should give way: it does not end in time, and something else would."""
        length = self.queue.plan.length(self.run.config)
        self.is_over = self.pace.left <= 0
        if self.is_over or not length:
            return self.is_over
        now = time.monotonic()
        self.reports.append((now, step / length))
        whole = self.whole
        if whole is None or whole - (now - self.began) <= _SLOW * self.pace.left:
            return False
        (slow,) = self.pace.durations.timed(self.space, [(self.run.config, whole)], spread=_SPREAD)
        self.is_slow = self.pace.finds_other(self.queue, self.space, slow)
        return self.is_slow

    def ended(self, outcome: Outcome, *, timeout: float) -> Outcome:
        """Say of a trial that was ended for the time of its call that it was; it is no failure, and no result.

        Args:
            outcome: of the trial.
            timeout: seconds that a trial may take in any case.
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
    """Return the warm configurations that no trial has, but those that told nothing."""
    from warmstart.integrations.optuna.problem import tells_nothing

    tried = [
        trial.user_attrs[RUN]["config"] for trial in trials if RUN in trial.user_attrs and not tells_nothing(trial)
    ]
    known = [warm_of(config, queue.plan.configs) for config in tried]
    return [dict(each.config) for each in queue.plan.configs if not any(each is other for other in known)]


def _ended_well(trials: Sequence[FrozenTrial]) -> list[Candidate]:
    """Return the trials that gave an error."""
    told = [(trial.user_attrs.get(OUTCOME, {}), trial) for trial in trials]
    return [
        Candidate(
            trial.user_attrs[RUN]["config"],
            outcome["error"],
            outcome.get("duration") or 0.0,
            max(trial.intermediate_values, default=0),
        )
        for outcome, trial in told
        if outcome.get("status") == TrialStatus.OK.value and outcome.get("error") is not None
    ]


def has_result(trials: Sequence[FrozenTrial]) -> bool:
    """Tell whether a trial ended with an error."""
    return any(trial.user_attrs.get(OUTCOME, {}).get("error") is not None for trial in trials)


def finished_here(
    trials: Sequence[FrozenTrial],
) -> tuple[list[tuple[Config, float]], list[tuple[Config, float]]]:
    """Return configurations and seconds of the trials that ran to their end on this machine: the first of each worker, and the later ones.

    Later trials count by the clock. The first one counts what it counts itself: by the clock it loads what a worker needs.
    """
    first: list[tuple[Config, float]] = []
    later: list[tuple[Config, float]] = []
    known = set[str]()
    for trial in trials:
        outcome = trial.user_attrs.get(OUTCOME, {})
        if outcome.get("status") != TrialStatus.OK.value or not _is_here(trial) or trial.duration is None:
            continue
        wall, own = trial.duration.total_seconds(), outcome.get("duration") or math.nan
        is_late = wall <= 0 or wall > _LATE * own + _LATE_S
        is_first = trial.user_attrs[WORKER] not in known
        known.add(trial.user_attrs[WORKER])
        seconds = own if is_late or (is_first and own < wall) else wall
        if seconds > 0:
            (first if is_first else later).append((trial.user_attrs[RUN]["config"], seconds))
    return first, later


def cut_here(trials: Sequence[FrozenTrial]) -> list[tuple[Config, float]]:
    """Return configurations and the least seconds of the trials that were ended with the time of a command on this machine."""
    from warmstart.integrations.optuna.problem import CUT

    cut = [(trial, trial.user_attrs.get(CUT)) for trial in trials if _is_here(trial)]
    return [(trial.user_attrs[RUN]["config"], float(seconds)) for trial, seconds in cut if seconds]


def _is_here(trial: FrozenTrial) -> bool:
    """Tell whether a trial ran on this machine."""
    return RUN in trial.user_attrs and str(trial.user_attrs.get(WORKER, "")).startswith(f"{socket.gethostname()}:")
