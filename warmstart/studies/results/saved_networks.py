"""Save the networks of a study's best trials as one classifier, trained again where they were not kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.arguments import check_replaceable
from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted, right_of_100
from warmstart.metafeat.device import cpu_threads
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.best_networks import BestNetworks
from warmstart.studies.objectives.workload import prepare
from warmstart.studies.output_paths import check_writable
from warmstart.studies.results.summary import SavedModel
from warmstart.studies.results.trial import Trial
from warmstart.training.workloads import DEFAULT, Classifier, Member, Sample, Workload, get_workload
from warmstart.training.workloads.classifier_file import read_header

if TYPE_CHECKING:
    from warmstart.studies.state.spec import StudySpec

CANDIDATES = 8
"""Most networks among which those to save are chosen."""
_EXAMINED_S = (1.0, 5.0)
"""Least and most seconds for what a report tells of a classifier beyond its error."""


def train_best(
    plan: StudySpec,
    trials: Sequence[Trial],
    *,
    k: int,
    remaining: Callable[[], float] = lambda: math.inf,
    networks: BestNetworks | None = None,
    sample: Sample | None = None,
) -> Classifier | None:
    """Join at most k of the best models of a workload's study, as `Prepared.select` chooses them.

    Models that were not kept are trained again by their seeds; on the study's device that gives the trials' models.

    Args:
        plan: of the study.
        trials: that ended, at least one with status ok.
        k: models; fewer if fewer trials ended well or fit into the time: the best one is always trained.
        remaining: returns the remaining seconds.
        networks: stored networks of trials.
        sample: of the pictures that the trials saw; None = all.

    Raises:
        DataError: the dataset cannot be read any more.
    """
    assert plan.dataset is not None  # noqa: S101  a workload has one
    workload = get_workload(plan.workload or DEFAULT)
    budget = workload.budget(plan.objective["target_budget"], amount=plan.budget)
    members: list[Member] = []
    models: list[object] = []
    with cpu_threads(1):
        prepared = prepare(workload, plan.dataset, device=plan.device, skip_broken=plan.skip_broken, sample=sample)
        for trial in _best_first(trials):
            model = None if networks is None else networks.load(trial.config, trial.seed)
            error, seconds = trial.error, workload.seconds_again(trial.config, trial.duration or 0.0)
            if model is None and len(models) < k and (not models or not seconds or seconds <= remaining()):
                result = prepared.train(trial.config, seed=trial.seed, budget=budget, keep=True)
                model, error = result.model, result.error
            if model is not None:
                members.append(Member(trial.number, dict(trial.config), trial.seed, error or 0.0))
                models.append(model)
            if len(models) == max(k, CANDIDATES):
                break
        if not models:
            return None
        chosen = prepared.select(models, k)
        classifier = prepared.combine([members[index] for index in chosen], [models[index] for index in chosen])
        order = [*chosen, *(index for index in range(len(models)) if index not in chosen)]
        classifier.examination = prepared.examine(
            [models[index] for index in order],
            [members[index] for index in order],
            len(chosen),
            seconds=min(max(remaining(), _EXAMINED_S[0]), _EXAMINED_S[1]),
        )
        if classifier.examination is not None:
            classifier.familiar = classifier.examination.familiar
        return classifier


def seconds_of_best(workload: Workload, trials: Sequence[Trial], k: int) -> float:
    """Return the seconds of retraining the k best trials."""
    return sum(workload.seconds_again(trial.config, trial.duration or 0.0) for trial in _best_first(trials)[:k])


def _best_first(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials whose networks may be saved, the least error first."""
    valid = (trial for trial in trials if trial.status is TrialStatus.OK and trial.feasible)
    return sorted(valid, key=lambda trial: (trial.error, trial.number))


def check_savable(path: Path, *, is_custom: bool) -> None:
    """Check that a study will have networks to save, and that their file can be written.

    Args:
        path: of the file.
        is_custom: whether the objective is the user's.

    Raises:
        UsageError: a user's objective, or a file of something else.
        MissingPathError, StorageError: the file cannot be written.
    """
    if is_custom:
        msg = "cannot be used with your own objective, which must save its models itself."
        raise UsageError(msg, param="save_model")
    check_writable("save_model", path)
    check_replaceable("save_model", path, read_header, "networks")


def save_best(
    path: Path,
    plan: StudySpec,
    trials: Sequence[Trial],
    k: int,
    on_message: Callable[[str], object],
    *,
    remaining: Callable[[], float] = lambda: math.inf,
    networks: BestNetworks | None = None,
    sample: Sample | None = None,
) -> Classifier | None:
    """Join the best networks of a study and write them; return the classifier, None if there is none.

    Args:
        path: of the file.
        plan: of the study.
        trials: that ended.
        k: networks; see `train_best`.
        on_message: called with each message line.
        remaining: returns the remaining seconds.
        networks: stored networks of trials.
        sample: see `train_best`.
    """
    n_valid = sum(trial.status is TrialStatus.OK and trial.feasible for trial in trials)
    if not n_valid:
        on_message(f"{path}: not written: no trial ended well and met its constraints.")
        return None
    classifier = train_best(plan, trials, k=k, remaining=remaining, networks=networks, sample=sample)
    if classifier is None:
        on_message(
            f"{path}: not written: of {counted(n_valid, 'trial')} that ended well none gave a network when it was trained again. The study itself is kept; the same call tries once more."
        )
        return None
    classifier.dataset = plan.fingerprint
    classifier.save(path)
    shortfall = _why_fewer(classifier, k, n_valid, is_timed=math.isfinite(remaining()))
    on_message(" ".join(filter(None, [f"{path}: {_summary(classifier)}", shortfall, _better_alone(classifier)])))
    return classifier


def saved_model(path: Path, classifier: Classifier) -> SavedModel:
    """Return the record of a saved classifier for a study's result."""
    trials = tuple(member.trial for member in classifier.members)
    return SavedModel(str(path), trials, classifier.error, retrained=False, interval=classifier.interval)


def _summary(classifier: Classifier) -> str:
    """Return the number of networks and their error as text."""
    jointly = " together" if len(classifier.members) > 1 else ""
    seen = (
        "" if classifier.validated is None else f", by {counted(len(classifier.validated), 'picture')} not trained on"
    )
    return f"{counted(len(classifier.members), 'network')}{jointly}: {right_of_100(classifier.error, classifier.interval)}{seen}."


def _why_fewer(classifier: Classifier, k: int, n_valid: int, *, is_timed: bool) -> str:
    """Return why fewer networks were saved than wanted; empty if they are as many."""
    n = len(classifier.members)
    if n >= k:
        return ""
    if classifier.interval is not None:  # it chose them by answers
        return f"Up to {k} were asked for; more would not answer better."
    if n == n_valid:
        return f"{k} were asked for, but no more trials ended well."
    return f"{k} were asked for, but {'no time was left to train the others' if is_timed else 'the others failed when they were trained'} again."


def _better_alone(judged: Classifier) -> str:
    """Return a note if the best network alone has a smaller validation error; else empty."""
    alone = judged.first_error
    if alone is None or alone >= judged.error:
        return ""
    return f"The best one alone has {right_of_100(alone)}: leave out `ensemble` to save that."
