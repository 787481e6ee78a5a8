"""Add the dataset and the trials of a study to a history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.images import ImageSource
from warmstart.history_store.records import DatasetInfo, Evaluation, Status
from warmstart.history_store.space import same_space
from warmstart.history_store.wording import counted
from warmstart.locations import is_shipped
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.trial import Trial
from warmstart.studies.state.spec import StudySpec

STATUS = {
    TrialStatus.OK: Status.OK,
    TrialStatus.DIVERGED: Status.DIVERGED,
    TrialStatus.FAILED: Status.CRASHED,
    TrialStatus.CRASHED: Status.CRASHED,
    TrialStatus.KILLED: Status.CRASHED,
    TrialStatus.TIMEOUT: Status.TIMEOUT,
    TrialStatus.OOM: Status.OOM,
}
"""Status of a trial in a history. A pruned trial has no error of a whole run, and is no failure: it is left out."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Counts of the trials that were added to a history and left out.

    Attributes:
        history: its path.
        name: of the dataset in it.
        added: evaluations that are new in it.
        left_out: trials that a history cannot store: pruned, or with an error outside [0, 1].
    """

    history: str
    name: str
    added: int
    left_out: int

    @property
    def line(self) -> str:
        """Return the counts as a sentence."""
        rest = (
            f"; {counted(self.left_out, 'trial')} pruned or with an error outside [0, 1], left out"
            if self.left_out
            else ""
        )
        return f"{self.history}: {counted(self.added, 'evaluation')} of {self.name!r} added{rest}."


def record_study(
    path: Path, name: str, plan: StudySpec, trials: Sequence[Trial], *, download: bool = False
) -> Recorded:
    """Add the dataset of a study and its trials to a history; those that it has already are not added again.

    Args:
        path: the history.
        name: of the dataset in it; a new one becomes a group of its own.
        plan: of the study.
        trials: that ended.
        download: let torchvision fetch what is missing of the dataset.

    Raises:
        DataError: a dataset that cannot be read, or other images than the history's of this name.
        StorageError: a history that cannot be written.
    """
    from warmstart.histories.add import DatasetCard, add_source
    from warmstart.history_store.history import History
    from warmstart.suggestions.query import open_path

    assert plan.dataset is not None  # noqa: S101  checked before the study began
    source = open_path(plan.dataset, download=download)
    with History.open(path, write=True) as history:
        if name in history.names:
            _check_same(path, history.dataset(name), source)
        else:
            card = DatasetCard(name, name, f"tuned by {plan.objective_label}")
            add_source(history, source, card, skip_broken=plan.skip_broken, seed=0)
        stored = {_key(evaluation) for evaluation in history.evaluations(name)}
        evaluations = [evaluation for trial in trials if (evaluation := _evaluation(trial, name, plan)) is not None]
        new = [evaluation for evaluation in evaluations if _key(evaluation) not in stored]
        history.extend(new)
    return Recorded(str(path), name, len(new), len(trials) - len(evaluations))


def check_recordable(path: Path, name: str, plan: StudySpec, *, download: bool = False) -> None:
    """Check that a history can store the trials of a study, before any trial runs.

    Args:
        path: the history.
        name: of the dataset in it.
        plan: of the study.
        download: let torchvision fetch what is missing of the dataset.

    Raises:
        UsageError: a study without a dataset, or over another space than the history's; images that the history has under
            another name; the shipped history.
        DataError: a dataset that cannot be read, or other images than the history's of this name.
        StorageError: a history that cannot be written.
    """
    from warmstart.history_store.history import History
    from warmstart.suggestions.query import open_path

    if plan.dataset is None:
        msg = "needs `dataset`."
        raise UsageError(msg, param="record")
    if is_shipped(path):
        msg = "expected a history of your own, got the shipped one, which an upgrade replaces. Make a copy with an id of its own, `warmstart history create grown.h5 --from-default`, and name it with `history`."
        raise UsageError(msg, param="record")
    with History.open(path, write=True) as history:
        if not same_space(history.space_json, plan.space):
            msg = f"expected a study over the space of {path}, got one over another. Leave `space` out, or `record`."
            raise UsageError(msg, param="record")
        datasets = {info.name: info for info in history.datasets}
    source = open_path(plan.dataset, download=download)
    if name in datasets:
        _check_same(path, datasets[name], source)
        return
    twin, content = _own_name(path, source), source.fingerprint("content")
    duplicates = [info.name for info in datasets.values() if info.fingerprint == content and info.fraction == 1]
    recorded_name = twin or next(iter(duplicates), None)
    if recorded_name is not None:
        msg = f"expected {recorded_name!r}, under which {path} has these images already, got {name!r}. Record under that name."
        raise UsageError(msg, param="record")


def _own_name(path: Path, source: ImageSource) -> str | None:
    """Return the name of a source in a history; None if it is no dataset of that history."""
    file, _, name = source.location.rpartition("::")
    return name if source.layout == "history" and Path(file).resolve() == path.resolve() else None


def _check_same(path: Path, dataset: DatasetInfo, source: ImageSource) -> None:
    """Check that a source has the images of a history's dataset."""
    if _own_name(path, source) == dataset.name:
        return
    fingerprint = source.fingerprint("content")
    if dataset.fingerprint != fingerprint:
        msg = f"{path}:{dataset.name}: expected the images that it knows by this name ({dataset.fingerprint or 'no fingerprint'}), got {fingerprint}. Record under another name."
        raise DataError(msg)


def _evaluation(trial: Trial, name: str, plan: StudySpec) -> Evaluation | None:
    """Return the evaluation of a trial; None if a history cannot store it."""
    status = STATUS.get(trial.status)
    if status is None or (trial.error is not None and not 0 <= trial.error <= 1):
        return None
    curve: list[tuple[int, float]] = []
    # A history stores curves at rising integer steps with errors in [0, 1].
    for step, error in trial.curve:
        if step == int(step) and step > (curve[-1][0] if curve else -1) and 0 <= error <= 1:
            curve.append((int(step), error))
    return Evaluation(
        dataset=name,
        config=trial.config,
        error=math.nan if trial.error is None else trial.error,
        status=status,
        duration=math.nan if trial.duration is None else trial.duration,
        seed=trial.seed,
        curve=tuple(curve),
        origin=plan.origin,
    )


def _key(evaluation: Evaluation) -> tuple[object, ...]:
    """Return the fields that identify an evaluation."""
    return (tuple(sorted(evaluation.config.items())), evaluation.seed, evaluation.origin)
