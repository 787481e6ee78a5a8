"""The best configurations of a study, trained again and joined to one classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metafeat.device import cpu_threads
from training.workloads import DEFAULT, Classifier, Member, get_workload
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.workload import prepare
from warmstart.studies.results.trial import Trial

if TYPE_CHECKING:
    from warmstart.studies.state.spec import StudySpec


def train_best(plan: StudySpec, trials: Sequence[Trial], *, k: int) -> Classifier:
    """Train the k best configurations of a study of a workload again, each with the seed of its trial.

    On the device of the study this gives the models that the trials had.

    Args:
        plan: of the study.
        trials: that ended, at least one of them well.
        k: models; fewer where fewer trials ended well.

    Raises:
        DataError: when the dataset cannot be read any more.
    """
    assert plan.dataset is not None  # noqa: S101  a workload has one
    valid = sorted((t for t in trials if t.status is TrialStatus.OK and t.feasible), key=lambda t: (t.error, t.number))
    workload = get_workload(plan.workload or DEFAULT)
    budget = workload.budget(plan.objective["target_budget"], amount=plan.budget)
    members: list[Member] = []
    models: list[object] = []
    with cpu_threads(1):
        prepared = prepare(workload, plan.dataset, device=plan.device)
        for trial in valid[:k]:
            result = prepared.train(trial.config, seed=trial.seed, budget=budget, keep=True)
            members.append(Member(trial.number, dict(trial.config), trial.seed, result.error))
            models.append(result.model)
        return prepared.combine(members, models)
