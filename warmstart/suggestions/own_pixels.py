"""What a history knows of datasets at their pictures' own pixels: the pixels, and the error that `classify` reaches."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.wording import in_shell

if TYPE_CHECKING:
    from warmstart.history_store.history import History

SIDE = "side"
"""Key of `DatasetInfo.extra`: the median of the pictures' shorter sides, in pixels."""
REACHED_KEY = "reached"
"""Key of the errors that `classify` reaches, in a history's results."""
VERSION = 1
_NEARLY = 0.9
"""Share of a side at which pictures count as large enough for an image size."""
MINUTES, MEASURED_MINUTES = (3, 10, 60), 10
"""Times of `classify` for which errors are promised; later ones than were measured are extrapolated."""
_HEADS_MINUTES, _GAIN = 3, 48 / 53
"""Minutes for the joined heads, whose errors are `Reached`; and the share of their error that is left after
`MEASURED_MINUTES`, with a fine-tuning: of 367 pictures 48 were missed, by the heads alone 53."""


def side_of(info: DatasetInfo) -> float:
    """Return the pixels of the pictures' shorter side; NaN if unknown."""
    try:
        side = float(info.extra[SIDE])
    except (KeyError, ValueError):
        return np.nan
    return side if 1 <= side < np.inf else np.nan


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """Errors that the joined classifiers of `classify` reach, for the forecast of the best.

    Attributes:
        names: `m` datasets.
        errors: `m` in [0, 1].
    """

    names: tuple[str, ...]
    errors: NDArray[np.float64]

    def of(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return the errors of some datasets; NaN = not measured."""
        error_of = dict(zip(self.names, self.errors.tolist(), strict=True))
        return np.array([error_of.get(name, np.nan) for name in names])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {"version": VERSION, "names": list(self.names), "errors": np.round(self.errors, 4).tolist()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Reached":
        """Build from the fields of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: it is not what `to_dict` gives.
        """
        names, errors = tuple(map(str, fields["names"])), np.array(fields["errors"], dtype=np.float64)
        if errors.shape != (len(names),) or not ((errors >= 0) & (errors <= 1)).all():
            msg = f"expected {len(names)} errors in [0, 1], got others"
            raise ValueError(msg)
        return cls(names, errors)


def read_reached(history: "History") -> Reached | None:
    """Read what `classify` reaches on a history's datasets; None if nothing, or a later version stored it.

    Raises:
        HistoryDamagedError: it is something else.
    """
    stored = history.view_result(REACHED_KEY)
    if stored is None or stored.get("version") != VERSION:
        return None
    try:
        return Reached.from_dict(stored)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{history.path}: expected errors that classifiers reach, got others. Restore the file: `warmstart history verify {in_shell(history.path)} --restore`."
        raise HistoryDamagedError(msg) from error


@dataclass(frozen=True, slots=True)
class ExpectedAfter:
    """The error to expect of `classify` after some minutes on one core."""

    minutes: int
    error: ExpectedError

    @property
    def is_extrapolated(self) -> bool:
        """Tell whether nothing as long was measured."""
        return self.minutes > MEASURED_MINUTES

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"minutes": self.minutes, **self.error.to_dict(), "extrapolated": self.is_extrapolated}


def after_minutes(heads: ExpectedError, minutes: int) -> ExpectedAfter:
    """Return what to expect after some minutes by the expected error of the joined heads; extrapolated, it may gain nothing."""
    share = _GAIN ** (math.log(minutes / _HEADS_MINUTES) / math.log(MEASURED_MINUTES / _HEADS_MINUTES))
    high = heads.high if minutes > MEASURED_MINUTES else share * heads.high
    return ExpectedAfter(minutes, ExpectedError(share * heads.value, share * heads.low, high))


def fitting_columns(
    errors: NDArray[np.float64], sides: NDArray[np.float64], side: float | None
) -> NDArray[np.bool_]:
    """Return which configurations were measured on pictures that are no larger than those of a query, `c`.

    Args:
        errors: `m x c` of datasets, NaN = not measured.
        sides: `m` pixels of their pictures' shorter side; NaN = unknown, which any query fits.
        side: of the query's; None = those of the smallest.
    """
    known = np.nan_to_num(sides)
    least = np.where(np.isnan(errors), np.inf, known[:, None]).min(axis=0)
    fits: NDArray[np.bool_] = least <= max((side or 0) / _NEARLY, known.min())
    return fits
