"""Choose the contributed runs to use: a function of the set of all records, so the order of merging does not matter.

1. A run under two contributors counts once: yours, else the first contributor's by name.
2. Runs that do not fit the others are set aside (`warmstart.bo.transfer.agreement`). Your own never are.
3. Runs that contradict each other (same dataset, configuration and budget, another error) are all kept. Yours is used;
   else that of the middle contributor by error, of two the worse: nobody can make a configuration look better than another measured.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from warmstart.bo.transfer.agreement import Agreement, agreement
from warmstart.history_store.bundle.records import (
    Described,
    Features,
    SharedRun,
    canonical,
    dataset_line,
    features_line,
    run_line,
    without_mark,
)
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.records import DatasetInfo

NOISE = 0.05
"""Largest difference of contributors' mean errors by chance, as for other seeds; a larger one is a contradiction."""
SAME = 1e-6
"""Largest difference of errors of the same seed; a larger one is a contradiction."""
REPEATED, CONTRADICTS, OUTLIER = "the same run", "contradicts", "does not fit"
LOCAL = ""
"""Contributor of the history's own runs: the empty text, so that it sorts first."""
_COPY = 1e-6


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Runs of one dataset, configuration and budget with contradicting errors.

    Attributes:
        dataset: id.
        config: values by name.
        origin: of the runs, which names their budget.
        errors: by contributor, the mean; `LOCAL` is the history itself.
        answers: contributors whose error counts.
    """

    dataset: str
    config: Mapping[str, object]
    origin: str
    errors: Mapping[str, float]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MergeView:
    """The contributed runs in use, and those set aside.

    Attributes:
        answering: contributed runs in use, in the order of their records.
        aside: reasons for those set aside, by the id of their record.
        contradictions: all of them.
    """

    answering: tuple[SharedRun, ...]
    aside: Mapping[str, str]
    contradictions: tuple[Contradiction, ...]


def build_view(
    local: Sequence[SharedRun],
    contributed: Iterable[SharedRun],
    *,
    about: Mapping[str, DatasetInfo],
    features: Mapping[str, Features] | None = None,
    released: Collection[str] = (),
) -> MergeView:
    """Choose the contributed runs to use.

    Args:
        local: runs of the history itself, whose `by` is `LOCAL`.
        contributed: contributed runs, in any order.
        about: descriptions by dataset id.
        features: of datasets, by id.
        released: ids of runs to use though they do not fit.

    Returns: the same for every order of `contributed`.
    """
    aside: dict[str, str] = {}
    runs = _drop_repeats(local, contributed, aside)
    odd = _outliers(local, runs, about, features or {})
    for run in runs:
        if run.id in odd and run.id not in released:
            aside[run.id] = f"{OUTLIER}: {odd[run.id]}"
    runs = [run for run in runs if run.id not in aside]
    contradictions = _contradictions(local, runs, aside)
    answering = tuple(sorted((run for run in runs if run.id not in aside), key=lambda run: run.line))
    return MergeView(answering, aside, contradictions)


def describe_all(local: Mapping[str, DatasetInfo], described: Iterable[Described]) -> dict[str, DatasetInfo]:
    """Choose a description, a name and a group for every contributed dataset.

    Yours stays unchanged. Of several descriptions the first by its record counts. A name of two datasets is told
    apart by the id; datasets of the same images are siblings.

    Args:
        local: the history's own by id.
        described: contributed descriptions.

    Returns: contributed ones by id.
    """
    first: dict[str, DatasetInfo] = {}
    for record in sorted(described, key=lambda record: dataset_line(record.info)):
        first.setdefault(record.id, record.info)
    chosen = {key: first[key] for key in sorted(first) if key not in local}
    claims: defaultdict[str, int] = defaultdict(int)
    for info in (*local.values(), *chosen.values()):
        claims[info.name] += 1
    group_of = {
        info.fingerprint: info.group for info in reversed((*local.values(), *chosen.values())) if info.fingerprint
    }
    return {
        key: replace(
            info,
            name=info.name if claims[info.name] == 1 else f"{info.name} ({key[:8]})",
            group=group_of.get(info.fingerprint, info.group),
        )
        for key, info in chosen.items()
    }


def first_features(records: Iterable[Features], *, size: int) -> dict[str, Features]:
    """Choose the features of every dataset among those of one image size: the first by its record."""
    by_dataset: dict[str, Features] = {}
    for record in sorted((record for record in records if record.size == size), key=features_line):
        by_dataset.setdefault(record.dataset, record)
    return by_dataset


def _drop_repeats(
    local: Sequence[SharedRun], contributed: Iterable[SharedRun], aside: dict[str, str]
) -> list[SharedRun]:
    """Drop repeated runs, and runs that contradict another one of the same contributor and seed."""
    contributor_of = {run.line: LOCAL for run in local}
    slots: dict[object, SharedRun] = {}
    distinct = []
    # The larger error first: of contradicting runs of one seed it counts.
    for run in sorted(contributed, key=lambda run: (run.by, -_error(run), run.line)):
        key = run_line(replace(run.run, origin=_origin(run)), run.run.dataset, LOCAL)
        if key in contributor_of:
            aside[run.id] = (
                f"{REPEATED} as {'your own' if contributor_of[key] == LOCAL else f'from {contributor_of[key]}'}"
            )
            continue
        contributor_of[key] = run.by
        slot = (run.run.dataset, config_key(run.run.config), run.run.seed, _origin(run), run.by)
        if run.run.seed is not None and slot in slots:
            aside[run.id] = f"{CONTRADICTS}: {run.by} says {_error(slots[slot]):.4g} too, for the same seed"
            continue
        slots[slot] = run
        distinct.append(run)
    return distinct


def _origin(run: SharedRun) -> str:
    """Return a run's origin without the server token that bundles of version 0.2 may name."""
    return without_mark(run.run.origin)


