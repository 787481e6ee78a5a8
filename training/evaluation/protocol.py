"""Protocols: which datasets may answer a held-out dataset, and which models may embed it.

`leave-source-out` leaves out the query's whole group of siblings, from the datasets that answer and from those that the
model was trained on. `in-source` is the protocol of [Kim2017warmstart]: it leaves out the query alone, so other parts
of the same source answer. A person's own dataset has no such parts.
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
        name: the group or the dataset held out.
        queries: rows of what is held out; `history`: rows of what answers.
    """

    name: str
    queries: NDArray[np.int64]
    history: NDArray[np.int64]


def folds(protocol: Protocol, names: Sequence[str], groups: Sequence[str]) -> tuple[Fold, ...]:
    """Return the folds: each group of siblings, or each dataset, held out in turn, in order of first appearance.

    Args:
        protocol: which.
        names: `m` datasets.
        groups: `m` groups of siblings.

    Raises:
        UsageError: an unknown protocol.
        DataError: nothing would be left to answer.
    """
    units = held_together(protocol, names, groups)
    labels = list(dict.fromkeys(units))
    if len(labels) < 2:
        what = "groups of siblings" if protocol == "leave-source-out" else "datasets"
        msg = f"{protocol}: expected at least two {what}, got {', '.join(labels) or 'none'}. Add datasets of other sources."
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
    """Deal what is held out together into k parts at random; one model is trained without each part.

    Args:
        protocol: `leave-source-out` deals groups, `in-source` datasets.
        names: `m` datasets.
        groups: `m` groups of siblings.
        k: parts, ≥ 2; no more than there is to deal.
        seed: of the dealing.

    Returns: `m` numbers of parts.

    Raises:
        UsageError: an unknown protocol, or k < 2.
    """
    if k < 2:
        msg = f"expected at least 2 models, each trained without one part of the datasets, got {k}. Use 6."
        raise UsageError(msg, param="folds")
    units = held_together(protocol, names, groups)
    shuffled = np.random.default_rng(seed).permutation(sorted(set(units))).tolist()
    part = {unit: place % k for place, unit in enumerate(shuffled)}
    return np.array([part[unit] for unit in units], dtype=np.int64)


def held_together(protocol: Protocol, names: Sequence[str], groups: Sequence[str]) -> Sequence[str]:
    """Return each dataset's label under which it is held out.

    Raises:
        UsageError: an unknown protocol.
    """
    if protocol not in PROTOCOLS:
        msg = f"protocol: expected one of {', '.join(PROTOCOLS)}, got {protocol!r}. Use 'leave-source-out'."
        raise UsageError(msg, given=protocol, choices=PROTOCOLS)
    return groups if protocol == "leave-source-out" else names
