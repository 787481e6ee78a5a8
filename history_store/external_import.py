"""Import of another tool's runs: an import is planned first, and then carried out."""

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
    """What an import would add, and what it would not.

    Attributes:
        kind: what the runs are, for people.
        evaluations: to add.
        datasets: to add first, without images.
        matches: what became of each hyperparameter.
        objective: how an objective value becomes an error, in words.
        already_there: number of runs that the history has from an earlier import.
        left_out: number of runs that cannot be evaluations, by reason.
        notes: what a person should hear besides.
        n_evaluations: what the history has afterwards.
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
        """Return how many of the evaluations gave no error: crashed, or out of time or memory."""
        return sum(math.isnan(each.error) for each in self.evaluations)

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
    """Work out what another tool's runs are in a history; nothing is written.

    Args:
        history: may be open for reading.
        runs: of the other tool.
        dataset: on which they were measured, where the tool does not say.
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
        others = ", ".join(f"{count} {reason}" for reason, count in runs.left_out.items())
        msg = f"{runs.kind}: expected runs that have ended, got none{f' ({others})' if others else ''}. Wait for the first result."
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
    fresh, there, seedless = _new_ones(history, evaluations)
    check_same_images(history, described, fresh, runs.kind)
    known = {info.name: info for info in described}
    new = [name for name in dict.fromkeys(e.dataset for e in fresh) if name not in history.names]
    notes = [f"{seedless} runs of one configuration and seed: the seed is left out"] if seedless else []
    hints = sorted({name for name in runs.datasets if name is not None} - {dataset})
    if dataset is not None and len(hints) > 1:
        notes.append(f"all runs are taken for {dataset!r}, though their settings name {', '.join(hints)}")
    return ImportPlan(
        runs.kind,
        tuple(fresh),
        tuple(known.get(name) or _blank(name, runs.kind) for name in new),
        tuple(match for match in mapped.matches if match.here is not None or match.there not in runs.switches),
        objective,
        there,
        {**runs.left_out, **mapped.lost},
        tuple(notes),
        history.n_evaluations + len(fresh),
    )


def carry_out(history: History, plan: ImportPlan) -> None:
    """Add what a plan of this history says, all or none; raises as `History.extend`."""
    if plan.evaluations or plan.datasets:
        history.extend(plan.evaluations, datasets=plan.datasets)


def _datasets(runs: ForeignRuns, dataset: str | None) -> list[str]:
    """Name the dataset of each run."""
    named = sorted({name for name in runs.datasets if name is not None})
    if dataset is not None and runs.are_hints:
        return [dataset] * len(runs)
    if dataset is not None and named:
        msg = f"expected no name, as {runs.kind} names its datasets ({', '.join(named[:5])}), got {dataset!r}. Leave it out."
        raise UsageError(msg, param="dataset")
    if dataset is None and None in runs.datasets:
        msg = f"expected the name of the dataset on which {runs.kind} was measured, got none. Give the name that it has in the history."
        raise UsageError(msg, param="dataset")
    return [name or dataset or "" for name in runs.datasets]


