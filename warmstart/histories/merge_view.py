"""From the set of all records to what answers: a function of the set, so the order of merging does not matter.

1. A run that came twice under two contributors is one run: yours counts, else the first contributor's by name.
2. Runs that do not fit what the others say are set aside (`warmstart.bo.transfer.agreement`). Your own never are.
3. Runs that contradict each other (same dataset, configuration and budget, another error) are all kept. Yours answers;
   else that of the middle contributor by error, of two the worse: nobody makes a configuration look better than another saw.
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
"""Errors of other seeds differ by chance; contributors whose means differ by more contradict each other."""
SAME = 1e-6
"""Errors of the same seed that differ by more contradict each other."""
REPEATED, CONTRADICTS, OUTLIER = "the same run", "contradicts", "does not fit"
OWN = ""
"""The contributor of what was measured in the history itself: before all others in order."""
_COPY = 1e-6


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Runs of one dataset, configuration and budget whose errors cannot all be right.

    Attributes:
        dataset: id.
        config: values by name.
        origin: of the runs, which names their budget.
        errors: by contributor, the mean; `OWN` is the history itself.
        answers: whose error counts.
    """

    dataset: str
    config: Mapping[str, object]
    origin: str
    errors: Mapping[str, float]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View:
    """What answers, and what does not.

    Attributes:
        answering: contributed runs that answer, in the order of their records.
        aside: why the others do not, by the id of their record.
        contradictions: whether all sides answer or not.
    """

    answering: tuple[SharedRun, ...]
    aside: Mapping[str, str]
    contradictions: tuple[Contradiction, ...]


def view_of(
    own: Sequence[SharedRun],
    foreign: Iterable[SharedRun],
    *,
    about: Mapping[str, DatasetInfo],
    features: Mapping[str, Features] | None = None,
    released: Collection[str] = (),
) -> View:
    """Decide which contributed runs answer.

    Args:
        own: runs of the history itself, whose `by` is `OWN`.
        foreign: contributed runs, in any order.
        about: descriptions by dataset id.
        features: what datasets are like, by id.
        released: ids of runs that answer though they do not fit.

    Returns: the same for every order of `foreign`.
    """
    aside: dict[str, str] = {}
    runs = _distinct(own, foreign, aside)
    odd = _outliers(own, runs, about, features or {})
    for run in runs:
        if run.id in odd and run.id not in released:
            aside[run.id] = f"{OUTLIER}: {odd[run.id]}"
    runs = [run for run in runs if run.id not in aside]
    found = _contradictions(own, runs, aside)
    answering = tuple(sorted((run for run in runs if run.id not in aside), key=lambda run: run.line))
    return View(answering, aside, found)


def describe_all(own: Mapping[str, DatasetInfo], described: Iterable[Described]) -> dict[str, DatasetInfo]:
    """Choose a description, a name and a group for every contributed dataset.

    Yours stays as it is. Of several descriptions the first by its record counts. A name that two datasets have is told
    apart by the id; datasets of the same images are siblings.

    Args:
        own: the history's own by id.
        described: what contributors say.

    Returns: contributed ones by id.
    """
    first: dict[str, DatasetInfo] = {}
    for each in sorted(described, key=lambda each: dataset_line(each.info)):
        first.setdefault(each.id, each.info)
    wanted = {key: first[key] for key in sorted(first) if key not in own}
    claims: defaultdict[str, int] = defaultdict(int)
    for info in (*own.values(), *wanted.values()):
        claims[info.name] += 1
    group_of = {
        info.fingerprint: info.group for info in reversed((*own.values(), *wanted.values())) if info.fingerprint
    }
    return {
        key: replace(
            info,
            name=info.name if claims[info.name] == 1 else f"{info.name} ({key[:8]})",
            group=group_of.get(info.fingerprint, info.group),
        )
        for key, info in wanted.items()
    }


def first_features(records: Iterable[Features], *, size: int) -> dict[str, Features]:
    """Choose what each dataset is like among records of images of one size: the first by its record."""
    found: dict[str, Features] = {}
    for each in sorted((each for each in records if each.size == size), key=features_line):
        found.setdefault(each.dataset, each)
    return found


def _distinct(own: Sequence[SharedRun], foreign: Iterable[SharedRun], aside: dict[str, str]) -> list[SharedRun]:
    """Leave out runs that came twice, and those in which a contributor contradicts itself."""
    seen = {run.line: OWN for run in own}
    slots: dict[object, SharedRun] = {}
    kept = []
    for run in sorted(foreign, key=lambda run: (run.by, -_error(run), run.line)):
        key = run_line(replace(run.run, origin=_origin(run)), run.run.dataset, OWN)
        if key in seen:
            aside[run.id] = f"{REPEATED} as {'your own' if seen[key] == OWN else f'from {seen[key]}'}"
            continue
        seen[key] = run.by
        slot = (run.run.dataset, config_key(run.run.config), run.run.seed, _origin(run), run.by)
        if run.run.seed is not None and slot in slots:
            aside[run.id] = f"{CONTRADICTS}: {run.by} says {_error(slots[slot]):.4g} too, for the same seed"
            continue
        slots[slot] = run
        kept.append(run)
    return kept


