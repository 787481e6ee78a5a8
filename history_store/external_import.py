"""Import of another tool's runs: first planned, then carried out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.exchange import check_same_images
from warmstart.history_store.external_runs import Curve, ForeignRuns
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.history_store.mapping import Match, Wishes, map_configs
from warmstart.history_store.records import DatasetInfo, Evaluation, Status
from warmstart.history_store.space import load_space


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Evaluations and datasets that an import would add, and runs that it would leave out.

    Attributes:
        kind: name of the runs, for people.
        evaluations: to add.
        datasets: to add first, without images.
        matches: result of each hyperparameter.
        objective: how an objective value becomes an error, in words.
        already_there: number of runs that the history has from an earlier import.
        left_out: number of runs that cannot be evaluations, by reason.
        notes: further notes for people.
        n_evaluations: number of evaluations of the history after the import.
    """

    kind: str
    evaluations: tuple[Evaluation, ...]
    datasets: tuple[DatasetInfo, ...]
    matches: tuple[Match, ...]
    objective: str
    already_there: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    n_evaluations: int

    @property
    def n_without_error(self) -> int:
        """Return the number of evaluations without an error: crashed, or out of time or memory."""
        return sum(math.isnan(evaluation.error) for evaluation in self.evaluations)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {
            "kind": self.kind,
            "imported": len(self.evaluations),
            "without_error": self.n_without_error,
            "n_evaluations": self.n_evaluations,
            "already_there": self.already_there,
            "left_out": dict(self.left_out),
            "new_datasets": [info.name for info in self.datasets],
            "objective": self.objective,
            "mapping": [match.to_dict() for match in self.matches],
            "notes": list(self.notes),
        }


def plan_import(
    history: History,
    runs: ForeignRuns,
    *,
    dataset: str | None = None,
    error_range: tuple[float, float] | None = None,
    wishes: Wishes | None = None,
    described: Sequence[DatasetInfo] = (),
) -> ImportPlan:
    """Convert another tool's runs to evaluations of a history; nothing is written.

    Args:
        history: may be open for reading.
        runs: of the other tool.
        dataset: on which they were measured, if the tool does not tell.
        error_range: the objective values that count as error 0 and error 1; values beyond are clipped to them. When
            left out, values must be errors in [0, 1], or accuracies in [0, 1] that were maximised.
        wishes: about the mapping of the spaces.
        described: datasets that the source describes; others that are new are added by name alone.

    Raises:
        UsageError: the dataset or the meaning of the values is not known, or a wish names what is not there.
        DataError: no runs, values that are no errors, spaces with nothing in common, or runs on other images than those
            that the history has under the name.
    """
    if not len(runs):
        reasons = ", ".join(f"{count} {reason}" for reason, count in runs.left_out.items())
        msg = f"{runs.kind}: expected runs that have ended, got none{f' ({reasons})' if reasons else ''}. Wait for the first result."
        raise DataError(msg)
    names = _datasets(runs, dataset)
    errors, objective, scale = _errors(runs, error_range)
    space = load_space(history.space_json, str(history.path))
    mapped = map_configs(runs.params, space, n=len(runs), known=runs.space, wishes=wishes, where=runs.kind)
    evaluations = [
        Evaluation(
            dataset=names[row],
            config=config,
            error=errors[row],
            status=runs.status[row],
            duration=duration if 0 <= duration < math.inf else math.nan,
            seed=runs.seeds[row],
            curve=_curve(runs.curves[row], scale),
            origin=runs.origins[row],
        )
        for row, (config, duration) in enumerate(zip(mapped.configs, runs.durations.tolist(), strict=True))
        if config is not None
    ]
    new_evaluations, n_stored, seedless = _new_evaluations(history, evaluations, runs.former_origin)
    check_same_images(history, described, new_evaluations, runs.kind)
    by_name = {info.name: info for info in described}
    stored_names = set(history.names)
    new_names = [name for name in dict.fromkeys(e.dataset for e in new_evaluations) if name not in stored_names]
    notes = [f"{seedless} runs of one configuration and seed: the seed is left out"] if seedless else []
    named = sorted({name for name in runs.datasets if name is not None} - {dataset})
    if dataset is not None and len(named) > 1:
        notes.append(f"all runs are taken for {dataset!r}, though their settings name {', '.join(named)}")
    return ImportPlan(
        runs.kind,
        tuple(new_evaluations),
        tuple(by_name.get(name) or _blank(name, runs.kind) for name in new_names),
        tuple(match for match in mapped.matches if match.here is not None or match.there not in runs.switches),
        objective,
        n_stored,
        {**runs.left_out, **mapped.lost},
        tuple(notes),
        history.n_evaluations + len(new_evaluations),
    )


def carry_out(history: History, plan: ImportPlan) -> None:
    """Add the evaluations and datasets of a plan to its history, all or none; raises as `History.extend`."""
    if plan.evaluations or plan.datasets:
        history.extend(plan.evaluations, datasets=plan.datasets)


def _datasets(runs: ForeignRuns, dataset: str | None) -> list[str]:
    """Return the dataset of each run."""
    named = sorted({name for name in runs.datasets if name is not None})
    if dataset is not None and runs.are_hints:
        return [dataset] * len(runs)
    if dataset is not None and named:
        msg = f"cannot be used with {runs.kind}, which names its datasets ({', '.join(named[:5])}). Leave it out."
        raise UsageError(msg, param="dataset")
    if dataset is None and None in runs.datasets:
        msg = f"{runs.kind} does not name its dataset. Give the name that the dataset has in the history."
        raise UsageError(msg, param="dataset")
    return [name or dataset or "" for name in runs.datasets]


