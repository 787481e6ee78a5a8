"""The trials of a study as clients elsewhere share them: each is leased, and what they tell is kept, late or not.

For the threads of a server: one at a time chooses trials, which may take long; reports, results and signs of life do not
wait for it.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warmstart.history_store.errors import LeaseLostError, UsageError
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.state.lease import EXTRA, LEASE, MOST_OFFERS, Lease
from warmstart.studies.state.reported_steps import as_reported
from warmstart.studies.state.trial_queue import OUTCOME, RUN, Run, TrialQueue, Wait, begun, outcome_to_dict

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from warmstart.bo.transfer.expected_error import ExpectedError


@dataclass(frozen=True, slots=True)
class LeasedTrial:
    """A trial that a client has; the same request again gets the same.

    Attributes:
        run: what to evaluate.
        lease: until when.
        is_over: it was told of already.
    """

    run: Run
    lease: Lease
    is_over: bool = False


class LeasedTrials:
    """Leases trials of a study to clients."""

    def __init__(self, queue: TrialQueue, *, clock: Callable[[], float] = time.time) -> None:
        """Take a study; `clock` tells the seconds since 1970."""
        self.queue, self._clock, self._choosing = queue, clock, threading.Lock()

    def ask(self, client: str, key: str, *, lease_s: float, total: float = math.inf) -> LeasedTrial | Wait | None:
        """Offer a trial: one that lost its client or worker, else a new one.

        Args:
            client: who asks.
            key: of the request; the same key again gets the same trial.
            lease_s: seconds in which it is heard of again.
            total: trials that the study shall have.

        Returns: a trial; "wait" where the last ones run elsewhere; None where all are over, or every configuration had one.

        Raises:
            LeaseLostError: the trial of this key was offered to another client since.
            StorageError: the storage does not answer.
        """
        queue = self.queue
        with self.choosing():
            known = self.known(client, key, lease_s=lease_s)
            if known is not None:
                return known
            run, under_way = queue.orphan()
            if run is None:
                trials = queue.study.get_trials(deepcopy=False)
                if begun(trials) >= total or queue.is_exhausted(trials):
                    return "wait" if under_way else None
                run = queue.start()
            return self.offer(run, client, key, lease_s=lease_s)

    @contextlib.contextmanager
    def choosing(self) -> Iterator[None]:
        """Let one thread, of one process, choose trials of the study at a time; raises `StorageError`."""
        with self._choosing, self.queue.store.guard(), self.queue.asking():
            yield

    def known(self, client: str, key: str, *, lease_s: float) -> LeasedTrial | None:
        """Return the trial of an earlier request, for who is `choosing`; where there is none, trials without hope are ended.

        Raises as `ask`.
        """
        key = f"{client}:{key}"
        with self.queue.leasing():
            trials = self.queue.study.get_trials(deepcopy=False)
            found = next((trial for trial in trials if key in _keys(trial)), None)
            if found is not None:
                return self._again(found, client, key, lease_s)
            self._give_up(trials)
            return None

    def offer(self, run: Run, client: str, key: str, *, lease_s: float) -> LeasedTrial:
        """Lease a trial of this process to a client, for who is `choosing`."""
        before = Lease.of(self._trial(run.number)) or Lease("", 0.0)
        lease = before.offered(client, self._clock() + lease_s, f"{client}:{key}")
        self._write(run.trial_id, lease)
        self.queue.let_go(run)  # from here on the lease keeps others away, also when this process is gone
        return LeasedTrial(run, lease)

    def renew(self, number: int, client: str, *, lease_s: float) -> Lease:
        """Go on holding a trial.

        Raises:
            UsageError: no such trial.
            LeaseLostError: the client does not hold it, or no longer.
            StorageError: the storage does not answer.
        """
        with self.queue.store.guard(), self.queue.leasing():
            trial, lease = self._held(number, client)
            return self._renewed(trial, lease, lease_s)

    def report(self, number: int, client: str, step: float, error: float, *, lease_s: float) -> tuple[bool, Lease]:
        """Keep what a trial reports, and renew its lease; tells whether the pruner would stop it here. Raises as `renew`."""
        with self.queue.store.guard(), self.queue.leasing():
            trial, lease = self._held(number, client)
            stop = self.queue.report(_run(trial), step, error)
            self.queue.flush()  # what a server acknowledged is written
            return stop, self._renewed(trial, lease, lease_s)

    def heading(self, number: int) -> ExpectedError | None:
        """Forecast the final error of a trial, where the study's pruner does."""
        with self.queue.store.guard(), self.queue.leasing():
            return self.queue.heading(self._trial(number), self.queue.trials())

    def release(self, number: int, client: str) -> FrozenTrial:
        """Take a trial back from who ends without a result: it is offered again at once, and the offer does not count.

        Returns: the trial; the same request again changes nothing. Raises as `renew`.
        """
        with self.queue.store.guard(), self.queue.leasing():
            trial = self._trial(number)
            known = Lease.of(trial)
            if known is None or known.client or client not in known.released:
                trial, lease = self._held(number, client)
                self._write(trial._trial_id, lease.given_back())  # noqa: SLF001  Optuna's storages know trials by it
            return self._trial(number)

    def tell(self, number: int, client: str, outcome: Outcome) -> FrozenTrial:
        """Keep what came of a trial; the same again changes nothing.

        Returns: the trial, ended.

        Raises:
            UsageError: no such trial.
            LeaseLostError: the client does not hold it, or no longer; a result that came too late is kept as an extra trial.
            StorageError: the storage does not answer.
        """
        queue = self.queue
        with queue.store.guard(), queue.leasing():
            trial = self._trial(number)
            lease = Lease.of(trial)
            if not outcome.curve:
                outcome = replace(outcome, curve=_reported(trial))
            if lease is None or not lease.knows(client):
                raise _not_held(number, client)
            told = trial.user_attrs.get(OUTCOME)
            if client == lease.client and told is not None and _same(told, outcome):
                queue.end(_run(trial), outcome)  # it may have been cut short between its two writes
                return self._trial(number)
            if not trial.state.is_finished() and client == lease.client and lease.until > self._clock():
                queue.end(_run(trial), outcome)
                return self._trial(number)
            if trial.state.is_finished() and client == lease.client:
                msg = (
                    f"trial {number}: expected to be told once, got another result than before. Ask for another trial."
                )
                raise LeaseLostError(msg)
            kept = self._keep(trial, client, outcome)
        msg = f"trial {number}: expected a result before its lease ended, got one {_late(lease, self._clock())}. It is kept as trial {kept}, an extra; renew leases by heartbeats, or ask for longer ones."
        raise LeaseLostError(msg)

    def _again(self, trial: FrozenTrial, client: str, key: str, lease_s: float) -> LeasedTrial:
        """Return the trial of an earlier request once more."""
        lease = Lease.of(trial)
        assert lease is not None  # noqa: S101  it has the key
        if lease.keys[-1] != key or lease.client != client:
            went = f"went to {lease.client!r}" if lease.client else "was given back"
            msg = f"expected a key whose trial the client still holds, got that of trial {trial.number}, which {went}. Ask with another key."
            raise LeaseLostError(msg)
        if not trial.state.is_finished():
            is_over = lease.until <= self._clock()  # the answer was lost, or took as long as the lease
            if is_over and not self.queue.hold(trial.number):
                msg = f"expected a key whose trial the client still holds, got that of trial {trial.number}, which runs elsewhere. Ask with another key."
                raise LeaseLostError(msg)
            lease = self._renewed(trial, lease, lease_s)
            if is_over:
                self.queue.let_go(_run(trial))
        return LeasedTrial(_run(trial), lease, trial.state.is_finished())

    def _give_up(self, trials: Sequence[FrozenTrial]) -> None:
        """End trials that were offered as often as may be, and whose last client is not heard of."""
        for trial in trials:
            lease = None if trial.state.is_finished() else Lease.of(trial)
            if lease is None or len(lease.clients) < MOST_OFFERS or lease.until > self._clock():
                continue
            if RUN in trial.user_attrs and OUTCOME not in trial.user_attrs and self.queue.hold(trial.number):
                self._write(trial._trial_id, lease.given_up())  # noqa: SLF001  Optuna's storages know trials by it
                note = f"no word of {', '.join(lease.clients)} before their leases ended"
                self.queue.end(_run(trial), Outcome(None, TrialStatus.KILLED, math.nan, note, _reported(trial)))

    def _held(self, number: int, client: str) -> tuple[FrozenTrial, Lease]:
        """Find a trial that a client holds."""
        trial = self._trial(number)
        lease = Lease.of(trial)
        if lease is None or not lease.knows(client):
            raise _not_held(number, client)
        if trial.state.is_finished() and lease.client == client:
            msg = f"trial {number}: expected one that runs, got one that ended as it was told. Ask for another trial."
            raise LeaseLostError(msg)
        if trial.state.is_finished() or lease.client != client or lease.until <= self._clock():
            msg = f"trial {number}: expected a lease that {client!r} holds, got one that ended. Stop the trial, and ask for another; what you tell of it is kept as an extra."
            raise LeaseLostError(msg)
        return trial, lease

    def _renewed(self, trial: FrozenTrial, lease: Lease, lease_s: float) -> Lease:
        found = lease.renewed(self._clock() + lease_s)
        self._write(trial._trial_id, found)  # noqa: SLF001  Optuna's storages know trials by it
        return found

    def _write(self, trial_id: int, lease: Lease) -> None:
        self.queue.store.optuna.set_trial_user_attr(trial_id, LEASE, lease.to_dict())

    def _trial(self, number: int) -> FrozenTrial:
        """Read a trial by its number, with the steps that it reported."""
        storage, study = self.queue.store.optuna, self.queue.study
        try:
            trial_id = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)  # noqa: SLF001
        except KeyError as error:
            msg = f"expected the number of a trial of {study.study_name!r}, got {number}. Ask for one."
            raise UsageError(msg, param="number") from error
        return as_reported(storage.get_trial(trial_id))

    def _keep(self, trial: FrozenTrial, client: str, outcome: Outcome) -> int:
        """Add a late result as a trial of its own, once; returns its number."""
        from optuna.trial import TrialState, create_trial

        mark = {"of": trial.number, "client": client}
        study = self.queue.study
        for other in study.get_trials(deepcopy=False):
            if other.user_attrs.get(EXTRA) == mark and _same(other.user_attrs[OUTCOME], outcome):
                return other.number
        pruned = outcome.status is TrialStatus.PRUNED
        ended = TrialState.COMPLETE if outcome.error is not None else TrialState.PRUNED if pruned else TrialState.FAIL
        made = create_trial(
            state=ended,
            value=outcome.error,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={RUN: trial.user_attrs[RUN], OUTCOME: outcome_to_dict(outcome), EXTRA: mark},
            constraints=dict(outcome.constraints) or None,
        )
        study.add_trial(made)
        return max(other.number for other in study.get_trials(deepcopy=False) if other.user_attrs.get(EXTRA) == mark)


def _run(trial: FrozenTrial) -> Run:
    return Run(trial.number, trial._trial_id, **trial.user_attrs[RUN])  # noqa: SLF001


def _keys(trial: FrozenTrial) -> Sequence[str]:
    keys: Sequence[str] = trial.user_attrs.get(LEASE, {}).get("keys", ())
    return keys


def _reported(trial: FrozenTrial) -> tuple[tuple[float, float], ...]:
    return tuple((float(step), error) for step, error in sorted(as_reported(trial).intermediate_values.items()))


def _same(told: object, outcome: Outcome) -> bool:
    """Tell whether an outcome is the one that is kept; how it was reported besides does not matter."""
    new = outcome_to_dict(outcome)
    return isinstance(told, dict) and all(told[name] == new[name] for name in ("error", "status", "metrics"))


def _not_held(number: int, client: str) -> LeaseLostError:
    msg = f"trial {number}: expected one that was offered to {client!r}, got another's. Ask for one under this name."
    return LeaseLostError(msg)


def _late(lease: Lease, now: float) -> str:
    """Say why a result came too late."""
    if not lease.client and not lease.until:
        return "of a trial that was given back"
    return f"{now - lease.until:.1f} s after it" if now > lease.until else "of a trial that another client holds"
