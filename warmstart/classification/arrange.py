"""Arrange the pictures of a dataset: broken ones left out, those that belong together on one side of every split."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.classification.look import Look
from warmstart.classification.near_duplicates import DoubtfulCopy, doubtful_copies, groups_of_equal
from warmstart.history_store.broken import check_few_broken
from warmstart.history_store.errors import LabelError, UsageError
from warmstart.history_store.images import BrokenImage, ImageSource
from warmstart.history_store.readers.arranged import Arrangement, names_in
from warmstart.history_store.wording import counted, some_of

LEAST = 3
"""Pictures of a class at least: one to learn from, one to judge by, and one more."""
_FOLDS = 5
"""One of them judges: as many pictures as where parts are drawn without groups."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """A dataset after a first look.

    Attributes:
        arrangement: of its pictures; None = as they are.
        broken: pictures that are left out.
        n_alike: pictures that are equal or nearly equal to another.
        n_across: pictures that belong with one of another part of the dataset, which it has by itself.
        counts: pictures by class.
        side: shorter side of the usual picture, pixels; 0 = unknown.
        copies: equal pictures whose labels or parts contradict each other.
    """

    arrangement: Arrangement | None
    broken: tuple[BrokenImage, ...]
    n_alike: int
    n_across: int
    counts: dict[str, int]
    side: int
    copies: tuple[DoubtfulCopy, ...] = ()


def arrange(
    source: ImageSource, look: Look, *, keys: Sequence[str] | None = None, strict: bool = False, seed: int = 0
) -> Arranged:
    """Arrange the pictures of a dataset.

    Args:
        source: the dataset.
        look: at its pictures.
        keys: `n`; pictures of one key belong together; None = nothing is known.
        strict: leave no broken picture out.
        seed: of the parts.

    Raises:
        BrokenImagesError: too many pictures are broken.
        LabelError: a class with too few pictures.
    """
    check_few_broken(look.broken, len(source), source.location, skip_broken=False if strict else None)
    rows = np.flatnonzero(look.is_whole)
    labels = np.asarray(source.labels)[rows]
    counts = _counts(labels, source)
    alike = groups_of_equal(look.small[rows])
    groups = alike if keys is None else _joined(alike, _numbered([keys[row] for row in rows.tolist()]))
    sizes = np.bincount(alike, minlength=len(rows))
    parts, n_across = _parts(source, rows, labels, groups, seed)
    needs_none = not look.broken and len(np.unique(groups)) == len(groups)
    names = names_in(source)
    arrangement = None if needs_none else Arrangement(tuple(names[row] for row in rows), tuple(parts), tuple(groups.tolist()))  # fmt: skip
    copies = doubtful_copies(source, rows, alike)
    return Arranged(arrangement, look.broken, int(sizes[sizes > 1].sum()), n_across, counts, look.side, copies)


def keys_by_name(source: ImageSource, pattern: str) -> list[str]:
    """Return for each picture what a regular expression finds in its name; pictures without a match are alone.

    Raises:
        UsageError: no regular expression, or one that finds nothing, or something different in every name.
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        msg = f"expected a regular expression, got {pattern!r}, which goes wrong at character {(error.pos or 0) + 1}. Write the part of the name that pictures of one group share, e.g. 'patient[0-9]+'."
        raise UsageError(msg, param="groups") from error
    names = names_in(source)
    matches = [expression.search(name) for name in names]
    keys = [f"/{row}" if match is None else "\0".join(filter(None, match.groups())) or match[0] for row, match in enumerate(matches)]  # fmt: skip
    if len(set(keys)) == len(keys):
        msg = f"expected a regular expression that finds the same in several names, got {pattern!r}, which does not: the first name is {names[0]}. Write the part that pictures of one group share."
        raise UsageError(msg, param="groups")
    return keys


def keys_by_column(source: ImageSource, name: str) -> list[str]:
    """Return the cells of a column of the table of labels, one for each picture; empty cells are alone.

    Raises:
        UsageError: pictures without such a table, or without that column.
    """
    columns = getattr(source, "columns", {})
    if name not in columns:
        msg = f"expected a column of the table of labels, which are {', '.join(columns) or 'none'}, got {name!r}. Correct it."
        raise UsageError(msg, param="group_column", given=name, choices=columns)
    return [str(cell).strip() or f"/{row}" for row, cell in enumerate(columns[name])]


