"""Optuna's own loop over a study on a server of `warmstart serve`.

import optuna, warmstart
from warmstart.integrations.optuna_remote import RemoteSampler

client = warmstart.Client("http://127.0.0.1:8383")
sampler = RemoteSampler(client.begin_study("photos", space={"lr": {"log": [1e-5, 0.1]}}))
optuna.create_study(sampler=sampler).optimize(objective, n_trials=20)
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import optuna
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from history_store.errors import LeaseLostError, SpaceExhaustedError
from history_store.space import load_space
from warmstart.integrations.optuna.space import to_distributions

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from warmstart.remote_study import RemoteStudy, RemoteTrial

WAIT_S = 1.0


class RemoteSampler(BaseSampler):
    """Asks a server for each trial of an Optuna study, keeps its lease, and tells the server what came of it.

    The Optuna study may lie anywhere, in memory too: what counts is kept by the server. Use this where the loop is Optuna's;
    `RemoteStudy.ask` is simpler where it is your own. A study that is maximised tells its values negated.
    """

    def __init__(self, study: RemoteStudy) -> None:
        """Take a study on a server.

        Raises:
            WarmstartError: no server there, or no such study.
        """
        self._remote = study
        self._distributions = to_distributions(load_space(json.dumps(study.show()["space"])))
        self._held: dict[int, tuple[RemoteTrial, ExitStack]] = {}
        self._independent = RandomSampler()

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
        study: optuna.Study,  # noqa: ARG002
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Ask the server for a trial, and wait where the last ones run elsewhere.

        Raises:
            SpaceExhaustedError: every configuration had its trial.
            WarmstartError: the server does not answer.
        """
        while (found := self._remote.ask()) == "wait":
            time.sleep(WAIT_S)
        if found is None or isinstance(found, str):
            msg = f"{self._remote.name}: expected a configuration that had no trial yet, got none: every one had its own. End the loop."
            raise SpaceExhaustedError(msg)
        life = ExitStack()
        life.enter_context(found.kept_alive())
        self._held[trial.number] = found, life
        return {name: value for name, value in found.config.items() if name in search_space}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter that the server's space does not have."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Tell the server what came of a trial; one whose lease ended is kept there as an extra."""
        held = self._held.pop(trial.number, None)
        if held is None:
            return
        found, life = held
        life.close()
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        status = {TrialState.COMPLETE: "ok", TrialState.PRUNED: "pruned"}.get(state, "failed")
        curve = [(step, sign * value) for step, value in sorted(trial.intermediate_values.items())]
        error = sign * values[0] if state == TrialState.COMPLETE and values else None
        duration = None if trial.duration is None else trial.duration.total_seconds()
        try:
            found.tell(error, status=status, curve=curve, duration=duration)
        except LeaseLostError as problem:
            optuna.logging.get_logger(__name__).warning(problem.message)
