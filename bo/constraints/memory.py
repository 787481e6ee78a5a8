"""Lack of memory as a constraint: what ran out of it runs out with a larger batch size, and any learning rate, too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.hyperparameter_names import last_part, meaning_of

if TYPE_CHECKING:
    from warmstart.bo.observation import Observation
    from warmstart.bo.space.encoding import Encoding

Floats = NDArray[np.float64]

GROWING = "batchsize"
"""Meaning of the hyperparameters with which the memory grows, whatever the others are."""
HARMLESS = ("learningrate", "lrdecay", "weightdecay", "momentum", "dropoutrate", "epochs")
"""Meanings of those on which it does not depend."""
MOST = 4
"""Points at most that follow from one evaluation."""
_GRID = (np.arange(48) + 0.5) / 48
"""Coordinates whose values are tried: the middles of the shares of up to 48 choices."""
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""Multiples of it, modulo 1, spread over the coordinate of a harmless hyperparameter."""


def points_beyond(encoding: Encoding, observation: Observation, point: Floats) -> list[Floats]:
    """Return allowed points at which the memory runs out as it did in an evaluation: each `p`.

    Args:
        encoding: of the space.
        observation: of the evaluation.
        point: `p`, of it.
    """
    meanings = [meaning_of(last_part(name)) for name in encoding.names]
    harmless = [k for k, meaning in enumerate(meanings) if meaning in HARMLESS]
    rows: list[Floats] = []
    for k, name in enumerate(encoding.names):
        here = observation.config.get(name)
        if meanings[k] != GROWING or not _is_number(here):
            continue
        values = {value: u for u in _GRID.tolist() for value in encoding.values(k, np.array([u])) if _is_number(value)}
        values[here] = float(point[k])
        larger = sorted(value for value in values if value >= here)
        for i in sorted(set(np.linspace(0, len(larger) - 1, min(len(larger), MOST), dtype=np.int64).tolist())):
            row = point.copy()
            row[harmless] = (point[harmless] + (len(rows) + 1) * _GOLDEN) % 1.0
            row[k] = values[larger[i]]
            rows.append(row)
    allowed = encoding.valid(np.array(rows)) if rows else ()
    return [row for row, ok in zip(rows, allowed, strict=True) if ok]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