def _counts(labels: NDArray[np.int64], source: ImageSource) -> dict[str, int]:
    """Return the pictures by class.

    Raises:
        LabelError: a class has too few.
    """
    counts = np.bincount(labels, minlength=len(source.class_names))
    few = [f"{source.class_names[label]} ({counts[label]})" for label in np.flatnonzero(counts < LEAST).tolist()]
    if few:
        msg = f"{source.location}: expected at least {LEAST} pictures of each class, got fewer of {some_of(few)}. Add some, or take {'that class' if len(few) == 1 else 'those classes'} out."
        raise LabelError(msg)
    return {name: int(n) for name, n in zip(source.class_names, counts, strict=True)}


def _joined(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return groups that join those of two kinds."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(first)
    nodes = np.arange(n)
    edges = np.concatenate([nodes, nodes]), np.concatenate([first, _first_of(second)])
    graph = coo_array((np.ones(2 * n), edges), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _numbered(keys: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each key, the same for equal keys."""
    return np.asarray(np.unique(np.array(keys), return_inverse=True)[1], dtype=np.int64)


def _first_of(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first row of each row's group."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(first[inverse], dtype=np.int64)


def _parts(
    source: ImageSource, rows: NDArray[np.int64], labels: NDArray[np.int64], groups: NDArray[np.int64], seed: int
) -> tuple[list[str], int]:
    """Return the part of each picture, and the number of those that belong with one of another given part."""
    own = np.full(len(source), "", dtype="<U5")
    for name, part_rows in source.splits.items():
        own[part_rows] = name
    parts = own[rows]
    n_across = sum(len(set(parts[groups == group])) > 1 for group in np.unique(groups)) if len(source.splits) > 1 else 0
    if "val" in source.splits or not (parts == "train").any():
        return parts.tolist(), n_across
    training = np.flatnonzero(parts == "train")
    parts[training[_judging(labels[training], groups[training], seed)]] = "val"
    return parts.tolist(), n_across


def _judging(labels: NDArray[np.int64], groups: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Choose the rows that judge: whole groups, about a fifth of each class.

    Raises:
        LabelError: the groups leave none.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    n_folds = min(_FOLDS, len(np.unique(groups)), int(np.bincount(labels).max()))
    if n_folds < 2:
        msg = "expected pictures of two groups at least, got one: nothing would be left to judge by. Give more, or other groups."
        raise LabelError(msg)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class of fewer pictures than folds lacks in some
        folds = list(StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed).split(labels, labels, groups))
    n_classes, wanted = labels.max() + 1, np.bincount(labels) / n_folds

    def flaws(fold: tuple[NDArray[np.int64], NDArray[np.int64]]) -> tuple[int, float]:
        counts = [np.bincount(labels[part], minlength=n_classes) for part in fold]
        return int(sum((part == 0).sum() for part in counts)), float(np.abs(counts[1] - wanted).sum())

    return np.asarray(min(folds, key=flaws)[1], dtype=np.int64)


def left_out_line(broken: Sequence[BrokenImage]) -> str:
    """Return a sentence that names the pictures that are left out; empty without any."""
    if not broken:
        return ""
    return f"{len(broken)} left out (cannot be read): {some_of([picture.path for picture in broken])}."


def together_line(arranged: Arranged, *, is_grouped: bool) -> str:
    """Return a sentence on the pictures that are kept together; empty without any."""
    parts = []
    if arranged.n_alike:
        parts.append(f"{arranged.n_alike} that are equal or nearly equal to another are kept together.")
    if is_grouped and arranged.arrangement is not None:
        parts.append(f"{counted(len(set(arranged.arrangement.groups)), 'group')} of pictures stay on one side each.")
    if arranged.n_across:
        parts.append(
            f"{counted(arranged.n_across, 'group')} lie in two of the dataset's own parts: figures are too good."
        )
    return " ".join(parts)