def _errors(
    runs: ForeignRuns, error_range: tuple[float, float] | None
) -> tuple[list[float], str, tuple[float, float, bool]]:
    """Turn objective values into errors.

    Returns: `n` errors; how, in words; and best value, worst value, whether to clip.
    """
    if error_range is None and runs.maximised is None:
        msg = f"expected which values of {runs.kind} are best and worst, as it does not say, got none. Give 0,1 for an error, 1,0 for an accuracy, 100,0 for per cent."
        raise UsageError(msg, param="error_range")
    best, worst = error_range or ((1.0, 0.0) if runs.maximised else (0.0, 1.0))
    if best == worst or not math.isfinite(best) or not math.isfinite(worst):
        msg = f"expected two different numbers BEST,WORST, got {best:g},{worst:g}. Give 1,0 for an accuracy."
        raise UsageError(msg, param="error_range")
    if runs.maximised and best < worst:
        msg = f"expected the best value first, and more is better in {runs.kind}, got {best:g},{worst:g}. Give {worst:g},{best:g}."
        raise UsageError(msg, param="error_range")
    if runs.are_fractions and abs(worst - best) > 1:
        msg = f"expected values from 0 to 1, as {runs.kind} has fractions of what it writes in per cent, got {best:g},{worst:g}. Leave it out, or give 1,0."
        raise UsageError(msg, param="error_range")
    has = np.array([status.has_error for status in runs.status], dtype=np.bool_)
    errors = np.where(has, (runs.values - best) / (worst - best), np.nan)
    is_ok = np.array([status is Status.OK for status in runs.status], dtype=np.bool_)
    if (odd := has & np.isinf(errors) & (is_ok | (errors < 0))).any():  # the worst is what a diverged run may have
        msg = f"{runs.kind}: expected finite values, got {runs.values[odd][0]:g} for {int(odd.sum())} of {len(runs)} runs. Give such runs the status crashed, without a value."
        raise DataError(msg)
    beyond = has & ~((errors >= -1e-9) & (errors <= 1 + 1e-9))
    if error_range is None and beyond.any():
        low, high = float(runs.values[has].min()), float(runs.values[has].max())
        what = "accuracies" if runs.maximised else "errors"
        msg = f"{runs.kind}: expected {what} in [0, 1], got values from {low:g} to {high:g}. Say which values count as error 0 and error 1: `error_range` BEST,WORST."
        raise DataError(msg)
    if error_range is not None and bool((errors[has] < -1e-9).all()) and has.any():
        low, high = float(runs.values[has].min()), float(runs.values[has].max())
        msg = f"expected values that are no better than the best, {best:g}, got {low:g} to {high:g} in all runs. Give what they may be at best and at worst."
        raise UsageError(msg, param="error_range")
    clipped = f"; {int(beyond.sum())} beyond are clipped" if beyond.any() else ""
    objective = f"{best:g} is error 0, {worst:g} is error 1{clipped}"
    return np.clip(errors, 0.0, 1.0).tolist(), objective, (best, worst, error_range is not None)


def _curve(curve: Curve, scale: tuple[float, float, bool]) -> Curve:
    """Turn a curve of objective values into one of errors, without the points that are none."""
    best, worst, clip = scale
    points: list[tuple[int, float]] = []
    for step, value in sorted(curve):
        error = (value - best) / (worst - best)
        error = min(max(error, 0.0), 1.0) if clip and not math.isnan(error) else error
        if step >= 0 and 0.0 <= error <= 1.0 and (not points or step > points[-1][0]):
            points.append((int(step), error))
    return tuple(points)


def _new_ones(history: History, evaluations: Sequence[Evaluation]) -> tuple[list[Evaluation], int, int]:
    """Leave out what an earlier import has added, and the seeds that would make two runs one.

    Returns: the new ones; how many were there; how many lost their seed.
    """
    origins = {e.origin for e in evaluations}
    known = [e for e in history.evaluations() if e.origin in origins]
    there = Counter(_identity(e) for e in known)
    taken = {_run(e) for e in known}
    fresh: list[Evaluation] = []
    seedless = 0
    for e in evaluations:
        if there and there[_identity(e)] > 0:
            there[_identity(e)] -= 1
            continue
        if e.seed is not None:
            if _run(e) in taken:
                e = _without_seed(e)
                seedless += 1
            else:
                taken.add(_run(e))
        fresh.append(e)
    return fresh, len(evaluations) - len(fresh), seedless


def _identity(e: Evaluation) -> tuple[Any, ...]:
    return e.dataset, config_key(e.config), None if math.isnan(e.error) else e.error, e.status, e.origin


def _run(e: Evaluation) -> tuple[Any, ...]:
    return e.dataset, config_key(e.config), e.seed, e.origin


def _without_seed(e: Evaluation) -> Evaluation:
    return Evaluation(e.dataset, e.config, e.error, e.status, e.duration, None, e.curve, e.origin)


def _blank(name: str, kind: str) -> DatasetInfo:
    return DatasetInfo(name, name, n_train=0, n_val=0, n_test=0, n_classes=0, source=f"import of {kind}")
