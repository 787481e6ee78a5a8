"""The best configurations of a study, trained again and joined to one classifier."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.arguments import check_replaceable
from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted
from warmstart.metafeat.device import cpu_threads
from warmstart.studies.execution.last_training import Candidate, LastTraining
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.kept_networks import KeptNetworks
from warmstart.studies.objectives.workload import prepare
from warmstart.studies.output_places import check_place
from warmstart.studies.results.summary import SavedModel
from warmstart.studies.results.trial import Trial
from warmstart.training.workloads import Classifier, Member
from warmstart.training.workloads.classifier_file import read_header

if TYPE_CHECKING:
    from warmstart.studies.state.spec import StudySpec
    from warmstart.training.workloads import Budget, Prepared, Workload

_END = 1.0
"""After the last training, as long as the networks took to answer is kept for writing them and the report."""


def train_best(
    plan: StudySpec,
    trials: Sequence[Trial],
    *,
    k: int,
    left: Callable[[], float] = lambda: math.inf,
    networks: KeptNetworks | None = None,
    threads: int = 1,
) -> tuple[Classifier, Classifier] | None:
    """Join the k best models of a study of a workload (see `LastTraining.choose`), as far as they were kept; the others are trained again with the seeds of their trials.

    On the device of the study this gives the models that the trials had. Where the workload does that, each is then trained
    once more, on all images that nobody keeps for later; in a limited time the one that gains by it first, or else the best, for all of what is left.

    Args:
        plan: of the study.
        trials: that ended, at least one of them well.
        k: models; fewer where fewer trials ended well, or no more fit into the time: the best one is always trained.
        left: tells the seconds that are left.
        networks: of trials, that were kept.
        threads: of torch on a CPU in the last training.

    Returns: the classifier that was judged by the validation images; and the one to use, which may have seen these. None where no
        model was kept, and none came of training again.

    Raises:
        DataError: when the dataset cannot be read any more.
    """
    assert plan.dataset is not None  # noqa: S101  a workload has one
    last = LastTraining.of(plan)
    valid, budget = _chosen_first(last, _best_first(trials), k, left()), last.budget
    found: list[_Trained] = []
    with cpu_threads(1):
        prepared = prepare(last.workload, plan.dataset, device=plan.device, skip_broken=plan.skip_broken)
        for trial in valid:
            seconds = last.workload.seconds_again(trial.config, trial.duration or 0.0)
            model = None if networks is None else networks.get(trial.config, trial.seed)
            error = trial.error
            if model is None and (not found or not seconds or 2 * seconds + found[0].seconds <= left()):
                result = prepared.train(trial.config, seed=trial.seed, budget=budget, keep=True)
                model, error = result.model, result.error
            if model is not None:
                member = Member(trial.number, dict(trial.config), trial.seed, error or 0.0)
                found.append(_Trained(member, model, seconds, _candidate(trial)))
            if len(found) == k:
                break
        if not found:
            return None
        began = time.monotonic()
        members, leading = [each.member for each in found], last.leading([each.trial for each in found], seconds=left())
        votes: dict[str, Any] = {} if leading is None else {"leading": leading}
        judged = prepared.combine(members, [each.model for each in found], **votes)
        kept_back = _END * (time.monotonic() - began)
    with cpu_threads(threads):
        again = _trained_again(prepared, found, budget, lambda: left() - kept_back, leading=leading)
        if all(each.model is model for each, model in zip(found, again, strict=True)):
            return judged, judged
        return judged, prepared.combine(members, again, error=judged.error, **votes)


def seconds_of_best(workload: Workload, trials: Sequence[Trial], k: int) -> float:
    """Return the seconds of training the k best trials again, as those of earlier calls are to be saved."""
    return sum(workload.seconds_again(trial.config, trial.duration or 0.0) for trial in _best_first(trials)[:k])


def _best_first(trials: Sequence[Trial]) -> list[Trial]:
    """List the trials whose networks may be saved, the least error first."""
    valid = (trial for trial in trials if trial.status is TrialStatus.OK and trial.feasible)
    return sorted(valid, key=lambda trial: (trial.error, trial.number))


def _chosen_first(last: LastTraining, valid: Sequence[Trial], k: int, seconds: float) -> list[Trial]:
    """Put the trials first whose networks are to be saved; the others take their place where one gives no network."""
    chosen = last.choose([_candidate(trial) for trial in valid], k, seconds=seconds)
    return [valid[place] for place in (*chosen, *(place for place in range(len(valid)) if place not in chosen))]


def _candidate(trial: Trial) -> Candidate:
    steps = max((step for step, _ in trial.curve), default=0.0)
    return Candidate(trial.config, trial.error or 0.0, trial.duration or 0.0, steps)


@dataclass(frozen=True, slots=True)
class Saved:
    """What was written.

    Attributes:
        path: of the file.
        judged: the classifier as the validation images judged it.
        is_retrained: whether it was then trained on these images too.
    """

    path: Path
    judged: Classifier
    is_retrained: bool

    @property
    def record(self) -> SavedModel:
        """Return what a study's result tells of it."""
        trials = tuple(member.trial for member in self.judged.members)
        return SavedModel(str(self.path), trials, self.judged.error, self.is_retrained)


