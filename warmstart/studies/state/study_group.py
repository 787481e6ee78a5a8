"""Studies of several datasets that are tuned together: they share the trials and learn from each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Self

from optuna.trial import FrozenTrial

from warmstart.bo.related import RelatedTask, thinned
from warmstart.history_store.errors import UsageError
from warmstart.studies.related_dataset import EVALUATIONS, TOTAL
from warmstart.studies.state.attributes import OFFER, RUN
from warmstart.studies.state.lease import Lease
from warmstart.studies.state.leased_trials import LeasedTrial, LeasedTrials
from warmstart.studies.state.sampling import make_sampler
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.split import GainEstimate, equal_next, gain_next
from warmstart.studies.state.storage import Store
from warmstart.studies.state.trial_queue import Run, TrialQueue, Wait, begin, count_begun, find_plan, open_queue

if TYPE_CHECKING:
    from warmstart.integrations.optuna.sampler import WarmStartSampler

LEAST = 2
"""Smallest number of a dataset's errors for others to learn from: a single one has no spread."""
MOST = 6
"""Largest number of datasets that a dataset learns from: the nearest ones."""


class StudyGroup:
    """The trials of one or several studies of one storage, for one worker.

    To choose a trial, a worker holds the first study's `ask_lock`: one worker at a time chooses.
    """

    def __init__(self, queues: Sequence[TrialQueue]) -> None:
        """Create the group of existing studies."""
        self.queues = tuple(queues)

    @classmethod
    def open(cls, store: Store, names: Sequence[str]) -> Self:
        """Open existing studies; raises as `open_queue`."""
        return cls([open_queue(store, name) for name in names])

    @classmethod
    def begin(cls, store: Store, plans: dict[str, StudySpec], complete: Callable[[StudySpec], StudySpec]) -> Self:
        """Open studies by name, and create new ones with their plans; raises as `begin`.

        The plans of all existing studies are checked before a new one is created.
        """
        for name, plan in plans.items():
            stored = find_plan(store, name)
            if stored is not None:
                stored.check_same(plan, f"{store.display_name}:{name}")
        return cls([begin(store, name, complete, plan) for name, plan in plans.items()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Release all claims, and close the connections."""
        with ExitStack() as stack:
            for queue in self.queues:
                stack.push(queue)

    def next(self, total: float) -> tuple[int, Run] | Wait | None:
        """Return the next trial to run and its study's index: a trial that lost its worker, else a new one.

        Args:
            total: number of trials of all studies together.

        Returns: as `TrialQueue.next`.

        Raises:
            StorageError: the storage does not answer.
        """
        first = self.queues[0]
        if len(self.queues) == 1:
            run = first.next(total)
            return (0, run) if isinstance(run, Run) else run
        with first.store.guard(), first.ask_lock():
            return self._next_of_several(total)

    def has_error(self) -> bool:
        """Tell whether any trial of the studies has an error; raises as `next`."""
        return any(trial.state.name == "COMPLETE" for queue in self.queues for trial in queue.trials())

    def _next_of_several(self, total: float) -> tuple[int, Run] | Wait | None:
        """Return the next trial as `next`, holding the first study's `ask_lock`."""
        trials, n_elsewhere = self._trials(), 0
        for i, queue in enumerate(self.queues):
            if any(not trial.state.is_finished() and RUN not in trial.user_attrs for trial in trials[i]):
                queue.study.sampler = self._sampler(i, trials)  # the trial has no configuration yet
            run, running = queue.take_orphan()
            if run is not None:
                return i, run
            n_elsewhere += running
        trials = self._trials()
        free = [i for i, queue in enumerate(self.queues) if not queue.is_exhausted(trials[i])]
        if sum(map(count_begun, trials)) >= total or not free:
            return "wait" if n_elsewhere else None
        i = self._chosen(trials, free)
        return i, self.queues[i].start()

    def _trials(self) -> list[list[FrozenTrial]]:
        return [queue.study.get_trials(deepcopy=False) for queue in self.queues]

    def _chosen(self, all_trials: Sequence[Sequence[FrozenTrial]], free: Sequence[int]) -> int:
        """Return the index of the study that gets the next trial, and set its sampler."""
        counts = [count_begun(trials) for trials in all_trials]
        n_ended = sum(trial.state.is_finished() for trials in all_trials for trial in trials)
        samplers: dict[int, WarmStartSampler] = {}

        def refresh(i: int) -> GainEstimate:
            study, samplers[i] = self.queues[i].study, self._sampler(i, all_trials)
            gain = samplers[i].log_gain(study)
            estimate = GainEstimate(gain if gain is not None and math.isfinite(gain) else None, counts[i], n_ended)
            study.set_user_attr(OFFER, asdict(estimate))
            return estimate

        if self.queues[0].plan.split == "equal":
            chosen = equal_next(counts, free)
        else:
            records = [queue.study.user_attrs.get(OFFER) for queue in self.queues]
            offers = [None if estimate is None else GainEstimate(**estimate) for estimate in records]
            chosen = gain_next(counts, free, offers, n_ended, refresh=refresh)
        self.queues[chosen].study.sampler = samplers.get(chosen) or self._sampler(chosen, all_trials)
        return chosen

    def _sampler(self, i: int, all_trials: Sequence[Sequence[FrozenTrial]]) -> WarmStartSampler:
        """Return the sampler of a study, with the observations of the others."""
        plan = self.queues[i].plan
        nearest = sorted((j for j in range(len(all_trials)) if j != i), key=lambda j: (self._distance(i, j), j))[:MOST]
        room = max(TOTAL - sum(len(task.errors) for task in plan.tasks), TOTAL // 2)
        tasks = [self._task(j, all_trials[j], min(EVALUATIONS, room // len(nearest))) for j in nearest]
        return make_sampler(plan, [task for task in tasks if len(task.errors) >= LEAST])

    def _distance(self, i: int, j: int) -> float:
        """Return the distance between two datasets; 0 without meta-features."""
        first, second = (self.queues[index].plan.meta_feature for index in (i, j))
        return 0.0 if first is None or second is None else math.dist(first, second)

    def _task(self, i: int, trials: Sequence[FrozenTrial], limit: int) -> RelatedTask:
        """Return the thinned observations of a study as a related task."""
        queue = self.queues[i]
        observations = [observation for observation in queue.observations(trials) if observation.valid]
        errors = [observation.error for observation in observations]
        rows = thinned(errors, limit)
        return RelatedTask(
            [observations[row].config for row in rows], [errors[row] for row in rows], queue.plan.meta_feature
        )


def check_different(paths: Sequence[str], fingerprints: Sequence[str | None]) -> None:
    """Check that datasets are several and different.

    Raises:
        UsageError: fewer than two, or two with the same path or images.
    """
    if len(paths) < 2:
        msg = f"tune_many: expected at least two datasets, got {len(paths)}. Use tune for one."
        raise UsageError(msg)
    for j, fingerprint in enumerate(fingerprints):
        i = fingerprints.index(fingerprint)
        if i < j:
            msg = f"expected datasets that differ, got {paths[j]}, which is the same as {paths[i]}. Leave one of them out."
            raise UsageError(msg, param="dataset")


class LeasedGroup(StudyGroup):
    """Group of one or several studies whose trials are leased to clients.

    Attributes:
        members: the studies, sorted by name: all servers and workers must use the same order.
    """

    def __init__(self, members: Sequence[LeasedTrials]) -> None:
        """Create the group of existing studies."""
        super().__init__([member.queue for member in members])
        self.members = tuple(members)

    def ask(
        self, client: str, key: str, *, lease_s: float, total: float = math.inf
    ) -> tuple[LeasedTrials, LeasedTrial] | Wait | None:
        """Lease the next trial of the group to a client; as `LeasedTrials.ask`.

        Args:
            client: name.
            key: of the request; the same key again gets the same trial.
            lease_s: seconds of the lease.
            total: number of trials of all studies together.

        Returns: a trial and its study; "wait" and None as there.

        Raises:
            LeaseLostError: the trial of this key was offered to another client since.
            StorageError: the storage does not answer.
        """
        first = self.members[0]
        if len(self.members) == 1:
            offer = first.ask(client, key, lease_s=lease_s, total=total)
            return (first, offer) if isinstance(offer, LeasedTrial) else offer
        with first.choice_lock():
            for member in self.members:
                earlier = member.earlier_offer(client, key, lease_s=lease_s)
                if earlier is not None:
                    return member, earlier
            next_trial = self._next_of_several(total)
            if next_trial is None or next_trial == "wait":
                return next_trial
            i, run = next_trial
            return self.members[i], self.members[i].offer(run, client, key, lease_s=lease_s, total=total)

    def has_ended(self) -> bool:
        """Tell whether no trial runs and there are as many as clients wanted, or all that there can be.

        Raises:
            StorageError: the storage does not answer.
        """
        with self.queues[0].store.guard():
            trials = self._trials()
        if not all(trial.state.is_finished() for each in trials for trial in each):
            return False
        totals = [lease.total for each in trials for trial in each if (lease := Lease.of(trial)) is not None]
        wanted = math.inf if not totals or None in totals else max(total for total in totals if total is not None)
        are_exhausted = all(queue.is_exhausted(each) for queue, each in zip(self.queues, trials, strict=True))
        return sum(map(count_begun, trials)) >= wanted or are_exhausted
