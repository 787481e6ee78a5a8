"""The trials of a study, leased to remote clients; all their results are stored, late or not.

For the threads of a server: one at a time chooses trials, which may take long; reports, results and heartbeats do not
wait for it.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from optuna.trial import FrozenTrial, TrialState, create_trial

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.errors import LeaseLostError, UsageError
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.state.attributes import EXTRA, LEASE, OUTCOME, RUN
from warmstart.studies.state.lease import MOST_OFFERS, TOKEN_END, Lease, lease_time
from warmstart.studies.state.reported_steps import as_reported
from warmstart.studies.state.trial_queue import Run, TrialQueue, Wait, count_begun, outcome_to_dict


@dataclass(frozen=True, slots=True)
class LeasedTrial:
    """A trial leased to a client; the same request again gets the same trial.

    Attributes:
        run: the trial with its configuration.
        lease: of the trial.
        is_over: whether the trial has ended.
    """

    run: Run
    lease: Lease
    is_over: bool = False


class LeasedTrials:
    """The trials of a study that are leased to clients."""

    def __init__(self, queue: TrialQueue, *, clock: Callable[[], float] = lease_time) -> None:
        """Create the leases of a study; `clock` returns the seconds since 1970."""
        self.queue, self._clock, self._choice_mutex = queue, clock, threading.Lock()
        self._offered: set[tuple[int, str, str]] = set()

    def ask(self, client: str, key: str, *, lease_s: float, total: float = math.inf) -> LeasedTrial | Wait | None:
        """Lease a trial to a client: one that lost its client or worker, else a new one.

        Args:
            client: name.
            key: of the request; the same key again gets the same trial.
            lease_s: seconds of the lease.
            total: number of trials of the study.

        Returns: a trial; "wait" if the last trials run elsewhere; None if all ended or every configuration has a trial.

        Raises:
            LeaseLostError: the trial of this key was offered to another client since.
            StorageError: the storage does not answer.
        """
        queue = self.queue
        with self.choice_lock():
            earlier = self.earlier_offer(client, key, lease_s=lease_s)
            if earlier is not None:
                return earlier
            run, n_elsewhere = queue.take_orphan()
            if run is None:
                trials = queue.study.get_trials(deepcopy=False)
                if count_begun(trials) >= total or queue.is_exhausted(trials):
                    return "wait" if n_elsewhere else None
                run = queue.start()
            return self.offer(run, client, key, lease_s=lease_s, total=total)

    @contextlib.contextmanager
    def choice_lock(self) -> Iterator[None]:
        """Hold the locks for choosing a trial, against other threads and processes; raises `StorageError`."""
        with self._choice_mutex, self.queue.store.guard(), self.queue.ask_lock():
            yield

    def earlier_offer(self, client: str, key: str, *, lease_s: float) -> LeasedTrial | None:
        """Return the trial of an earlier request, holding `choice_lock`; if none, end trials whose clients are lost.

        Raises as `ask`.
        """
        key = f"{client}:{key}"
        with self.queue.lease_lock():
            trials = self.queue.study.get_trials(deepcopy=False)
            match = next((trial for trial in trials if key in _keys(trial)), None)
            if match is not None:
                return self._repeat_offer(match, client, key, lease_s)
            self._end_lost_trials(trials)
            return None

    def offer(self, run: Run, client: str, key: str, *, lease_s: float, total: float) -> LeasedTrial:
        """Lease a trial that this process claims to a client, holding `choice_lock`."""
        before = Lease.of(self._trial(run.number)) or Lease("", 0.0)
        lease = before.with_offer(client, self._clock() + lease_s, f"{client}:{key}", total)
        self._write(run.trial_id, lease)
        self._offered.add((run.number, client, key.partition(TOKEN_END)[0]))  # and stays so
        self.queue.release_claim(
            run
        )  # the lease is stored: it protects the trial from here on, also after this process
        return LeasedTrial(run, lease)

    def renew(self, number: int, client: str, *, lease_s: float) -> Lease:
        """Renew the lease of a trial.

        Raises:
            UsageError: no such trial.
            LeaseLostError: the client does not hold it, or no longer.
            StorageError: the storage does not answer.
        """
        with self.queue.store.guard(), self.queue.lease_lock():
            trial, lease = self._held_trial(number, client)
            return self._renew(trial, lease, lease_s)

    def report(self, number: int, client: str, step: float, error: float, *, lease_s: float) -> tuple[bool, Lease]:
        """Store a report of a trial, renew its lease, return whether the pruner would stop it. Raises as `renew`."""
        with self.queue.store.guard(), self.queue.lease_lock():
            trial, lease = self._held_trial(number, client)
            stop = self.queue.report(_run(trial), step, error)
            self.queue.flush()  # an acknowledged report must be written
            return stop, self._renew(trial, lease, lease_s)

    def is_for(self, number: int, client: str, token: str) -> bool:
        """Tell whether a trial was offered to a client who asked with a token; also if nobody did. Raises as `renew`."""
        if (number, client, token) in self._offered:
            return True
        with self.queue.store.guard():
            lease = Lease.of(self._trial(number))
        return lease is None or lease.is_for(client, token)

    def heading(self, number: int) -> ExpectedError | None:
        """Forecast the final error of a trial; None without a pruner ``history``."""
        with self.queue.store.guard(), self.queue.lease_lock():
            return self.queue.heading(self._trial(number), self.queue.trials())

    def release(self, number: int, client: str) -> FrozenTrial:
        """Release a trial of a client that ends without a result: it is offered again; the offer does not count.

        Returns: the trial; the same request again changes nothing. Raises as `renew`.
        """
        with self.queue.store.guard(), self.queue.lease_lock():
            trial = self._trial(number)
            stored = Lease.of(trial)
            if stored is None or stored.client or client not in stored.released:
                trial, lease = self._held_trial(number, client)
                self._write(trial._trial_id, lease.after_release())  # noqa: SLF001  Optuna's storages know trials by it
            return self._trial(number)

    def tell(self, number: int, client: str, outcome: Outcome) -> FrozenTrial:
        """Store the outcome of a trial; the same again changes nothing.

        Returns: the trial, ended.

        Raises:
            UsageError: no such trial.
            LeaseLostError: the client does not hold it, or no longer; a late result is stored as an extra trial.
            StorageError: the storage does not answer.
        """
        queue = self.queue
        with queue.store.guard(), queue.lease_lock():
            trial = self._trial(number)
            lease = Lease.of(trial)
            if not outcome.curve:
                outcome = replace(outcome, curve=_reported_curve(trial))
            if lease is None or not lease.was_held_by(client):
                raise _not_offered_error(number, client)
            stored = trial.user_attrs.get(OUTCOME)
            if client == lease.client and stored is not None and _is_same(stored, outcome):
                queue.end(_run(trial), outcome)  # the server may have been killed between its two writes
                return self._trial(number)
            if not trial.state.is_finished() and client == lease.client and lease.until > self._clock():
                queue.end(_run(trial), outcome)
                return self._trial(number)
            if trial.state.is_finished() and client == lease.client:
                msg = (
                    f"trial {number}: expected to be told once, got another result than before. Ask for another trial."
                )
                raise LeaseLostError(msg)
            extra_number, is_kept = self._store_late_result(trial, client, outcome)
        if not is_kept:
            msg = f"trial {number}: expected one late result of {client!r}, got another than the one kept as trial {extra_number}, an extra. It is not kept; ask for another trial."
            raise LeaseLostError(msg)
        msg = f"trial {number}: expected a result before its lease ended, got one {_lateness(lease, self._clock())}. It is kept as trial {extra_number}, an extra; renew leases by heartbeats, or ask for longer ones."
        raise LeaseLostError(msg)

    def _repeat_offer(self, trial: FrozenTrial, client: str, key: str, lease_s: float) -> LeasedTrial:
        """Return the trial of an earlier request again."""
        lease = Lease.of(trial)
        assert lease is not None  # noqa: S101  it has the key
        if lease.keys[-1] != key or lease.client != client:
            fate = f"went to {lease.client!r}" if lease.client else "was given back"
            msg = f"expected a key whose trial the client still holds, got that of trial {trial.number}, which {fate}. Ask with another key."
            raise LeaseLostError(msg)
        if not trial.state.is_finished():
            is_over = lease.until <= self._clock()  # the first answer was lost, or took as long as the lease
            if is_over and not self.queue.claim(trial.number):
                msg = f"expected a key whose trial the client still holds, got that of trial {trial.number}, which runs elsewhere. Ask with another key."
                raise LeaseLostError(msg)
            lease = self._renew(trial, lease, lease_s)
            if is_over:
                self.queue.release_claim(_run(trial))
        return LeasedTrial(_run(trial), lease, trial.state.is_finished())

    def _end_lost_trials(self, trials: Sequence[FrozenTrial]) -> None:
        """End trials with `MOST_OFFERS` offers whose last lease expired."""
        for trial in trials:
            lease = None if trial.state.is_finished() else Lease.of(trial)
            if lease is None or len(lease.clients) < MOST_OFFERS or lease.until > self._clock():
                continue
            if RUN in trial.user_attrs and OUTCOME not in trial.user_attrs and self.queue.claim(trial.number):
                self._write(trial._trial_id, lease.after_expiry())  # noqa: SLF001  Optuna's storages know trials by it
                note = f"no word of {', '.join(lease.clients)} before their leases ended"
                self.queue.end(_run(trial), Outcome(None, TrialStatus.KILLED, math.nan, note, _reported_curve(trial)))

    def _held_trial(self, number: int, client: str) -> tuple[FrozenTrial, Lease]:
        """Return a trial that a client holds, and its lease; raises as `renew`."""
        trial = self._trial(number)
        lease = Lease.of(trial)
        if lease is None or not lease.was_held_by(client):
            raise _not_offered_error(number, client)
        if trial.state.is_finished() and lease.client == client:
            msg = f"trial {number}: expected one that runs, got one that ended as it was told. Ask for another trial."
            raise LeaseLostError(msg)
        if trial.state.is_finished() or lease.client != client or lease.until <= self._clock():
            msg = f"trial {number}: expected a lease that {client!r} holds, got one that ended. Stop the trial, and ask for another; what you tell of it is kept as an extra."
            raise LeaseLostError(msg)
        return trial, lease

    def _renew(self, trial: FrozenTrial, lease: Lease, lease_s: float) -> Lease:
        renewal = lease.with_end(self._clock() + lease_s)
        self._write(trial._trial_id, renewal)  # noqa: SLF001  Optuna's storages know trials by it
        return renewal

    def _write(self, trial_id: int, lease: Lease) -> None:
        self.queue.storage.set_trial_user_attr(trial_id, LEASE, lease.to_dict())

    def _trial(self, number: int) -> FrozenTrial:
        """Return a trial by its number, with its steps as reported."""
        storage, study = self.queue.storage, self.queue.study
        try:
            trial_id = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)  # noqa: SLF001
        except KeyError as error:
            msg = f"expected the number of a trial of {study.study_name!r}, got {number}. Ask for one."
            raise UsageError(msg, param="number") from error
        return as_reported(storage.get_trial(trial_id))

    def _store_late_result(self, trial: FrozenTrial, client: str, outcome: Outcome) -> tuple[int, bool]:
        """Add a late result as an extra trial, one for each lease; return its number, and whether it is the result."""
        mark = {"of": trial.number, "client": client}
        study = self.queue.study
        extras = [each for each in study.get_trials(deepcopy=False) if each.user_attrs.get(EXTRA) == mark]
        lease = Lease.of(trial)
        n_leases = 1 if lease is None else [*lease.clients, *lease.released].count(client)
        same = [extra for extra in extras if _is_same(extra.user_attrs[OUTCOME], outcome)]
        if same or len(extras) >= n_leases:
            return (same or extras)[-1].number, bool(same)
        pruned = outcome.status is TrialStatus.PRUNED
        ended = TrialState.COMPLETE if outcome.error is not None else TrialState.PRUNED if pruned else TrialState.FAIL
        extra = create_trial(
            state=ended,
            value=outcome.error,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={RUN: trial.user_attrs[RUN], OUTCOME: outcome_to_dict(outcome), EXTRA: mark},
            constraints=dict(outcome.constraints) or None,
        )
        study.add_trial(extra)
        numbers = (each.number for each in study.get_trials(deepcopy=False) if each.user_attrs.get(EXTRA) == mark)
        return max(numbers), True


def _run(trial: FrozenTrial) -> Run:
    return Run(trial.number, trial._trial_id, **trial.user_attrs[RUN])  # noqa: SLF001


def _keys(trial: FrozenTrial) -> Sequence[str]:
    keys: Sequence[str] = trial.user_attrs.get(LEASE, {}).get("keys", ())
    return keys


def _reported_curve(trial: FrozenTrial) -> tuple[tuple[float, float], ...]:
    return tuple((float(step), error) for step, error in sorted(as_reported(trial).intermediate_values.items()))


def _is_same(stored: object, outcome: Outcome) -> bool:
    """Tell whether an outcome has the error, status and metrics of a stored one."""
    new = outcome_to_dict(outcome)
    return isinstance(stored, dict) and all(stored[name] == new[name] for name in ("error", "status", "metrics"))


def _not_offered_error(number: int, client: str) -> LeaseLostError:
    msg = f"trial {number}: expected one that was offered to {client!r}, got another's. Ask for one under this name."
    return LeaseLostError(msg)


def _lateness(lease: Lease, now: float) -> str:
    """Return why a result is late, as text."""
    if not lease.client and not lease.until:
        return "of a trial that was given back"
    return f"{now - lease.until:.1f} s after it" if now > lease.until else "of a trial that another client holds"
