"""Optuna's own loop over a study on a server of `warmstart serve`.

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
"""System attribute of a trial: its mark among those for which a sampler holds a trial of the server."""
_log = logging.getLogger("warmstart")


@dataclass(frozen=True, slots=True)
class _Held:
    """A trial of the server that a trial of Optuna evaluates; `life` keeps it alive."""

    trial: RemoteTrial
    life: ExitStack
    began: float


class RemoteSampler(BaseSampler):
    """Asks a server for each trial of an Optuna study, keeps its lease, and tells the server what came of it.

    The Optuna study may lie anywhere, in memory too: what counts is kept by the server. Use this where the loop is Optuna's;
    `RemoteStudy.ask` is simpler where it is your own. Values are those of the server study's metric, and the direction is its
    own; where it has no metric, values are errors, and a study that is maximised tells them negated. Constraints of a trial,
    `trial.set_constraint`, are told with its value. One sampler may serve several Optuna studies.

    The server keeps results of its own configurations alone. A parameter that it does not have, or a range that leaves out
    what it chose, is refused. What `enqueue_trial` fixes, or the objective itself, is evaluated, a warning says once that
    the server is not told of it, and its own trial is given back.
    """

    def __init__(self, study: RemoteStudy) -> None:
        """Take a study on a server.

        Raises:
            UsageError: the study is tuned together with others: a trial may be of another dataset.
            WarmstartError: no server there, or no such study.
        """
        shown = study.show()
        if members := shown.get("members"):
            msg = f"expected a study that is tuned alone, got {study.name!r}, tuned together with {', '.join(sorted(set(members) - {study.name}))}. Use `RemoteStudy.ask`, whose trials name their study, or begin a study without `members`."
            raise UsageError(msg)
        space = load_space(json.dumps(shown["space"]))
        search = shown["search"]
        self._remote = study
        self._metric = Metric(search["metric"], search["maximize"], search["scale"])
        self._distributions = to_distributions(space)
        self._is_finite = math.isfinite(Problem(space, self._distributions, is_given=True).encoding.size)
        self._held: dict[str, _Held] = {}  # by the mark that the trial carries: numbers are of one study alone
        self._independent = RandomSampler()
        self._is_warned = False

    def reseed_rng(self) -> None:
        """Do nothing: the server chooses."""

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
        """Ask the server for a trial, and wait where the last ones run elsewhere.

        Raises:
            UsageError: the study's direction is not that of the metric.
            optuna.TrialPruned: every configuration had its trial; Optuna's loop is stopped.
            SpaceExhaustedError: the same, outside of Optuna's loop.
            WarmstartError: the server does not answer.
        """
        self._raise_error_if_multi_objective(study)
        self._check_direction(study)
        mark = uuid.uuid4().hex
        study._storage.set_trial_system_attr(trial._trial_id, HELD, mark)  # noqa: SLF001
        found = self._remote.ask()
        if found is None:
            msg = f"{self._remote.name}: expected a configuration that had no trial yet, got none: every one had its own. End the loop."
            if not _stop(study):
                raise SpaceExhaustedError(msg)
            raise optuna.TrialPruned(msg)
        life = ExitStack()
        life.enter_context(found.kept_alive())
        self._held[mark] = _Held(found, life, time.monotonic())
        return {name: value for name, value in found.config.items() if name in search_space}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter that is inactive in the server's configuration.

        Raises:
            UsageError: the server chose another value, or does not have the parameter; its trial is given back.
        """
        held = self._held.get(_mark(trial))
        known = self._distributions.get(param_name)
        if known is not None and (held is None or param_name not in held.trial.config):
            return self._independent.sample_independent(study, trial, param_name, param_distribution)
        self._give_back(trial)
        if known is None or held is None:
            msg = f"expected a parameter of study {self._remote.name!r} on the server ({', '.join(self._distributions)}), got {param_name!r}. Begin a study whose space has it, or set it in the objective."
        else:
            msg = f"parameter {param_name}: expected a range that holds {held.trial.config[param_name]!r}, which the server chose from {known}, got {param_distribution}. Suggest the server's range, or begin a study with this one."
        raise UsageError(msg)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Tell the server what came of a trial; one whose lease ended is kept there as an extra.

        A configuration that is not the server's is not told, and a trial that Ctrl-C ended is given back.
        """
        held = self._held.get(_mark(trial))
        if held is None:
            if "fixed_params" in trial.system_attrs:
                self._warn(trial)
            return
        if self._is_other(trial, held.trial.config):
            self._warn(trial)
            self._give_back(trial)
        elif state == TrialState.FAIL and _is_interrupted():
            self._give_back(trial)
        else:
            self._tell(self._let_go(trial), study, trial, state, values)
            if self._is_finite and self._remote.show()["exhausted"]:
                _log.info("trial %d: every configuration of the space has its trial, and the study stops", trial.number)
                _stop(study)

    def _tell(
        self,
        held: _Held,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Tell the server what came of a configuration; a value that the metric cannot have is a failure, as in `tune`."""
        status = {TrialState.COMPLETE: "ok", TrialState.PRUNED: "pruned"}.get(state, "failed")
        error, curve, note = None, [], ""
        try:
            curve = [(step, self._error(study, value)) for step, value in sorted(trial.intermediate_values.items())]
            error = self._error(study, values[0]) if state == TrialState.COMPLETE and values else None
        except ContradictionError as problem:
            status, note = "failed", str(problem)
            _log.warning("trial %d: %s The server counts it as failed.", trial.number, note)
        try:
            held.trial.tell(
                error,
                status=status,
                curve=curve,
                duration=time.monotonic() - held.began,
                note=note,
                constraints=trial.constraints,
            )
        except LeaseLostError as problem:
            _log.warning(problem.message)

    def _error(self, study: optuna.Study, value: float) -> float:
        """Return the error that a value stands for; raises `ContradictionError` where it is outside the metric's scale."""
        if not self._metric.is_plain:
            return self._metric.to_error(value)
        return -value if study.direction == StudyDirection.MAXIMIZE else value

    def _check_direction(self, study: optuna.Study) -> None:
        """Refuse a direction that is not the metric's."""
        wanted = StudyDirection.MAXIMIZE if self._metric.maximize else StudyDirection.MINIMIZE
        if not self._metric.is_plain and study.direction != wanted:
            msg = f"expected direction {wanted.name.lower()!r} for {self._metric.name} of study {self._remote.name!r} on the server, got {study.direction.name.lower()!r}. Give it to `optuna.create_study`."
            raise UsageError(msg)

    def _is_other(self, trial: FrozenTrial, config: Mapping[str, Any]) -> bool:
        """Tell whether a trial ran another configuration: one that was enqueued, or that the objective fixed."""
        for name, value in trial.params.items():
            if name in self._distributions and name in config and config[name] != value:
                return True
            if name not in self._distributions and not trial.distributions[name].single():
                return True
        return False

    def _warn(self, trial: FrozenTrial) -> None:
        """Say once that a result stays here."""
        if not self._is_warned:
            self._is_warned = True
            _log.warning(
                "trial %d: its configuration is not one that the server chose, so the server is not told of it, nor of others like it; "
                "`initial` of `begin_study` has the server begin with configurations of yours",
                trial.number,
            )

    def _let_go(self, trial: FrozenTrial) -> _Held:
        """End the heartbeats of a trial."""
        held = self._held.pop(_mark(trial))
        held.life.close()
        return held

    def _give_back(self, trial: FrozenTrial) -> None:
        """Give the server's trial back, where one is held: it offers it again at once."""
        if _mark(trial) in self._held:
            with contextlib.suppress(WarmstartError):  # its lease ends by itself
                self._let_go(trial).trial.release()


def _mark(trial: FrozenTrial) -> str:
    """Return what tells the trials of all studies apart; empty where the server was not asked for one."""
    mark: str = trial.system_attrs.get(HELD, "")
    return mark


def _stop(study: optuna.Study) -> bool:
    """Stop Optuna's loop; tells whether there is one."""
    try:
        study.stop()
    except RuntimeError:
        return False
    return True


def _is_interrupted() -> bool:
    """Tell whether Ctrl-C ended the objective: Optuna raises it again once the trial was told, and keeps it till then."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_run_trial":
        frame = frame.f_back
    return frame is not None and isinstance(frame.f_locals.get("func_err"), KeyboardInterrupt)
