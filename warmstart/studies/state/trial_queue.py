"""The trials of one study, shared by its workers: the next trial, its reports, its outcome.

A trial is claimed by the worker that runs it. If the worker ends without an outcome, the next worker resumes the trial:
same number, configuration and seed. The configuration and the outcome of a trial are written before its state changes,
so that a worker may be killed between any two writes.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import optuna
from optuna.study import StudyDirection

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store import system
from warmstart.history_store.errors import DataError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.records import Value
from warmstart.history_store.space import load_space
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.options import Search
from warmstart.studies.state.attributes import (
    ACTUAL,
    CLAIM,
    CUT,
    OUTCOME,
    OWNER,
    PLAN,
    PROMISED,
    RUN,
    SOURCE,
    STEPS,
    WARM,
    WORKER,
)
from warmstart.studies.state.lease import is_extra, is_leased, lease_time
from warmstart.studies.state.locks import ASKING, LEASING
from warmstart.studies.state.metric_storage import study_of_errors
from warmstart.studies.state.report_writer import ReportWriter, write_reports
from warmstart.studies.state.reported_steps import as_reported
from warmstart.studies.state.sampling import make_pruner, make_sampler
from warmstart.studies.state.spec import SHORT_SCHEMA, StudySpec, warm_of
from warmstart.studies.state.step_pruner import StepPruner
from warmstart.studies.state.storage import Store

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.study._frozen import FrozenStudy
    from optuna.trial import FrozenTrial

    from warmstart.bo.observation import Observation
    from warmstart.integrations.optuna.pruner import HistoryPruner
    from warmstart.integrations.optuna.sampler import WarmStartSampler
    from warmstart.studies.objectives.metric import Metric

Wait = Literal["wait"]
Fits = Callable[[Sequence[Mapping[str, Any]]], Sequence[bool]]
"""Tells for each configuration whether its trial fits the remaining time."""


@dataclass(frozen=True, slots=True)
class Run:
    """A trial that this worker runs."""

    number: int
    trial_id: int
    config: Mapping[str, Value]
    seed: int


class TrialQueue:
    """The trials of a study, for one worker.

    One thread at a time may choose trials, while another thread reports and ends trials.
    """

    def __init__(self, store: Store, study: optuna.Study, plan: StudySpec) -> None:
        """Create the queue of an open study; see `open_queue` for a study's name."""
        from warmstart.integrations.optuna.problem import Problem
        from warmstart.integrations.optuna.space import to_distributions

        self.store, self.study, self.plan = store, study_of_errors(study, plan), plan
        space = load_space(plan.space)
        self._problem = Problem(space, to_distributions(space), is_given=True)
        self.study.sampler, self.study.pruner = make_sampler(plan), make_pruner(plan)
        self._pruner = StepPruner(plan, self.study.pruner)
        self._fits: Fits | None = None
        number = study._study_id  # noqa: SLF001  the only number of a study in its storage
        self._has_exact_steps = STEPS in store.optuna.get_study_system_attrs(number)
        self._claims, self._lease_claim, self._lease_mutex = (
            store.claims(number),
            store.claims(number),
            threading.Lock(),
        )
        self._reports = ReportWriter(partial(write_reports, store))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Write the last reports, release all claims, and close the connections.

        Raises:
            StorageError: a report cannot be written, and that was not raised before.
        """
        try:
            self.release_all()
        finally:
            self.store.close()

    def release_all(self) -> None:
        """Write the last reports, and release all claims; the storage stays open. Raises as `__exit__`."""
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
        """Return all trials, in order of their numbers, with their steps as reported.

        Raises:
            StorageError: the storage does not answer.
        """
        with self.store.guard():
            return [as_reported(trial) for trial in self.study.get_trials(deepcopy=False)]

    def is_exhausted(self, trials: Sequence[FrozenTrial]) -> bool:
        """Tell whether every configuration of the space has a trial."""
        encoding = self._problem.encoding
        if len(trials) < encoding.size:
            return False
        from warmstart.integrations.optuna.problem import is_uninformative

        evaluated = [trial for trial in trials if RUN in trial.user_attrs and not is_uninformative(trial)]
        configs = [trial.user_attrs[RUN]["config"] for trial in evaluated]
        return len(set(encoding.keys(encoding.encode(configs)))) >= encoding.size

    def spread(self, n: int, *, rng: np.random.Generator) -> list[dict[str, Value]]:
        """Return n configurations spread over the space; all of a smaller space."""
        return self._problem.encoding.decode(self._problem.encoding.sample(n, rng=rng))

    def observations(self, trials: Sequence[FrozenTrial]) -> tuple[Observation, ...]:
        """Return the ended trials as observations."""
        from warmstart.integrations.optuna.problem import read_trials

        return read_trials(trials, self._problem, StudyDirection.MINIMIZE).observations

    def next(self, total: float) -> Run | Wait | None:
        """Return the next trial to run: one that lost its worker, else a new one.

        Args:
            total: trials that the study shall have.

        Returns: a trial; "wait" if the last trials run elsewhere; None if all ended or every configuration has a trial.

        Raises:
            StorageError: the storage does not answer.
        """
        with self.store.guard(), self.ask_lock():
            run, n_elsewhere = self.take_orphan()
            if run is not None and (self._fits is None or self._fits([run.config])[0]):
                return run
            if run is not None:  # too long for this call: left for another
                self.release_claim(run)
            trials = self.study.get_trials(deepcopy=False)
            if count_begun(trials) >= total or self.is_exhausted(trials):
                return "wait" if n_elsewhere else None
            return self.start() if self._fits is None or self._sampler.has_fitting(self.study) else None

    def choose_among(self, fits: Fits) -> None:
        """Restrict new trials to configurations that fit; expected improvement becomes improvement per second.

        Args:
            fits: see `Fits`; called for every new trial.
        """
        self._fits = fits
        is_usual = self.plan.acquisition == Search.acquisition
        self.study.sampler = make_sampler(self.plan, acquisition="ei-per-second" if is_usual else None)
        self._sampler.choose_among(fits)

    @property
    def storage(self) -> BaseStorage:
        """Return Optuna's storage, with the values of the study as errors."""
        return self.study._storage  # noqa: SLF001  with its `get_trial`, which a study has not

    @property
    def _sampler(self) -> WarmStartSampler:
        return cast("WarmStartSampler", self.study.sampler)

    def take_orphan(self) -> tuple[Run | None, int]:
        """Claim a trial that lost its worker, holding `ask_lock`; return it, and the number of trials elsewhere."""
        from optuna.trial import TrialState

        n_elsewhere, orphan = 0, None
        with self.lease_lock():
            for trial in self.study.get_trials(deepcopy=False):
                if trial.state != TrialState.RUNNING:
                    continue
                if is_leased(trial, lease_time()) or not self._claims.take(trial.number + 1):
                    n_elsewhere += 1
                elif (orphan := self._open_trial(trial._trial_id)) is not None:  # noqa: SLF001  Optuna's storages know trials by it
                    if not is_leased(orphan, lease_time()):  # as it is now: it was read with all others
                        break
                    self._claims.release(orphan.number + 1)
                    n_elsewhere, orphan = n_elsewhere + 1, None
        return (None if orphan is None else self._resume(orphan)), n_elsewhere

    def start(self) -> Run:
        """Begin a new trial, holding `ask_lock`."""
        from optuna.trial import Trial, TrialState

        waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        # Optuna's own way reads all trials, and the new one twice.
        number = self.study.ask()._trial_id if waiting else self.storage.create_new_trial(self.study._study_id)  # noqa: SLF001
        trial = Trial(self.study, number)
        self._claims.take(trial.number + 1)
        return self._choose_config(trial)

    def claim(self, number: int) -> bool:
        """Claim a trial for this process; return whether that succeeded."""
        return self._claims.take(number + 1)

    def release_claim(self, run: Run) -> None:
        """Release the claim on a trial."""
        self._claims.release(run.number + 1)

    def report(self, run: Run, step: float, error: float) -> bool:
        """Store a report of a trial; return whether the pruner would stop it.

        Without a pruner the report is written later, at the latest before `end`.

        Raises:
            StorageError: the storage does not answer, or an earlier report could not be written.
        """
        step = step if self._has_exact_steps else round(step)
        value = self.plan.measure.to_value(error) if self.plan.has_metric_values else error
        if self.plan.pruner == "none":
            self._reports.add(run.trial_id, step, value)
            return False
        write_reports(self.store, run.trial_id, {step: value})
        with self.store.guard():
            return self._pruner.prune(self.study, self.storage.get_trial(run.trial_id))

    def heading(self, trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> ExpectedError | None:
        """Forecast the final error of a running trial; None without a pruner ``history``.

        Args:
            trial: one of `trials`.
            trials: of the study.
        """
        if self.plan.pruner != "history":
            return None
        forecast = cast("HistoryPruner", self.study.pruner).forecast(trial, trials)
        return None if forecast is None else forecast.error

    def flush(self) -> None:
        """Wait until all reports are written.

        Raises:
            StorageError: a report cannot be written.
        """
        self._reports.flush()

    def end(self, run: Run, outcome: Outcome) -> None:
        """Store the outcome of a trial, and end it.

        Raises:
            StorageError: the storage does not answer.
        """
        self.store.check()
        self._reports.flush()
        with self.store.guard():
            trial = self.storage.get_trial(run.trial_id)
            if not trial.state.is_finished():
                if WARM in trial.user_attrs and outcome.error is not None:
                    self.storage.set_trial_user_attr(run.trial_id, ACTUAL, round(outcome.error, 4))
                if outcome.whole is not None or CUT in trial.user_attrs:  # an earlier call may have cut it
                    self.storage.set_trial_user_attr(run.trial_id, CUT, outcome.whole)
                # The outcome before the state: after a kill in between, the next worker only has to end the trial.
                for name, value in plain_attributes(outcome, self.plan.measure).items():
                    self.storage.set_trial_user_attr(run.trial_id, name, value)
                self.storage.set_trial_user_attr(run.trial_id, OUTCOME, outcome_to_dict(outcome))
                self._tell(run.trial_id, outcome)
        self._claims.release(run.number + 1)

    @contextlib.contextmanager
    def ask_lock(self) -> Iterator[None]:
        """Hold the lock for choosing a trial: each choice takes all earlier ones into account."""
        self.store.check()
        self._claims.take(ASKING, patience=True)
        try:
            with self.store.one_read():
                yield
        finally:
            self._claims.release(ASKING)

    @contextlib.contextmanager
    def lease_lock(self) -> Iterator[None]:
        """Hold the lock for reading and changing leases, against other processes and threads."""
        with self._lease_mutex:
            self.store.check()
            self._lease_claim.take(LEASING, patience=True)
            try:
                yield
            finally:
                self._lease_claim.release(LEASING)

    def _open_trial(self, trial_id: int) -> FrozenTrial | None:
        """Return a claimed trial; None if it has ended, or if its outcome was stored: then end it."""
        trial = self.storage.get_trial(trial_id)
        if not trial.state.is_finished():
            if OUTCOME not in trial.user_attrs:
                return trial
            self._tell(trial_id, outcome_of(trial.user_attrs[OUTCOME]))
        self._claims.release(trial.number + 1)
        return None

    def _resume(self, trial: FrozenTrial) -> Run:
        """Resume a claimed trial in whatever state its worker left it."""
        from optuna.trial import Trial

        trial_id = trial._trial_id  # noqa: SLF001
        if RUN not in trial.user_attrs:
            return self._choose_config(Trial(self.study, trial_id))
        self._set_worker(trial_id)
        return Run(trial.number, trial_id, **trial.user_attrs[RUN])

    def _choose_config(self, trial: optuna.Trial) -> Run:
        """Choose and store the configuration of a new trial."""
        trial_id = trial._trial_id  # noqa: SLF001
        suggested = {**trial.relative_params, **self.storage.get_trial(trial_id).system_attrs[CLAIM]}
        config = {name: _suggest(trial, name, self._problem.distributions[name]) for name in suggested}
        seed = trial_seed(self.plan.seed, trial.number)
        self._set_worker(trial_id)
        for key, value in self._origin(config).items():
            self.storage.set_trial_user_attr(trial_id, key, value)
        # Last: with RUN a trial counts as ready to run.
        self.storage.set_trial_user_attr(trial_id, RUN, {"config": config, "seed": seed})
        return Run(trial.number, trial_id, config, seed)

    def _origin(self, config: Mapping[str, Value]) -> dict[str, bool | str | float]:
        """Return the user attributes of a warm configuration: source and promised error; empty for others."""
        warm = warm_of(config, self.plan.configs)
        if warm is None:
            return {}
        source = "you" if self.plan.initial else warm.origin
        promised = {} if warm.promised is None else {PROMISED: round(warm.promised, 4)}
        return {WARM: True, SOURCE: source, **promised}

    def _set_worker(self, trial_id: int) -> None:
        """Store the host and process that run a trial."""
        self.storage.set_trial_user_attr(trial_id, WORKER, f"{socket.gethostname()}:{os.getpid()}")

    def _tell(self, trial_id: int, outcome: Outcome) -> None:
        """Tell Optuna the constraints and the final state of a trial."""
        from optuna.trial import Trial, TrialState

        trial = Trial(self.study, trial_id)
        constraints = trial.constraints
        for name, bound in outcome.constraints.items():
            if name not in constraints:
                trial.set_constraint(name, bound)
        if outcome.error is not None:
            self.study.tell(trial.number, outcome.error)
        else:
            pruned = outcome.status is TrialStatus.PRUNED
            self.study.tell(trial.number, state=TrialState.PRUNED if pruned else TrialState.FAIL)


def count_begun(trials: Sequence[FrozenTrial]) -> int:
    """Return the number of begun trials, without late results."""
    from optuna.trial import TrialState

    return sum(trial.state != TrialState.WAITING and not is_extra(trial) for trial in trials)


def interrupted_numbers(
    store: Store, study: optuna.Study | FrozenStudy, plan: StudySpec, trials: Sequence[FrozenTrial]
) -> list[int]:
    """Return the numbers of trials that lost their worker, by their claims; nothing is claimed.

    Raises:
        StorageError: the storage does not answer.
    """
    from optuna.trial import TrialState

    now, number, numbers = lease_time(), study._study_id, []  # noqa: SLF001
    for trial in trials:
        is_chosen = RUN in trial.user_attrs
        if trial.state != TrialState.RUNNING or is_leased(trial, now) or (plan.members and not is_chosen):
            continue
        # A trial is claimed after its creation. Until then its worker holds ASKING, in a group that of the first study.
        if store.is_claimed(number, trial.number + 1 if is_chosen else ASKING) is False:
            with store.guard():  # it may have ended meanwhile: its state is written before its claim is released
                latest = store.optuna.get_trial(trial._trial_id)  # noqa: SLF001
            if not latest.state.is_finished():
                numbers.append(trial.number)
    return numbers


def find_plan(store: Store, name: str) -> StudySpec | None:
    """Return the plan of a study by name; None if there is no such study, or it has no plan yet.

    Raises:
        StorageError: the storage does not answer.
    """
    with store.guard():
        try:
            study = optuna.load_study(study_name=name, storage=store.optuna)
        except KeyError:
            return None
        return plan_of(store, study)


def open_queue(store: Store, name: str) -> TrialQueue:
    """Open an existing study.

    Raises:
        DataError: no study of that name, or one of another program.
        StorageError: the storage does not answer.
    """
    with store.guard():
        try:
            study = optuna.load_study(study_name=name, storage=store.optuna)
        except KeyError as error:
            msg = (
                f"{store.display_name}: expected a study {name!r}, got none of that name. `warmstart tune` begins one."
            )
            raise DataError(msg) from error
        plan = plan_of(store, study)
        if plan is None:
            raise DataError(_foreign(store, name))
        return TrialQueue(store, study, plan)


def begin(
    store: Store,
    name: str,
    complete: Callable[[StudySpec], StudySpec],
    new_plan: StudySpec,
    owner: str | None = None,
) -> TrialQueue:
    """Open a study, and create it with a plan if it is new.

    Args:
        store: of the study.
        name: of the study.
        complete: returns the plan with its warm configurations; called for a new study, in one process at a time.
        new_plan: the plan without them.
        owner: who begins it; the user of this process when left out.

    Raises:
        UsageError: the study has another plan.
        DataError: a study of another program.
        StorageError: the storage does not answer.
    """
    direction: Literal["maximize", "minimize"] = "maximize" if new_plan.measure.maximize else "minimize"
    with store.guard():
        study = optuna.create_study(storage=store.optuna, study_name=name, direction=direction, load_if_exists=True)
        claims = store.claims(study._study_id)  # noqa: SLF001
    try:
        with store.guard():
            claims.take(ASKING, patience=True)
            plan = plan_of(store, study)
            if plan is None and study.get_trials(deepcopy=False):
                raise DataError(_foreign(store, name))
        if plan is None:
            has_values = new_plan.measure.is_converted and study.direction.name.lower() == direction
            plan = replace(complete(new_plan), has_metric_values=has_values)
            with store.guard():
                store_plan(store, study, plan, owner or system.user_name())
        else:
            plan.check_same(new_plan, f"{store.display_name}:{name}")
    finally:
        claims.close()
    with store.guard():
        return TrialQueue(store, study, plan)


def store_plan(store: Store, study: optuna.Study, plan: StudySpec, owner: str | None) -> None:
    """Store a plan: whole for programs, and its main fields for people; and who began the study."""
    from optuna.study.study import _SYSTEM_ATTR_METRIC_NAMES  # `set_metric_names` warns that it is experimental

    # The plan's user attribute last: without it a study has no plan, and after a kill the next call writes all again.
    store.optuna.set_study_system_attr(study._study_id, STEPS, "as reported")  # noqa: SLF001
    store.optuna.set_study_system_attr(study._study_id, PLAN, plan.to_json())  # noqa: SLF001
    name = "error" if plan.measure.is_converted and not plan.has_metric_values else plan.measure.name
    store.optuna.set_study_system_attr(study._study_id, _SYSTEM_ATTR_METRIC_NAMES, [name])  # noqa: SLF001
    by = {} if owner is None else {OWNER: owner}
    for name, value in (by | plan.summary()).items():
        study.set_user_attr(name, value)
    study.set_user_attr(PLAN, plan.short_json())


def _is_short(text: object) -> bool:
    """Tell whether a user attribute is the short form of a plan."""
    try:
        record = parse_json(str(text))
    except ValueError:
        return False
    return isinstance(record, dict) and record.get("schema_version") == SHORT_SCHEMA


def trial_seed(seed: int, number: int) -> int:
    """Return the seed of a trial, in 0 .. 2^31 - 1."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0]) >> 1


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome for JSON."""
    return {
        "error": outcome.error,
        "status": outcome.status.value,
        "duration": outcome.duration if math.isfinite(outcome.duration) else None,
        "note": outcome.note,
        "curve": [list(point) for point in outcome.curve],
        "metrics": {name: value for name, value in outcome.metrics.items() if math.isfinite(value)},
        "constraints": dict(outcome.constraints),
    }


def plain_attributes(outcome: Outcome, metric: Metric) -> dict[str, float | str]:
    """Return what people see of an outcome in a dashboard: the metric and other numbers, and what went wrong."""
    numbers = {name: value for name, value in outcome.metrics.items() if math.isfinite(value)}
    if outcome.error is not None and not metric.is_plain:
        numbers[metric.name] = metric.to_value(outcome.error)
    texts = {} if outcome.status is TrialStatus.OK else {"status": outcome.status.value}
    texts |= {"note": outcome.note} if outcome.note else {}
    return {name: value for name, value in (numbers | texts).items() if name not in (WARM, SOURCE, PROMISED, ACTUAL)}


def outcome_of(record: Mapping[str, Any]) -> Outcome:
    """Read an outcome of `outcome_to_dict`."""
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
    """Return the plan of an open study; None without one."""
    system_attrs = store.optuna.get_study_system_attrs(study._study_id)  # noqa: SLF001
    return plan_in(study.user_attrs, system_attrs, f"{store.display_name}:{study.study_name}")


def plan_in(user_attrs: Mapping[str, Any], system_attrs: Mapping[str, Any], location: str) -> StudySpec | None:
    """Return the plan in the attributes of a study; None without one. `location` begins messages."""
    text = user_attrs.get(PLAN)
    if text is not None and _is_short(text):
        text = str(system_attrs.get(PLAN, text))
    return None if text is None else StudySpec.from_json(text, location)


def _foreign(store: Store, name: str) -> str:
    return f"{store.display_name}: expected a study {name!r} that warmstart made, got one of another program. Take another name with `study`; WarmStartSampler (docs/optuna-ray.md) goes on with studies of Optuna."


def _suggest(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    """Suggest a parameter of a trial by its distribution."""
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
