"""The trials of one study as its workers share them: what runs next, what it reports, what came of it.

A trial is claimed by the worker that runs it. Where its worker is gone without an outcome, the next one that asks takes it
over: the same trial, configuration and seed. What a trial is, and what came of it, is written before its state changes, so
that a worker may be killed between any two writes.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from warmstart.history_store.errors import DataError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.records import Value
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.options import Search
from warmstart.studies.state.lease import is_extra, is_leased
from warmstart.studies.state.locks import ASKING, LEASING
from warmstart.studies.state.report_writer import ReportWriter, write_reports
from warmstart.studies.state.reported_steps import STEPS, as_reported
from warmstart.studies.state.spec import PLAN, SHORT, StudySpec, warm_of
from warmstart.studies.state.step_pruner import StepPruner
from warmstart.studies.state.storage import Store

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from warmstart.bo.observation import Observation
    from warmstart.bo.transfer.expected_error import ExpectedError
    from warmstart.integrations.optuna.pruner import HistoryPruner
    from warmstart.integrations.optuna.sampler import WarmStartSampler

RUN = "warmstart:run"
"""User attribute of a trial: its configuration and seed; it is there once the trial can be run."""
OUTCOME = "warmstart:outcome"
"""User attribute of a trial: what came of it."""
WORKER = "warmstart:worker"
"""User attribute of a trial: who ran it last, for people."""
WARM, SOURCE, PROMISED, CAME = "warm", "source", "promised", "came"
"""User attributes of a warm trial, for people: that it is one, where its configuration is from, its error there and here."""
Wait = Literal["wait"]
Fits = Callable[[Sequence[Mapping[str, Any]]], Sequence[bool]]
"""Tells of configurations which of them may be begun."""


@dataclass(frozen=True, slots=True)
class Run:
    """A trial that this worker runs."""

    number: int
    trial_id: int
    config: Mapping[str, Value]
    seed: int


class TrialQueue:
    """The trials of a study, for one worker.

    One thread at a time may choose trials, while another one reports and tells.
    """

    def __init__(self, store: Store, study: optuna.Study, plan: StudySpec) -> None:
        """Take a study; `open_queue` finds one by its name."""
        from warmstart.history_store.space import load_space
        from warmstart.integrations.optuna.problem import Problem
        from warmstart.integrations.optuna.space import to_distributions

        self.store, self.study, self.plan = store, study, plan
        space = load_space(plan.space)
        self._problem = Problem(space, to_distributions(space), is_given=True)
        study.sampler, study.pruner = plan.sampler(), plan.make_pruner()
        self._pruner = StepPruner(plan, study.pruner)
        self._fits: Fits | None = None
        number = study._study_id  # noqa: SLF001  what tells studies of one storage apart
        self._keeps_steps = STEPS in store.optuna.get_study_system_attrs(number)
        self._claims, self._lease_claim, self._lease_lock = store.claims(number), store.claims(number), threading.Lock()
        self._reports = ReportWriter(partial(write_reports, store))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Write what was reported last, give all claims back, and close the connections.

        Raises:
            StorageError: when a report cannot be written, and nobody was told of that yet.
        """
        try:
            self.let_all_go()
        finally:
            self.store.close()

    def let_all_go(self) -> None:
        """Write what was reported last, and give all claims back; the storage stays open for others. Raises as `__exit__`."""
        try:
            self._reports.close()
        finally:
            self._claims.close()
            self._lease_claim.close()

    @property
    def name(self) -> str:
        """Return the name of the study."""
        return self.study.study_name

    def trials(self) -> list[FrozenTrial]:
        """Return all trials, in order of their numbers, with the steps that they reported.

        Raises:
            StorageError: when the storage does not answer.
        """
        with self.store.guard():
            return [as_reported(trial) for trial in self.study.get_trials(deepcopy=False)]

    def is_exhausted(self, trials: Sequence[FrozenTrial]) -> bool:
        """Tell whether trials hold every configuration of the space."""
        encoding = self._problem.encoding
        if len(trials) < encoding.size:
            return False
        from warmstart.integrations.optuna.problem import tells_nothing

        kept = [trial for trial in trials if RUN in trial.user_attrs and not tells_nothing(trial)]
        configs = [trial.user_attrs[RUN]["config"] for trial in kept]
        return len(set(encoding.keys(encoding.encode(configs)))) >= encoding.size

    def spread(self, n: int, *, rng: np.random.Generator) -> list[dict[str, Value]]:
        """Return configurations all over the space: n of them, or all."""
        return self._problem.encoding.decode(self._problem.encoding.sample(n, rng=rng))

    def told(self, trials: Sequence[FrozenTrial]) -> tuple[Observation, ...]:
        """Read the trials that ended as evaluations."""
        from optuna.study import StudyDirection

        from warmstart.integrations.optuna.problem import read_trials

        return read_trials(trials, self._problem, StudyDirection.MINIMIZE).told

    def next(self, total: float) -> Run | Wait | None:
        """Return the next trial to run: one that lost its worker, else a new one.

        Args:
            total: trials that the study shall have.

        Returns: a trial; "wait" where the last ones run elsewhere; None where all are over, or every configuration had one.

        Raises:
            StorageError: when the storage does not answer.
        """
        with self.store.guard(), self.asking():
            run, under_way = self.orphan()
            if run is not None and (self._fits is None or self._fits([run.config])[0]):
                return run
            if run is not None:  # it does not end in time: it is left for another call
                self.let_go(run)
            trials = self.study.get_trials(deepcopy=False)
            if begun(trials) >= total or self.is_exhausted(trials):
                return "wait" if under_way else None
            return self.start() if self._fits is None or self._sampler.finds_one(self.study) else None

    def choose_among(self, fits: Fits) -> None:
        """Choose from now on only what fits; expected improvement is that per second then.

        Args:
            fits: tells of configurations which of them may be begun; asked anew for each trial.
        """
        self._fits = fits
        is_usual = self.plan.acquisition == Search.acquisition
        self.study.sampler = self.plan.sampler(acquisition="ei-per-second" if is_usual else None)
        self._sampler.choose_among(fits)

    @property
    def _sampler(self) -> WarmStartSampler:
        return cast("WarmStartSampler", self.study.sampler)

    def orphan(self) -> tuple[Run | None, int]:
        """Find a trial that lost its worker, for who is `asking`; counts those that run elsewhere, where there is none."""
        from optuna.trial import TrialState

        under_way, found = 0, None
        with self.leasing():
            for trial in self.study.get_trials(deepcopy=False):
                if trial.state != TrialState.RUNNING:
                    continue
                if is_leased(trial, time.time()) or not self._claims.take(trial.number + 1):
                    under_way += 1
                elif (found := self._unended(trial._trial_id)) is not None:  # noqa: SLF001  Optuna's storages know trials by it
                    break
        return (None if found is None else self._taken_over(found)), under_way

    def start(self) -> Run:
        """Begin a new trial, for who is `asking`."""
        from optuna.trial import Trial

        made = self.study.ask()
        self._claims.take(made.number + 1)
        return self._filled(Trial(self.study, made._trial_id))  # noqa: SLF001

    def hold(self, number: int) -> bool:
        """Claim a trial for this process; tells whether that worked."""
        return self._claims.take(number + 1)

    def let_go(self, run: Run) -> None:
        """Return the claim on a trial back."""
        self._claims.release(run.number + 1)

    def report(self, run: Run, step: float, error: float) -> bool:
        """Keep what a trial reports; tells whether the pruner would stop it here.

        Without a pruner nobody waits for the answer: the report is written soon after, at the latest before `end`.

        Raises:
            StorageError: when the storage does not answer, or did not take an earlier report.
        """
        step = step if self._keeps_steps else round(step)
        if self.plan.pruner == "none":
            self._reports.add(run.trial_id, step, error)
            return False
        write_reports(self.store, run.trial_id, {step: error})
        with self.store.guard():
            return self._pruner.prune(self.study, self.store.optuna.get_trial(run.trial_id))

    def heading(self, trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> ExpectedError | None:
        """Forecast the final error of a trial under way, where the study's pruner does.

        Args:
            trial: as `trials` has it.
            trials: of the study.
        """
        if self.plan.pruner != "history":
            return None
        forecast = cast("HistoryPruner", self.study.pruner).forecast(trial, trials)
        return None if forecast is None else forecast.error

    def flush(self) -> None:
        """Wait until all reports are written.

        Raises:
            StorageError: when one cannot be.
        """
        self._reports.flush()

    def end(self, run: Run, outcome: Outcome) -> None:
        """Keep what came of a trial.

        Raises:
            StorageError: when the storage does not answer.
        """
        from warmstart.integrations.optuna.problem import CUT

        self.store.check()
        self._reports.flush()
        with self.store.guard():
            trial = self.store.optuna.get_trial(run.trial_id)
            if not trial.state.is_finished():
                if WARM in trial.user_attrs and outcome.error is not None:
                    self.store.optuna.set_trial_user_attr(run.trial_id, CAME, round(outcome.error, 4))
                if outcome.whole is not None or CUT in trial.user_attrs:  # it may have been begun before
                    self.store.optuna.set_trial_user_attr(run.trial_id, CUT, outcome.whole)
                self.store.optuna.set_trial_user_attr(run.trial_id, OUTCOME, outcome_to_dict(outcome))
                self._tell(run.trial_id, outcome)
        self._claims.release(run.number + 1)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Let one worker choose at a time, so that each knows what all others chose."""
        self.store.check()
        self._claims.take(ASKING, patience=True)
        try:
            yield
        finally:
            self._claims.release(ASKING)

    @contextlib.contextmanager
    def leasing(self) -> Iterator[None]:
        """Let one process, and one thread of it, look at leases and change them at a time."""
        with self._lease_lock:
            self.store.check()
            self._lease_claim.take(LEASING, patience=True)
            try:
                yield
            finally:
                self._lease_claim.release(LEASING)

    def _unended(self, trial_id: int) -> FrozenTrial | None:
        """Return a trial that is ours now; None where it needed no more than its end, which it gets."""
        trial = self.store.optuna.get_trial(trial_id)
        if not trial.state.is_finished():
            if OUTCOME not in trial.user_attrs:
                return trial
            self._tell(trial_id, outcome_of(trial.user_attrs[OUTCOME]))
        self._claims.release(trial.number + 1)
        return None

    def _taken_over(self, trial: FrozenTrial) -> Run:
        """Go on with a trial that is ours now, from wherever its worker left it."""
        from optuna.trial import Trial

        trial_id = trial._trial_id  # noqa: SLF001
        if RUN not in trial.user_attrs:
            return self._filled(Trial(self.study, trial_id))
        self._sign(trial_id)
        return Run(trial.number, trial_id, **trial.user_attrs[RUN])

    def _filled(self, trial: optuna.Trial) -> Run:
        """Choose the configuration of a new trial."""
        from warmstart.integrations.optuna.problem import CLAIM

        trial_id = trial._trial_id  # noqa: SLF001
        suggested = {**trial.relative_params, **self.store.optuna.get_trial(trial_id).system_attrs[CLAIM]}
        config = {name: _suggest(trial, name, self._problem.distributions[name]) for name in suggested}
        seed = trial_seed(self.plan.seed, trial.number)
        self._sign(trial_id)
        for key, value in self._origin(config).items():
            self.store.optuna.set_trial_user_attr(trial_id, key, value)
        self.store.optuna.set_trial_user_attr(trial_id, RUN, {"config": config, "seed": seed})
        return Run(trial.number, trial_id, config, seed)

    def _origin(self, config: Mapping[str, Value]) -> dict[str, bool | str | float]:
        """Say of a warm configuration where it is from and what it promised; of others nothing."""
        warm = warm_of(config, self.plan.configs)
        if warm is None:
            return {}
        source = "you" if self.plan.initial else warm.origin
        promised = {} if warm.promised is None else {PROMISED: round(warm.promised, 4)}
        return {WARM: True, SOURCE: source, **promised}

    def _sign(self, trial_id: int) -> None:
        """Note who runs a trial."""
        self.store.optuna.set_trial_user_attr(trial_id, WORKER, f"{socket.gethostname()}:{os.getpid()}")

    def _tell(self, trial_id: int, outcome: Outcome) -> None:
        """Return a trial its final state."""
        from optuna.trial import Trial, TrialState

        trial = Trial(self.study, trial_id)
        known = trial.constraints
        for name, bound in outcome.constraints.items():
            if name not in known:
                trial.set_constraint(name, bound)
        if outcome.error is not None:
            self.study.tell(trial.number, outcome.error)
        else:
            pruned = outcome.status is TrialStatus.PRUNED
            self.study.tell(trial.number, state=TrialState.PRUNED if pruned else TrialState.FAIL)


def begun(trials: Sequence[FrozenTrial]) -> int:
    """Count the trials that were begun, results that came too late left out."""
    from optuna.trial import TrialState

    return sum(trial.state != TrialState.WAITING and not is_extra(trial) for trial in trials)


def interrupted(store: Store, study: optuna.Study, plan: StudySpec, trials: Sequence[FrozenTrial]) -> list[int]:
    """Number the trials that lost their worker, as far as claims tell that; nothing is claimed.

    Raises:
        StorageError: when the storage does not answer.
    """
    from optuna.trial import TrialState

    now, number, found = time.time(), study._study_id, []  # noqa: SLF001
    for trial in trials:
        is_chosen = RUN in trial.user_attrs
        if trial.state != TrialState.RUNNING or is_leased(trial, now) or (plan.members and not is_chosen):
            continue
        # A trial is claimed once it is made; who makes it asks meanwhile, in a group on its first study.
        if store.is_claimed(number, trial.number + 1 if is_chosen else ASKING) is False:
            with store.guard():  # it may have ended since it was read: it is told before its claim is given back
                latest = store.optuna.get_trial(trial._trial_id)  # noqa: SLF001
            if not latest.state.is_finished():
                found.append(trial.number)
    return found


def find_plan(store: Store, name: str) -> StudySpec | None:
    """Read the plan of a study; None where there is no such study, or it has none yet.

    Raises:
        StorageError: when the storage does not answer.
    """
    import optuna

    with store.guard():
        try:
            study = optuna.load_study(study_name=name, storage=store.optuna)
        except KeyError:
            return None
        return plan_of(store, study)


def open_queue(store: Store, name: str) -> TrialQueue:
    """Open a study that was begun.

    Raises:
        DataError: when there is none of that name, or another program made it.
        StorageError: when the storage does not answer.
    """
    import optuna

    with store.guard():
        try:
            study = optuna.load_study(study_name=name, storage=store.optuna)
        except KeyError as error:
            msg = f"{store.shown}: expected a study {name!r}, got none of that name. `warmstart tune` begins one."
            raise DataError(msg) from error
        plan = plan_of(store, study)
        if plan is None:
            raise DataError(_foreign(store, name))
        return TrialQueue(store, study, plan)


def begin(store: Store, name: str, complete: Callable[[StudySpec], StudySpec], wanted: StudySpec) -> TrialQueue:
    """Open a study, made with a plan where it is new.

    Args:
        store: where.
        name: of the study.
        complete: gives the plan with its warm configurations; called where the study is new, one process at a time.
        wanted: the plan without them.

    Raises:
        UsageError: when the study has another plan.
        DataError: when another program made it.
        StorageError: when the storage does not answer.
    """
    import optuna

    with store.guard():
        study = optuna.create_study(storage=store.optuna, study_name=name, direction="minimize", load_if_exists=True)
        claims = store.claims(study._study_id)  # noqa: SLF001
    try:
        with store.guard():
            claims.take(ASKING, patience=True)
            plan = plan_of(store, study)
            if plan is None and study.get_trials(deepcopy=False):
                raise DataError(_foreign(store, name))
        if plan is None:
            plan = complete(wanted)
            with store.guard():
                store_plan(store, study, plan)
        else:
            plan.check_same(wanted, f"{store.shown}:{name}")
    finally:
        claims.close()
    with store.guard():
        return TrialQueue(store, study, plan)


def store_plan(store: Store, study: optuna.Study, plan: StudySpec) -> None:
    """Keep a plan: the whole where programs look, then the short form where people do."""
    store.optuna.set_study_system_attr(study._study_id, STEPS, "as reported")  # noqa: SLF001
    store.optuna.set_study_system_attr(study._study_id, PLAN, plan.to_json())  # noqa: SLF001
    study.set_user_attr(PLAN, plan.short_json())


def _is_short(text: object) -> bool:
    """Tell whether the plan lies elsewhere."""
    try:
        found = parse_json(str(text))
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("schema_version") == SHORT


def trial_seed(seed: int, number: int) -> int:
    """Return the seed of a trial, in 0 .. 2^31 - 1."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0]) >> 1


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON has it."""
    return {
        "error": outcome.error,
        "status": outcome.status.value,
        "duration": outcome.duration if math.isfinite(outcome.duration) else None,
        "note": outcome.note,
        "curve": [list(point) for point in outcome.curve],
        "metrics": {name: value for name, value in outcome.metrics.items() if math.isfinite(value)},
        "constraints": dict(outcome.constraints),
    }


def outcome_of(record: Mapping[str, Any]) -> Outcome:
    """Read an outcome that `outcome_to_dict` gave."""
    return Outcome(
        record["error"],
        TrialStatus(record["status"]),
        math.nan if record["duration"] is None else record["duration"],
        record["note"],
        tuple((step, error) for step, error in record["curve"]),
        record["metrics"],
        record["constraints"],
    )


def plan_of(store: Store, study: optuna.Study) -> StudySpec | None:
    """Read the plan of a study that is open; None where it has none."""
    text = study.user_attrs.get(PLAN)
    if text is not None and _is_short(text):
        whole = store.optuna.get_study_system_attrs(study._study_id).get(PLAN)  # noqa: SLF001
        text = text if whole is None else str(whole)
    return None if text is None else StudySpec.from_json(text, f"{store.shown}:{study.study_name}")


def _foreign(store: Store, name: str) -> str:
    return f"{store.shown}: expected a study {name!r} that warmstart made, got one of another program. Take another name with `study`; WarmStartSampler (docs/optuna.md) goes on with studies of Optuna."


def _suggest(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    """Return a parameter of a trial its value."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(distribution, FloatDistribution):
        return trial.suggest_float(
            name, distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(
            name, distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    assert isinstance(distribution, CategoricalDistribution)  # noqa: S101  Optuna has three kinds
    return trial.suggest_categorical(name, distribution.choices)
