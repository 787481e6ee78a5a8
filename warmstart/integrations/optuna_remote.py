"""Sampler for Optuna's loop over a study on a server of `warmstart serve`.

import optuna, warmstart
from warmstart.integrations.optuna_remote import RemoteSampler

client = warmstart.Client("http://127.0.0.1:8383")
sampler = RemoteSampler(client.begin_study("photos", space={"lr": {"log": [1e-5, 0.1]}}))
optuna.create_study(sampler=sampler).optimize(objective, n_trials=20)
"""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import optuna
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from warmstart.history_store.errors import LeaseLostError, SpaceExhaustedError, UsageError, WarmstartError
from warmstart.history_store.space import load_space
from warmstart.integrations.optuna.problem import Problem
from warmstart.integrations.optuna.space import to_distributions
from warmstart.studies.objectives.metric import ContradictionError, Metric

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from warmstart.remote_study import RemoteStudy, RemoteTrial

HELD = "warmstart:held"
"""System attribute of a trial: its key to the trial of the server that the sampler holds for it."""
_log = logging.getLogger("warmstart")


@dataclass(frozen=True, slots=True)
class _ServerTrial:
    """A trial of the server that a trial of Optuna evaluates; `life` sends its heartbeats."""

    trial: RemoteTrial
    life: ExitStack
    began: float


