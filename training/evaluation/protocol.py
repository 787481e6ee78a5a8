"""Protocols: the datasets held out together with a query.

`leave-source-out` holds out the query's whole group of siblings, from the history and from the training of the model.
`in-source` is the protocol of [Kim2017warmstart]: it holds out the query alone, so other parts of the same source stay
in the history. A user's dataset has no such parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError

Protocol = Literal["leave-source-out", "in-source"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)


@dataclass(frozen=True, slots=True)
class Fold:
    """Datasets that are held out together.

    Attributes:
        name: of the held-out group or dataset.
        queries: rows of the held-out datasets.
        history: rows of all other datasets.
    """

    name: str
    queries: NDArray[np.int64]
    history: NDArray[np.int64]


def folds(protocol: Protocol, names: Sequence[str], groups: Sequence[str]) -> tuple[Fold, ...]:
    """Return the folds, one for each group of siblings or each dataset, in order of first appearance.

    Args:
        protocol: its name.
        names: `m` datasets.
        groups: `m` groups of siblings.

    Raises:
        UsageError: when the protocol is unknown.
        DataError: when a fold would hold out all datasets.
    """
    units = held_together(protocol, names, groups)
    labels = list(dict.fromkeys(units))
    if len(labels) < 2:
        noun = "groups of siblings" if protocol == "leave-source-out" else "datasets"
        msg = f"{protocol}: expected at least two {noun}, got {', '.join(labels) or 'none'}. Add datasets of other sources."
        raise DataError(msg)
    return tuple(
        Fold(
            label,
            np.array([row for row, unit in enumerate(units) if unit == label], dtype=np.int64),
            np.array([row for row, unit in enumerate(units) if unit != label], dtype=np.int64),
        )
        for label in labels
    )


def deal(protocol: Protocol, names: Sequence[str], groups: Sequence[str], k: int, *, seed: int) -> NDArray[np.int64]:
    """Partition the datasets into k random parts, with datasets of a fold in one part; models leave out one each.

    Args:
        protocol: `leave-source-out` deals groups, `in-source` datasets.
        names: `m` datasets.
        groups: `m` groups of siblings.
        k: number of parts, ≥ 2; at most the number of folds.
        seed: of the partition.

    Returns: `m` numbers of parts.

    Raises:
        UsageError: when the protocol is unknown, or k < 2.
    """
    if k < 2:
        msg = f"expected at least 2 models, each trained without one part of the datasets, got {k}. Use 6."
        raise UsageError(msg, param="folds")
    units = held_together(protocol, names, groups)
    shuffled = np.random.default_rng(seed).permutation(sorted(set(units))).tolist()
    part = {unit: position % k for position, unit in enumerate(shuffled)}
    return np.array([part[unit] for unit in units], dtype=np.int64)


def held_together(protocol: Protocol, names: Sequence[str], groups: Sequence[str]) -> Sequence[str]:
    """Return the label of each dataset; datasets with one label are held out together.

    Raises:
        UsageError: when the protocol is unknown.
    """
    if protocol not in PROTOCOLS:
        msg = f"protocol: expected one of {', '.join(PROTOCOLS)}, got {protocol!r}. Use 'leave-source-out'."
        raise UsageError(msg, given=protocol, choices=PROTOCOLS)
    return groups if protocol == "leave-source-out" else names