def _errors(
    runs: ForeignRuns, error_range: tuple[float, float] | None
) -> tuple[list[float], str, tuple[float, float, bool]]:
    """Turn objective values into errors.

    Returns: `n` errors; how, in words; and best value, worst value, whether to clip.
    """
    if error_range is None and runs.maximised is None:
        msg = f"{runs.kind} does not say which values are best and worst. Give 0,1 for an error, 1,0 for an accuracy, 100,0 for per cent."
        raise UsageError(msg, param="error_range")
    best, worst = error_range or ((1.0, 0.0) if runs.maximised else (0.0, 1.0))
    if best == worst or not math.isfinite(worst - best):
        msg = f"expected two different numbers BEST,WORST, got {best:g},{worst:g}. Give 1,0 for an accuracy."
        raise UsageError(msg, param="error_range")
    if runs.maximised and best < worst:
        msg = f"expected the best value first, and more is better in {runs.kind}, got {best:g},{worst:g}. Give {worst:g},{best:g}."
        raise UsageError(msg, param="error_range")
    if runs.are_fractions and abs(worst - best) > 1:
        msg = f"expected values from 0 to 1, as {runs.kind} has fractions of what it writes in per cent, got {best:g},{worst:g}. Leave it out, or give 1,0."
        raise UsageError(msg, param="error_range")
    has_error = np.array([status.has_error for status in runs.status], dtype=np.bool_)
    errors = np.where(has_error, (runs.values - best) / (worst - best), np.nan)
    is_ok = np.array([status is Status.OK for status in runs.status], dtype=np.bool_)
    if (
        odd := has_error & np.isinf(errors) & (is_ok | (errors < 0))
    ).any():  # the worst is what a diverged run may have
        msg = f"{runs.kind}: expected finite values, got {runs.values[odd][0]:g} for {int(odd.sum())} of {len(runs)} runs. Give such runs the status crashed, without a value."
        raise DataError(msg)
    beyond = has_error & ~((errors >= -1e-9) & (errors <= 1 + 1e-9))
    if error_range is None and beyond.any():
        low, high = float(runs.values[has_error].min()), float(runs.values[has_error].max())
        noun = "accuracies" if runs.maximised else "errors"
        msg = f"{runs.kind}: expected {noun} in [0, 1], got values from {low:g} to {high:g}. Say which values count as error 0 and error 1: `error_range` BEST,WORST."
        raise DataError(msg)
    if error_range is not None and bool((errors[has_error] < -1e-9).all()) and has_error.any():
        low, high = float(runs.values[has_error].min()), float(runs.values[has_error].max())
        msg = f"expected values that are no better than the best, {best:g}, got {low:g} to {high:g} in all runs. Give what they may be at best and at worst."
        raise UsageError(msg, param="error_range")
    clipped = f"; {int(beyond.sum())} beyond are clipped" if beyond.any() else ""
    objective = f"{best:g} is error 0, {worst:g} is error 1{clipped}"
    return np.clip(errors, 0.0, 1.0).tolist(), objective, (best, worst, error_range is not None)


def _curve(curve: Curve, scale: tuple[float, float, bool]) -> Curve:
    """Turn a curve of objective values into one of errors, without the points that have none."""
    best, worst, clip = scale
    points: list[tuple[int, float]] = []
    for step, value in sorted(curve):
        error = (value - best) / (worst - best)
        error = min(max(error, 0.0), 1.0) if clip and not math.isnan(error) else error
        if step >= 0 and 0.0 <= error <= 1.0 and (not points or step > points[-1][0]):
            points.append((int(step), error))
    return tuple(points)


def _new_evaluations(
    history: History, evaluations: Sequence[Evaluation], former_origin: str
) -> tuple[list[Evaluation], int, int]:
    """Drop evaluations of an earlier import, copies of one run, and seeds that would make two runs equal.

    A run is the same by its content and its origin, which for most tools holds the run's own name.

    Returns: the new ones; the number of stored ones; the number that lost their seed.
    """
    origins = {former_origin, *(e.origin for e in evaluations)}
    stored = [e for e in history.evaluations() if e.origin in origins]
    counts = Counter(_identity(e) for e in stored)
    copies = set[tuple[Any, ...]]()
    taken_runs = {_run(e) for e in stored}
    new: list[Evaluation] = []
    seedless = 0
    for e in evaluations:
        identities = (_identity(e), (*_identity(e)[:-1], former_origin))
        known = next((identity for identity in identities if counts[identity] > 0), None)
        if known is not None:
            counts[known] -= 1
        if known is not None or identities[0] in copies:
            continue
        if former_origin:
            copies.add(identities[0])
        if e.seed is not None:
            if _run(e) in taken_runs:
                e = _without_seed(e)
                seedless += 1
            else:
                taken_runs.add(_run(e))
        new.append(e)
    return new, len(evaluations) - len(new), seedless


def _identity(e: Evaluation) -> tuple[Any, ...]:
    return e.dataset, config_key(e.config), None if math.isnan(e.error) else e.error, e.status, e.origin


def _run(e: Evaluation) -> tuple[Any, ...]:
    return e.dataset, config_key(e.config), e.seed, e.origin


def _without_seed(e: Evaluation) -> Evaluation:
    return Evaluation(e.dataset, e.config, e.error, e.status, e.duration, None, e.curve, e.origin)


def _blank(name: str, kind: str) -> DatasetInfo:
    return DatasetInfo(name, name, n_train=0, n_val=0, n_test=0, n_classes=0, source=f"import of {kind}")
