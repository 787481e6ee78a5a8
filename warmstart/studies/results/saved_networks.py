"""The best configurations of a study, trained again and joined to one classifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from history_store.errors import MissingPathError, UsageError
from history_store.wording import counted
from metafeat.device import cpu_threads
from training.workloads import DEFAULT, Classifier, Member, get_workload
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.workload import prepare
from warmstart.studies.results.trial import Trial

if TYPE_CHECKING:
    from warmstart.studies.state.spec import StudySpec


def train_best(
    plan: StudySpec, trials: Sequence[Trial], *, k: int, left: Callable[[], float] = lambda: math.inf
) -> tuple[Classifier, Classifier]:
    """Train the k best configurations of a study of a workload again, each with the seed of its trial.

    On the device of the study this gives the models that the trials had. Where the workload does that, each is then trained
    once more, on all images that nobody keeps for later.

    Args:
        plan: of the study.
        trials: that ended, at least one of them well.
        k: models; fewer where fewer trials ended well, or no more fit into the time: the best one is always trained.
        left: tells the seconds that are left.

    Returns: the classifier that was judged by the validation images; and the one to use, which may have seen these.

    Raises:
        DataError: when the dataset cannot be read any more.
    """
    assert plan.dataset is not None  # noqa: S101  a workload has one
    valid = sorted((t for t in trials if t.status is TrialStatus.OK and t.feasible), key=lambda t: (t.error, t.number))
    workload = get_workload(plan.workload or DEFAULT)
    budget = workload.budget(plan.objective["target_budget"], amount=plan.budget)
    members: list[Member] = []
    models: list[object] = []
    again: list[object] = []
    with cpu_threads(1):
        prepared = prepare(workload, plan.dataset, device=plan.device)
        for trial in valid:
            seconds = prepared.seconds_again(trial.config, trial.duration or 0.0)
            if len(members) == k or (members and seconds and 2 * seconds > left()):
                continue
            result = prepared.train(trial.config, seed=trial.seed, budget=budget, keep=True)
            member = Member(trial.number, dict(trial.config), trial.seed, result.error)
            members.append(member)
            models.append(result.model)
            fits = not seconds or seconds <= left()
            again.append(prepared.refit(member, result.model, budget=budget) if fits else result.model)
        judged = prepared.combine(members, models)
        if all(one is other for one, other in zip(models, again, strict=True)):
            return judged, judged
        final = prepared.combine(members, again)
        final.error = judged.error
        return judged, final


def check_savable(path: Path, *, is_own: bool) -> None:
    """Check that there will be networks to save in the end, and a place for them.

    Args:
        path: of the file.
        is_own: whether the objective is a person's own.

    Raises:
        UsageError: an objective of one's own.
        MissingPathError: the folder of the file is not there.
    """
    if is_own:
        msg = "expected a study of the built-in network, got an objective of your own. Let that save its models."
        raise UsageError(msg, param="save_model")
    if not path.absolute().parent.is_dir():
        msg = f"expected a file in a folder that is there, got {path}. Make the folder first."
        raise MissingPathError(msg, param="save_model")


def save_best(
    path: Path,
    plan: StudySpec,
    trials: Sequence[Trial],
    k: int,
    on_message: Callable[[str], object],
    *,
    left: Callable[[], float] = lambda: math.inf,
) -> Classifier | None:
    """Train the best networks again and write them; return them as they were judged, None where no trial ended well.

    Args:
        path: of the file.
        plan: of the study.
        trials: that ended.
        k: networks; see `train_best`.
        on_message: called with each line that a person should hear.
        left: tells the seconds that are left.
    """
    if not any(trial.status is TrialStatus.OK and trial.feasible for trial in trials):
        on_message(f"{path}: not written: no trial ended well and met its constraints.")
        return None
    judged, final = train_best(plan, trials, k=k, left=left)
    final.save(path)
    together = " together" if len(judged.members) > 1 else ""
    since = "" if final is judged else ", before it was trained on the validation images too"
    on_message(
        f"{path}: {counted(len(judged.members), 'network')}, validation error {judged.error:.4g}{together}{since}."
    )
    return judged
