"""Studies of several datasets that are tuned together: one number of trials for all, each learning from the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Self

from warmstart.history_store.errors import UsageError
from warmstart.studies.related_dataset import EVALUATIONS, TOTAL
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.split import GainEstimate, equal_next, gain_next
from warmstart.studies.state.storage import Store
from warmstart.studies.state.trial_queue import RUN, Run, TrialQueue, Wait, begin, begun, find_plan, open_queue

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from warmstart.bo.related import RelatedTask
    from warmstart.integrations.optuna.sampler import WarmStartSampler

OFFER = "warmstart:offer"
"""User attribute of a study: what its next trial promised when that was computed last."""
LEAST = 2
"""Errors of a dataset from which others learn: one alone has no spread."""
MOST = 6
"""Datasets that one learns from, the nearest."""


class StudyGroup:
    """The trials of several studies of one storage, or of one alone, for one worker.

    Whoever chooses a trial holds the first study's claim on asking, so that one worker at a time chooses.
    """

    def __init__(self, queues: Sequence[TrialQueue]) -> None:
        """Take studies; all have been begun."""
        self.queues = tuple(queues)

    @classmethod
    def open(cls, store: Store, names: Sequence[str]) -> Self:
        """Open studies that were begun; raises as `open_queue`."""
        return cls([open_queue(store, name) for name in names])

    @classmethod
    def begin(cls, store: Store, wanted: dict[str, StudySpec], complete: Callable[[StudySpec], StudySpec]) -> Self:
        """Open studies by their names, made with their plans where they are new; raises as `begin`.

        None is made before all that are there were found to have the plan that is wanted.
        """
        for name, plan in wanted.items():
            known = find_plan(store, name)
            if known is not None:
                known.check_same(plan, f"{store.shown}:{name}")
        return cls([begin(store, name, complete, plan) for name, plan in wanted.items()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Return all claims back, and close the connections."""
        with ExitStack() as stack:
            for queue in self.queues:
                stack.push(queue)

    def next(self, total: float) -> tuple[int, Run] | Wait | None:
        """Return the next trial to run, and which study it is of: one that lost its worker, else a new one.

        Args:
            total: trials that all studies shall have together.

        Returns: as `TrialQueue.next`.

        Raises:
            StorageError: when the storage does not answer.
        """
        first = self.queues[0]
        if len(self.queues) == 1:
            run = first.next(total)
            return (0, run) if isinstance(run, Run) else run
        with first.store.guard(), first.asking():
            return self._next_of_several(total)

    def has_error(self) -> bool:
        """Tell whether a trial of any of the studies gave an error; raises as `next`."""
        return any(trial.state.name == "COMPLETE" for queue in self.queues for trial in queue.trials())

    def _next_of_several(self, total: float) -> tuple[int, Run] | Wait | None:
        """Return the next trial, for who is asking the first study; as `next`."""
        every, under_way = self._trials(), 0
        for i, queue in enumerate(self.queues):
            if any(not trial.state.is_finished() and RUN not in trial.user_attrs for trial in every[i]):
                queue.study.sampler = self._sampler(i, every)  # it was under way to its configuration
            found, running = queue.orphan()
            if found is not None:
                return i, found
            under_way += running
        every = self._trials()
        free = [i for i, queue in enumerate(self.queues) if not queue.is_exhausted(every[i])]
        if sum(map(begun, every)) >= total or not free:
            return "wait" if under_way else None
        i = self._chosen(every, free)
        return i, self.queues[i].start()

    def _trials(self) -> list[list[FrozenTrial]]:
        return [queue.study.get_trials(deepcopy=False) for queue in self.queues]

    def _chosen(self, every: Sequence[Sequence[FrozenTrial]], free: Sequence[int]) -> int:
        """Choose the study that gets the next trial, and give it the sampler that suggests."""
        counts = [begun(trials) for trials in every]
        told = sum(trial.state.is_finished() for trials in every for trial in trials)
        made: dict[int, WarmStartSampler] = {}

        def refresh(i: int) -> GainEstimate:
            study, made[i] = self.queues[i].study, self._sampler(i, every)
            gain = made[i].log_gain(study)
            estimate = GainEstimate(gain if gain is not None and math.isfinite(gain) else None, counts[i], told)
            study.set_user_attr(OFFER, asdict(estimate))
            return estimate

        if self.queues[0].plan.split == "equal":
            chosen = equal_next(counts, free)
        else:
            known = [queue.study.user_attrs.get(OFFER) for queue in self.queues]
            offers = [None if estimate is None else GainEstimate(**estimate) for estimate in known]
            chosen = gain_next(counts, free, offers, told, refresh=refresh)
        self.queues[chosen].study.sampler = made.get(chosen) or self._sampler(chosen, every)
        return chosen

    def _sampler(self, i: int, every: Sequence[Sequence[FrozenTrial]]) -> WarmStartSampler:
        """Make the sampler of a study, with what was told of the others."""
        plan = self.queues[i].plan
        others = sorted((j for j in range(len(every)) if j != i), key=lambda j: (self._distance(i, j), j))[:MOST]
        room = max(TOTAL - sum(len(task.errors) for task in plan.tasks), TOTAL // 2)
        tasks = [self._task(j, every[j], min(EVALUATIONS, room // len(others))) for j in others]
        return plan.sampler([task for task in tasks if len(task.errors) >= LEAST])

    def _distance(self, i: int, j: int) -> float:
        """Measure how far datasets are apart; 0 where nothing tells."""
        ours, theirs = (self.queues[which].plan.meta_feature for which in (i, j))
        return 0.0 if ours is None or theirs is None else math.dist(ours, theirs)

    def _task(self, i: int, trials: Sequence[FrozenTrial], most: int) -> RelatedTask:
        """Return what was told of a study, thinned, as the others learn from it."""
        from warmstart.bo.related import RelatedTask, thinned

        queue = self.queues[i]
        told = [observation for observation in queue.told(trials) if observation.valid]
        errors = [observation.error for observation in told]
        rows = thinned(errors, most)
        return RelatedTask([told[row].config for row in rows], [errors[row] for row in rows], queue.plan.meta_feature)


def check_different(paths: Sequence[str], fingerprints: Sequence[str | None]) -> None:
    """Check that datasets are several, each another one.

    Raises:
        UsageError: when there is one alone, or two have the same path or images.
    """
    if len(paths) < 2:
        msg = f"tune_many: expected at least two datasets, got {len(paths)}. Use tune for one."
        raise UsageError(msg)
    for j, mark in enumerate(fingerprints):
        i = fingerprints.index(mark)
        if i < j:
            msg = f"expected datasets that differ, got {paths[j]}, which is the same as {paths[i]}. Leave one of them out."
            raise UsageError(msg, param="dataset")
