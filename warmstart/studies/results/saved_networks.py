"""Save the networks of a study's best trials as one classifier, retrained where needed."""

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
from warmstart.studies.objectives.best_networks import BestNetworks
from warmstart.studies.objectives.workload import prepare
from warmstart.studies.output_paths import check_writable
from warmstart.studies.results.summary import SavedModel
from warmstart.studies.results.trial import Trial
from warmstart.training.workloads import Classifier, Member
from warmstart.training.workloads.classifier_file import read_header

if TYPE_CHECKING:
    from warmstart.studies.state.spec import StudySpec
    from warmstart.training.workloads import Budget, Prepared, Workload

_WRITING_SHARE = 1.0
"""Time reserved for writing the networks and the report, as a share of the time that their predictions took."""


def train_best(
    plan: StudySpec,
    trials: Sequence[Trial],
    *,
    k: int,
    remaining: Callable[[], float] = lambda: math.inf,
    networks: BestNetworks | None = None,
    threads: int = 1,
) -> tuple[Classifier, Classifier] | None:
    """Join the k best models of a workload's study (see `LastTraining.choose`): stored, else retrained by their seeds.

    On the study's device retraining gives the trials' models. If the workload supports it, each model is then retrained
    on all images that are not held out; in a limited time first the one that gains most, else the best, in all of it.

    Args:
        plan: of the study.
        trials: that ended, at least one with status ok.
        k: models; fewer if fewer trials ended well or fit into the time: the best one is always trained.
        remaining: returns the remaining seconds.
        networks: stored networks of trials.
        threads: of torch on a CPU in the last training.

    Returns: the classifier as validated, and the one to use, which may be trained on validation images too; or None.

    Raises:
        DataError: the dataset cannot be read any more.
    """
    assert plan.dataset is not None  # noqa: S101  a workload has one
    last = LastTraining.of(plan)
    valid, budget = _in_saving_order(last, _best_first(trials), k, remaining()), last.budget
    candidates: list[_Network] = []
    with cpu_threads(1):
        prepared = prepare(last.workload, plan.dataset, device=plan.device, skip_broken=plan.skip_broken)
        for trial in valid:
            seconds = last.workload.seconds_again(trial.config, trial.duration or 0.0)
            model = None if networks is None else networks.load(trial.config, trial.seed)
            error = trial.error
            # Enough time: for this network again and on all images, and for the best one on all images.
            if model is None and (not candidates or not seconds or 2 * seconds + candidates[0].seconds <= remaining()):
                result = prepared.train(trial.config, seed=trial.seed, budget=budget, keep=True)
                model, error = result.model, result.error
            if model is not None:
                member = Member(trial.number, dict(trial.config), trial.seed, error or 0.0)
                candidates.append(_Network(member, model, seconds, _candidate(trial)))
            if len(candidates) == k:
                break
        if not candidates:
            return None
        began = time.monotonic()
        members = [network.member for network in candidates]
        leading = last.leading([network.trial for network in candidates], seconds=remaining())
        votes: dict[str, Any] = {} if leading is None else {"leading": leading}
        judged = prepared.combine(members, [network.model for network in candidates], **votes)
        reserved = _WRITING_SHARE * (time.monotonic() - began)
    with cpu_threads(threads):
        refitted = _refit(prepared, candidates, budget, lambda: remaining() - reserved, leading=leading)
        if all(network.model is model for network, model in zip(candidates, refitted, strict=True)):
            return judged, judged
        return judged, prepared.combine(members, refitted, error=judged.error, **votes)


def seconds_of_best(workload: Workload, trials: Sequence[Trial], k: int) -> float:
    """Return the seconds of retraining the k best trials."""
    return sum(workload.seconds_again(trial.config, trial.duration or 0.0) for trial in _best_first(trials)[:k])