class RemoteSampler(BaseSampler):
    """Optuna sampler that takes each trial from a server, renews its lease, and sends its result.

    The Optuna study may be in any storage, also in memory: the server stores the results. Use this for Optuna's loop;
    `RemoteStudy.ask` is simpler for your own loop. Values and direction are those of the server study's metric; without
    a metric, values are errors, negated if the study is maximised. Constraints of a trial, `trial.set_constraint`, are
    sent with its value. One sampler may serve several Optuna studies.

    The server stores results of its own configurations only. A parameter that it does not have, or a range without its
    value, is an error. Configurations of `enqueue_trial` or of the objective are evaluated, but not sent: a warning
    says so once, and the server's trial is released.
    """

    def __init__(self, study: RemoteStudy) -> None:
        """Create the sampler of a study on a server.

        Raises:
            UsageError: the study is tuned together with others: a trial may be of another dataset.
            WarmstartError: no server, or no such study.
        """
        record = study.show()
        if members := record.get("members"):
            msg = f"expected a study that is tuned alone, got {study.name!r}, tuned together with {', '.join(sorted(set(members) - {study.name}))}. Use `RemoteStudy.ask`, whose trials name their study, or begin a study without `members`."
            raise UsageError(msg)
        space = load_space(json.dumps(record["space"]))
        search = record["search"]
        self._remote = study
        self._metric = Metric(search["metric"], search["maximize"], search["scale"])
        self._distributions = to_distributions(space)
        self._is_finite = math.isfinite(Problem(space, self._distributions, is_given=True).encoding.size)
        self._held: dict[str, _ServerTrial] = {}  # by the trials' keys: numbers are unique only in one study
        self._independent = RandomSampler()
        self._is_warned = False

    def reseed_rng(self) -> None:
        """Do nothing: the server draws the configurations."""

    def infer_relative_search_space(
        self,
        study: optuna.Study,  # noqa: ARG002  Optuna's signature
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """Return the parameters of the server's space."""
        return dict(self._distributions)

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Ask the server for a trial; wait while the last ones run elsewhere.

        Raises:
            UsageError: the study's direction is not that of the metric.
            optuna.TrialPruned: every configuration has its trial; Optuna's loop is stopped.
            SpaceExhaustedError: the same, outside of Optuna's loop.
            WarmstartError: the server does not answer.
        """
        self._raise_error_if_multi_objective(study)
        self._check_direction(study)
        key = uuid.uuid4().hex
        study._storage.set_trial_system_attr(trial._trial_id, HELD, key)  # noqa: SLF001
        remote_trial = self._remote.ask()
        if remote_trial is None:
            msg = f"{self._remote.name}: expected a configuration that had no trial yet, got none: every one had its own. End the loop."
            if not _stop(study):
                raise SpaceExhaustedError(msg)
            raise optuna.TrialPruned(msg)
        life = ExitStack()
        life.enter_context(remote_trial.kept_alive())
        self._held[key] = _ServerTrial(remote_trial, life, time.monotonic())
        return {name: value for name, value in remote_trial.config.items() if name in search_space}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter that is inactive in the server's configuration.

        Raises:
            UsageError: the server chose another value, or does not have the parameter; its trial is released.
        """
        server_trial = self._held.get(_mark(trial))
        distribution = self._distributions.get(param_name)
        if distribution is not None and (server_trial is None or param_name not in server_trial.trial.config):
            return self._independent.sample_independent(study, trial, param_name, param_distribution)
        self._release(trial)
        if distribution is None or server_trial is None:
            msg = f"expected a parameter of study {self._remote.name!r} on the server ({', '.join(self._distributions)}), got {param_name!r}. Begin a study whose space has it, or set it in the objective."
        else:
            msg = f"parameter {param_name}: expected a range that holds {server_trial.trial.config[param_name]!r}, which the server chose from {distribution}, got {param_distribution}. Suggest the server's range, or begin a study with this one."
        raise UsageError(msg)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Send the result of a trial to the server, which stores it as an extra trial after the end of its lease.

        A result of another configuration is not sent, and a trial that Ctrl-C ended is released.
        """
        server_trial = self._held.get(_mark(trial))
        if server_trial is None:
            if "fixed_params" in trial.system_attrs:
                self._warn(trial)
            return
        if self._has_other_config(trial, server_trial.trial.config):
            self._warn(trial)
            self._release(trial)
        elif state == TrialState.FAIL and _is_interrupted():
            self._release(trial)
        else:
            self._tell(self._end_heartbeats(trial), study, trial, state, values)
            if self._is_finite and self._remote.show()["exhausted"]:
                _log.info("trial %d: every configuration of the space has its trial, and the study stops", trial.number)
                _stop(study)

    def _tell(
        self,
        server_trial: _ServerTrial,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Send a result to the server; a value outside the metric's scale is a failure, as in `tune`."""
        status = {TrialState.COMPLETE: "ok", TrialState.PRUNED: "pruned"}.get(state, "failed")
        error, curve, note = None, [], ""
        try:
            curve = [(step, self._error(study, value)) for step, value in sorted(trial.intermediate_values.items())]
            error = self._error(study, values[0]) if state == TrialState.COMPLETE and values else None
        except ContradictionError as problem:
            status, note = "failed", str(problem)
            _log.warning("trial %d: %s The server counts it as failed.", trial.number, note)
        try:
            server_trial.trial.tell(
                error,
                status=status,
                curve=curve,
                duration=time.monotonic() - server_trial.began,
                note=note,
                constraints=trial.constraints,
            )
        except LeaseLostError as problem:
            _log.warning(problem.message)

    def _error(self, study: optuna.Study, value: float) -> float:
        """Return the error of a value; raises `ContradictionError` if it is outside the metric's scale."""
        if not self._metric.is_plain:
            return self._metric.to_error(value)
        return -value if study.direction == StudyDirection.MAXIMIZE else value

    def _check_direction(self, study: optuna.Study) -> None:
        """Check that the direction of a study is the metric's."""
        direction = StudyDirection.MAXIMIZE if self._metric.maximize else StudyDirection.MINIMIZE
        if not self._metric.is_plain and study.direction != direction:
            msg = f"expected direction {direction.name.lower()!r} for {self._metric.name} of study {self._remote.name!r} on the server, got {study.direction.name.lower()!r}. Give it to `optuna.create_study`."
            raise UsageError(msg)

    def _has_other_config(self, trial: FrozenTrial, config: Mapping[str, Any]) -> bool:
        """Tell whether a trial ran another configuration than the server's: an enqueued one, or the objective's."""
        for name, value in trial.params.items():
            if name in self._distributions and name in config and config[name] != value:
                return True
            if name not in self._distributions and not trial.distributions[name].single():
                return True
        return False

    def _warn(self, trial: FrozenTrial) -> None:
        """Warn once that results are not sent to the server."""
        if not self._is_warned:
            self._is_warned = True
            _log.warning(
                "trial %d: its configuration is not one that the server chose, so the server is not told of it, nor of others like it; "
                "`initial` of `begin_study` has the server begin with configurations of yours",
                trial.number,
            )

    def _end_heartbeats(self, trial: FrozenTrial) -> _ServerTrial:
        """End the heartbeats of a trial, and return the server's trial."""
        server_trial = self._held.pop(_mark(trial))
        server_trial.life.close()
        return server_trial

    def _release(self, trial: FrozenTrial) -> None:
        """Release the server's trial, if one is held: the server offers it again at once."""
        if _mark(trial) in self._held:
            with contextlib.suppress(WarmstartError):  # its lease ends by itself
                self._end_heartbeats(trial).trial.release()


def _mark(trial: FrozenTrial) -> str:
    """Return the key of a trial to its server's trial; empty without one."""
    mark: str = trial.system_attrs.get(HELD, "")
    return mark


def _stop(study: optuna.Study) -> bool:
    """Stop Optuna's loop; return False without a loop."""
    try:
        study.stop()
    except RuntimeError:
        return False
    return True


def _is_interrupted() -> bool:
    """Tell whether Ctrl-C ended the objective, by the exception that Optuna holds in a local variable until then."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_run_trial":
        frame = frame.f_back
    return frame is not None and isinstance(frame.f_locals.get("func_err"), KeyboardInterrupt)