@dataclass(frozen=True, slots=True)
class _Trained:
    """A model of a trial, and the seconds that training it again takes: 0 = next to none."""

    member: Member
    model: object
    seconds: float
    trial: Candidate


def _trained_again(
    prepared: Prepared, found: Sequence[_Trained], budget: Budget, left: Callable[[], float], *, leading: int | None
) -> list[object]:
    """Train models on all images that nobody keeps for later: first what costs nothing, then the leading one, then the best, as they fit."""
    again = [each.model for each in found]
    for i in sorted(range(len(found)), key=lambda i: (found[i].seconds > 0, i != leading)):
        each, most = found[i], left()
        if each.seconds <= max(most, 0.0):
            again[i] = prepared.refit(
                each.member, each.model, budget=budget, seconds=most if each.seconds else math.inf
            )
    return again


def check_savable(path: Path, *, is_own: bool) -> None:
    """Check that there will be networks to save in the end, and a place for them.

    Args:
        path: of the file.
        is_own: whether the objective is a person's own.

    Raises:
        UsageError: an objective of one's own, or a file that is none of networks.
        MissingPathError, StorageError: there is no place for it.
    """
    if is_own:
        msg = "expected a study of a workload, got an objective of your own. Let that save its models."
        raise UsageError(msg, param="save_model")
    check_place("save_model", path)
    check_replaceable("save_model", path, read_header, "networks")


def save_best(
    path: Path,
    plan: StudySpec,
    trials: Sequence[Trial],
    k: int,
    on_message: Callable[[str], object],
    *,
    left: Callable[[], float] = lambda: math.inf,
    networks: KeptNetworks | None = None,
    threads: int = 1,
) -> Saved | None:
    """Join the best networks of a study and write them; return them as they were judged, None where there are none.

    Args:
        path: of the file.
        plan: of the study.
        trials: that ended.
        k: networks; see `train_best`.
        on_message: called with each line that a person should hear.
        left: tells the seconds that are left.
        networks: of trials, that were kept.
        threads: see `train_best`.
    """
    n_valid = sum(trial.status is TrialStatus.OK and trial.feasible for trial in trials)
    if not n_valid:
        on_message(f"{path}: not written: no trial ended well and met its constraints.")
        return None
    trained = train_best(plan, trials, k=k, left=left, networks=networks, threads=threads)
    if trained is None:
        on_message(
            f"{path}: not written: of {counted(n_valid, 'trial')} that ended well none gave a network when it was trained again. The study itself is kept; the same call tries once more."
        )
        return None
    judged, final = trained
    final.dataset = plan.fingerprint
    final.save(path)
    saved = Saved(path, judged, is_retrained=final is not judged)
    why = _why_fewer(len(judged.members), k, n_valid, is_timed=math.isfinite(left()))
    on_message(" ".join(filter(None, [f"{path}: {_said(saved)}", why, _better_alone(judged)])))
    return saved


def _said(saved: Saved) -> str:
    """Say how many networks were saved, and how good they are."""
    judged = saved.judged
    together = " together" if len(judged.members) > 1 else ""
    since = ", before it was trained on the validation images too" if saved.is_retrained else ""
    of = "" if judged.validated is None else f" of {counted(len(judged.validated), 'image')}"
    return f"{counted(len(judged.members), 'network')}, validation error {judged.error:.4g}{of}{together}{since}."


def _why_fewer(n: int, k: int, n_valid: int, *, is_timed: bool) -> str:
    """Say why fewer networks were saved than asked for; nothing where they are as many."""
    if n >= k:
        return ""
    if n == n_valid:
        return f"{k} were asked for, but no more trials ended well."
    return f"{k} were asked for, but {'no time was left to train the others' if is_timed else 'the others failed when they were trained'} again."


def _better_alone(judged: Classifier) -> str:
    """Say that the best network alone has a smaller validation error; nothing where that is not so, or not known."""
    alone = judged.first_error
    if alone is None or alone >= judged.error:
        return ""
    return f"The best one alone has an error of {alone:.4g}: leave out `ensemble` to save that."