def _best_first(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials whose networks may be saved, the least error first."""
    valid = (trial for trial in trials if trial.status is TrialStatus.OK and trial.feasible)
    return sorted(valid, key=lambda trial: (trial.error, trial.number))


def _in_saving_order(last: LastTraining, valid: Sequence[Trial], k: int, seconds: float) -> list[Trial]:
    """Return the trials, first those to save; the others replace one that gives no network."""
    chosen = last.choose([_candidate(trial) for trial in valid], k, seconds=seconds)
    return [valid[row] for row in (*chosen, *(row for row in range(len(valid)) if row not in chosen))]


def _candidate(trial: Trial) -> Candidate:
    steps = max((step for step, _ in trial.curve), default=0.0)
    return Candidate(trial.config, trial.error or 0.0, trial.duration or 0.0, steps)


@dataclass(frozen=True, slots=True)
class SavedNetworks:
    """The saved networks of a study.

    Attributes:
        path: of the file.
        judged: the classifier as validated.
        is_retrained: whether it was then trained on these images too.
    """

    path: Path
    judged: Classifier
    is_retrained: bool

    @property
    def record(self) -> SavedModel:
        """Return the record of the file for a study's result."""
        trials = tuple(member.trial for member in self.judged.members)
        return SavedModel(str(self.path), trials, self.judged.error, self.is_retrained)


@dataclass(frozen=True, slots=True)
class _Network:
    """A trial's model, and the seconds of retraining it: 0 = negligible."""

    member: Member
    model: object
    seconds: float
    trial: Candidate


def _refit(
    prepared: Prepared,
    networks: Sequence[_Network],
    budget: Budget,
    remaining: Callable[[], float],
    *,
    leading: int | None,
) -> list[object]:
    """Retrain models on all images that are not held out, in the time: without cost, the leading one, then the best."""
    models = [network.model for network in networks]
    for i in sorted(range(len(networks)), key=lambda i: (networks[i].seconds > 0, i != leading)):
        network, seconds = networks[i], remaining()
        if network.seconds <= max(seconds, 0.0):
            models[i] = prepared.refit(
                network.member, network.model, budget=budget, seconds=seconds if network.seconds else math.inf
            )
    return models


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
    threads: int = 1,
) -> SavedNetworks | None:
    """Join the best networks of a study and write them; return them as validated, None if there are none.

    Args:
        path: of the file.
        plan: of the study.
        trials: that ended.
        k: networks; see `train_best`.
        on_message: called with each message line.
        remaining: returns the remaining seconds.
        networks: stored networks of trials.
        threads: see `train_best`.
    """
    n_valid = sum(trial.status is TrialStatus.OK and trial.feasible for trial in trials)
    if not n_valid:
        on_message(f"{path}: not written: no trial ended well and met its constraints.")
        return None
    trained = train_best(plan, trials, k=k, remaining=remaining, networks=networks, threads=threads)
    if trained is None:
        on_message(
            f"{path}: not written: of {counted(n_valid, 'trial')} that ended well none gave a network when it was trained again. The study itself is kept; the same call tries once more."
        )
        return None
    judged, final = trained
    final.dataset = plan.fingerprint
    final.save(path)
    saved = SavedNetworks(path, judged, is_retrained=final is not judged)
    shortfall = _why_fewer(len(judged.members), k, n_valid, is_timed=math.isfinite(remaining()))
    on_message(" ".join(filter(None, [f"{path}: {_summary(saved)}", shortfall, _better_alone(judged)])))
    return saved


def _summary(saved: SavedNetworks) -> str:
    """Return the number of networks and their validation error as text."""
    judged = saved.judged
    jointly = " together" if len(judged.members) > 1 else ""
    since = ", before it was trained on the validation images too" if saved.is_retrained else ""
    of_images = "" if judged.validated is None else f" of {counted(len(judged.validated), 'image')}"
    return f"{counted(len(judged.members), 'network')}, validation error {judged.error:.4g}{of_images}{jointly}{since}."


def _why_fewer(n: int, k: int, n_valid: int, *, is_timed: bool) -> str:
    """Return why fewer networks were saved than wanted; empty if they are as many."""
    if n >= k:
        return ""
    if n == n_valid:
        return f"{k} were asked for, but no more trials ended well."
    return f"{k} were asked for, but {'no time was left to train the others' if is_timed else 'the others failed when they were trained'} again."


def _better_alone(judged: Classifier) -> str:
    """Return a note if the best network alone has a smaller validation error; else empty."""
    alone = judged.first_error
    if alone is None or alone >= judged.error:
        return ""
    return f"The best one alone has an error of {alone:.4g}: leave out `ensemble` to save that."