def _error(run: SharedRun) -> float:
    return run.run.error if run.run.status.has_error else -1.0


def _outliers(
    local: Sequence[SharedRun],
    runs: Sequence[SharedRun],
    about: Mapping[str, DatasetInfo],
    features: Mapping[str, Features],
) -> dict[str, str]:
    """Return the reasons why contributed runs do not fit, by the id of their record."""
    rows: dict[tuple[str, str], int] = {}
    columns: dict[object, int] = {}
    cells: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    cell_of: dict[str, tuple[int, int]] = {}
    for run in sorted((*local, *runs), key=lambda run: (run.by, run.line)):
        row = rows.setdefault((run.run.dataset, run.by), len(rows))
        column = columns.setdefault(config_key(run.run.config), len(columns))
        if run.by != LOCAL:
            cell_of[run.id] = (row, column)
        if run.run.status.has_error:
            cells[row, column].append(run.run.error)
    errors = np.full((len(rows), len(columns)), np.nan)
    for cell, values in cells.items():
        # Exact sums do not depend on the order of merging.
        errors[cell] = math.fsum(values) / len(values)
    verdict = agreement(errors, [about[dataset].group for dataset, _ in rows])
    whole = _outlier_rows(list(rows), verdict, about, features)
    reasons = {}
    for key, (row, column) in cell_of.items():
        if row in whole:
            reasons[key] = whole[row]
        elif verdict.odd[row, column]:
            shift = verdict.shifts[row, column]
            reasons[key] = (
                f"it ranks {abs(shift):.0%} of all configurations {'better' if shift < 0 else 'worse'} here than elsewhere"
            )
    return reasons


def _outlier_rows(
    rows: Sequence[tuple[str, str]],
    verdict: Agreement,
    about: Mapping[str, DatasetInfo],
    features: Mapping[str, Features],
) -> dict[int, str]:
    """Return the reasons for rows none of whose runs fits."""
    whole = {}
    for row in np.flatnonzero(verdict.outliers).tolist():
        if verdict.constant[row]:
            whole[row] = "all errors of the dataset are equal"
        else:
            whole[row] = (
                f"its ranking of configurations has a correlation of {verdict.scores[row]:.2f} with that of the others "
                f"(at least {verdict.limit:.2f} is expected)"
            )
    by_score = sorted(
        range(len(rows)), key=lambda row: (rows[row][1] != LOCAL, -np.nan_to_num(verdict.scores[row]), rows[row])
    )
    earlier: list[tuple[str, Features]] = []
    for row in by_score:
        dataset = rows[row][0]
        features_here = features.get(dataset)
        if features_here is None or row in whole:
            continue
        mark = about[dataset].fingerprint
        twins = [
            twin
            for twin, twin_features in earlier
            if about[twin].fingerprint != mark and _is_copy(twin_features, features_here)
        ]
        if twins and rows[row][1] != LOCAL:
            whole[row] = f"its meta-features are those of {about[twins[0]].name}, of other images"
        else:
            earlier.append((dataset, features_here))
    return whole


def _is_copy(a: Features, b: Features) -> bool:
    return a.features.shape == b.features.shape and bool(np.abs(a.features - b.features).max() <= _COPY)


def _contradictions(
    local: Sequence[SharedRun], runs: Sequence[SharedRun], aside: dict[str, str]
) -> tuple[Contradiction, ...]:
    """Find contradictions, and set aside the runs that do not count."""
    cells: defaultdict[tuple[object, ...], defaultdict[str, list[SharedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in (*local, *runs):
        if run.run.status.has_error:
            last = run.run.curve[-1][0] if run.run.curve else None
            cell = (run.run.dataset, config_key(run.run.config), _origin(run), last)
            cells[cell][run.by].append(run)
    contradictions = []
    for sides in cells.values():
        if len(sides) < 2:
            continue
        means = {by: math.fsum(sorted(run.run.error for run in its)) / len(its) for by, its in sides.items()}
        order = sorted(means, key=lambda by: (means[by], by))
        middle = LOCAL if LOCAL in means else order[len(order) // 2]
        against = {by for by in order if by != middle and _are_contradictory(sides[by], sides[middle])}
        if not against:
            continue
        example = sides[middle][0].run
        answers = tuple(sorted(set(order) - against))
        contradictions.append(
            Contradiction(
                example.dataset, dict(example.config), _origin(sides[middle][0]), dict(sorted(means.items())), answers
            )
        )
        for by in against - {LOCAL}:
            for run in sides[by]:
                claim = "you measured" if middle == LOCAL else f"{middle} says"
                aside[run.id] = f"{CONTRADICTS}: {claim} {means[middle]:.4g} where it says {run.run.error:.4g}"
    return tuple(
        sorted(
            contradictions,
            key=lambda contradiction: (
                contradiction.dataset,
                canonical(dict(contradiction.config)),
                contradiction.origin,
            ),
        )
    )


def _are_contradictory(runs_a: Sequence[SharedRun], runs_b: Sequence[SharedRun]) -> bool:
    """Tell whether two contributors' runs of one cell contradict each other."""
    for a in runs_a:
        for b in runs_b:
            if a.run.seed == b.run.seed and a.run.seed is not None and abs(a.run.error - b.run.error) > SAME:
                return True
    means = [math.fsum(sorted(run.run.error for run in runs)) / len(runs) for runs in (runs_a, runs_b)]
    return abs(means[0] - means[1]) > NOISE