def _origin(run: SharedRun) -> str:
    """Return who measured; bundles of version 0.2 may name the token of a server besides."""
    return without_mark(run.run.origin)


def _error(run: SharedRun) -> float:
    return run.run.error if run.run.status.has_error else -1.0


def _outliers(
    own: Sequence[SharedRun],
    runs: Sequence[SharedRun],
    about: Mapping[str, DatasetInfo],
    features: Mapping[str, Features],
) -> dict[str, str]:
    """Say of contributed runs why they do not fit, by the id of their record."""
    rows: dict[tuple[str, str], int] = {}
    columns: dict[object, int] = {}
    cells: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    place: dict[str, tuple[int, int]] = {}
    for run in sorted((*own, *runs), key=lambda run: (run.by, run.line)):
        row = rows.setdefault((run.run.dataset, run.by), len(rows))
        column = columns.setdefault(config_key(run.run.config), len(columns))
        if run.by != OWN:
            place[run.id] = (row, column)
        if run.run.status.has_error:
            cells[row, column].append(run.run.error)
    errors = np.full((len(rows), len(columns)), np.nan)
    for cell, values in cells.items():
        errors[cell] = math.fsum(values) / len(values)
    found = agreement(errors, [about[dataset].group for dataset, _ in rows])
    whole = _whole_outliers(list(rows), found, about, features)
    said = {}
    for key, (row, column) in place.items():
        if row in whole:
            said[key] = whole[row]
        elif found.odd[row, column]:
            shift = found.shifts[row, column]
            said[key] = (
                f"it ranks {abs(shift):.0%} of all configurations {'better' if shift < 0 else 'worse'} here than elsewhere"
            )
    return said


def _whole_outliers(
    rows: Sequence[tuple[str, str]],
    found: Agreement,
    about: Mapping[str, DatasetInfo],
    features: Mapping[str, Features],
) -> dict[int, str]:
    """Say of which rows no run fits, and why."""
    whole = {}
    for row in np.flatnonzero(found.outliers).tolist():
        if found.constant[row]:
            whole[row] = "all errors of the dataset are equal"
        else:
            whole[row] = (
                f"its ranking of configurations has a correlation of {found.scores[row]:.2f} with that of the others "
                f"(at least {found.limit:.2f} is expected)"
            )
    by_score = sorted(
        range(len(rows)), key=lambda row: (rows[row][1] != OWN, -np.nan_to_num(found.scores[row]), rows[row])
    )
    seen: list[tuple[str, Features]] = []
    for row in by_score:
        dataset = rows[row][0]
        like = features.get(dataset)
        if like is None or row in whole:
            continue
        mark = about[dataset].fingerprint
        twins = [other for other, known in seen if about[other].fingerprint != mark and _is_copy(known, like)]
        if twins and rows[row][1] != OWN:
            whole[row] = f"its meta-features are those of {about[twins[0]].name}, of other images"
        else:
            seen.append((dataset, like))
    return whole


def _is_copy(a: Features, b: Features) -> bool:
    return a.features.shape == b.features.shape and bool(np.abs(a.features - b.features).max() <= _COPY)


def _contradictions(
    own: Sequence[SharedRun], runs: Sequence[SharedRun], aside: dict[str, str]
) -> tuple[Contradiction, ...]:
    """Find runs whose errors cannot all be right, and set aside those that do not answer."""
    cells: defaultdict[tuple[object, ...], defaultdict[str, list[SharedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in (*own, *runs):
        if run.run.status.has_error:
            last = run.run.curve[-1][0] if run.run.curve else None
            cell = (run.run.dataset, config_key(run.run.config), _origin(run), last)
            cells[cell][run.by].append(run)
    found = []
    for sides in cells.values():
        if len(sides) < 2:
            continue
        means = {by: math.fsum(sorted(run.run.error for run in its)) / len(its) for by, its in sides.items()}
        order = sorted(means, key=lambda by: (means[by], by))
        middle = OWN if OWN in means else order[len(order) // 2]
        against = {by for by in order if by != middle and _contradict(sides[by], sides[middle])}
        if not against:
            continue
        one = sides[middle][0].run
        answers = tuple(sorted(set(order) - against))
        found.append(
            Contradiction(
                one.dataset, dict(one.config), _origin(sides[middle][0]), dict(sorted(means.items())), answers
            )
        )
        for by in against - {OWN}:
            for run in sides[by]:
                said = "you measured" if middle == OWN else f"{middle} says"
                aside[run.id] = f"{CONTRADICTS}: {said} {means[middle]:.4g} where it says {run.run.error:.4g}"
    return tuple(sorted(found, key=lambda each: (each.dataset, canonical(dict(each.config)), each.origin)))


def _contradict(some: Sequence[SharedRun], others: Sequence[SharedRun]) -> bool:
    """Tell whether two contributors' runs of one cell cannot both be right."""
    for a in some:
        for b in others:
            if a.run.seed == b.run.seed and a.run.seed is not None and abs(a.run.error - b.run.error) > SAME:
                return True
    means = [math.fsum(sorted(run.run.error for run in runs)) / len(runs) for runs in (some, others)]
    return abs(means[0] - means[1]) > NOISE
