"""What a history knows of its datasets at other sizes: with fewer images, and at their pictures' own pixels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.records import Config, DatasetInfo
from warmstart.history_store.wording import in_shell

if TYPE_CHECKING:
    from warmstart.history_store.file.snapshot import Snapshot
    from warmstart.history_store.history import History

SIDE = "side"
"""Key of `DatasetInfo.extra`: the median of the pictures' shorter sides, in pixels."""
OWN_PIXELS_KEY = "own-pixels"
"""Key of what was measured at own pixels, in a history's results."""
VERSION = 1
"""Of both records."""
_NEARLY = 0.9
"""Share of a side at which pictures count as large enough for an image size."""
MINUTES, MEASURED_MINUTES = (3, 10, 60), 10
"""Times of `classify` for which errors are promised; later ones than were measured are extrapolated."""
_HEADS_MINUTES, _GAIN = 3, 48 / 53
"""Minutes for the joined heads, whose errors are `OwnPixels.reached`; and the share of their error that is left after
`MEASURED_MINUTES`, with a fine-tuning: of 367 pictures 48 were missed, by the heads alone 53."""


def side_of(info: DatasetInfo) -> float:
    """Return the pixels of the pictures' shorter side; NaN if unknown."""
    try:
        side = float(info.extra[SIDE])
    except (KeyError, ValueError):
        return np.nan
    return side if 1 <= side < np.inf else np.nan


@dataclass(frozen=True, slots=True, eq=False)
class OwnPixels:
    """Errors of datasets at their pictures' own pixels, for the forecast of errors.

    Attributes:
        names: `m` datasets.
        reached: `m` errors in [0, 1] that the joined heads of `classify` come to; NaN = not measured.
        sharp: `m` errors by `LandmarkModel.sharp_error`; NaN where pictures are too small for it.
    """

    names: tuple[str, ...]
    reached: NDArray[np.float64]
    sharp: NDArray[np.float64]

    def of(self, names: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what is reached on some datasets, and their sharp errors; NaN = not measured."""
        row_of = {name: row for row, name in enumerate(self.names)}
        rows = [row_of.get(name, -1) for name in names]
        reached, sharp = (np.append(errors, np.nan)[rows] for errors in (self.reached, self.sharp))
        return reached, sharp

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types, rounded to four digits."""
        reached, sharp = (
            [None if np.isnan(error) else round(error, 4) for error in errors.tolist()]
            for errors in (self.reached, self.sharp)
        )
        return {"version": VERSION, "names": list(self.names), "reached": reached, "sharp": sharp}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "OwnPixels":
        """Build from the fields of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: it is not what `to_dict` gives.
        """
        names = tuple(map(str, fields["names"]))
        reached, sharp = (np.array(fields[name], dtype=np.float64) for name in ("reached", "sharp"))
        for errors in (reached, sharp):
            if errors.shape != (len(names),) or not ((errors >= 0) & (errors <= 1) | np.isnan(errors)).all():
                msg = f"expected {len(names)} errors in [0, 1], got others"
                raise ValueError(msg)
        return cls(names, reached, sharp)


def read_own_pixels(history: "Snapshot") -> OwnPixels | None:
    """Read what was measured on a history's datasets at own pixels; None if nothing, or a later version stored it.

    Raises:
        HistoryDamagedError: it is something else.
    """
    stored = history.view_result(OWN_PIXELS_KEY)
    if stored is None or stored.get("version") != VERSION:
        return None
    try:
        return OwnPixels.from_dict(stored)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{history.path}: expected errors at own pixels, got others. Restore the file: `warmstart history verify {in_shell(history.path)} --restore`."
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
    # The error falls along the logarithm of the time.
    share, least_gain = (
        float(_GAIN ** (math.log(time / _HEADS_MINUTES) / math.log(MEASURED_MINUTES / _HEADS_MINUTES)))
        for time in (minutes, min(minutes, MEASURED_MINUTES))
    )
    return ExpectedAfter(minutes, ExpectedError(share * heads.value, share * heads.low, least_gain * heads.high))


def fitting_datasets(
    errors: NDArray[np.float64], sides: NDArray[np.float64], configs: Sequence[Config], side: float | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which configurations fit pictures of a size, and which datasets were measured at the largest of their image sizes.

    A configuration fits that was measured on pictures that are no larger. Without image sizes, or pixels of any pictures, all do.

    Args:
        errors: `m x c` of datasets, NaN = not measured.
        sides: `m` pixels of their pictures' shorter side; NaN = unknown, which is no larger than any.
        configs: `c`.
        side: of the pictures; None = that of the smallest.

    Returns: `c` and `m`.
    """
    sizes = np.array([size if isinstance(size := config.get("image_size"), int) else 0 for config in configs])
    if len(np.unique(sizes)) < 2 or np.isnan(sides).all():
        return np.ones(len(configs), np.bool_), np.ones(len(errors), np.bool_)
    known = np.nan_to_num(sides)
    least = np.where(np.isnan(errors), np.inf, known[:, None]).min(axis=0)
    fits = least <= max((side or 0) / _NEARLY, known.min())
    largest = fits & (sizes == sizes[fits].max(initial=0))
    return fits, np.any(~np.isnan(errors[:, largest]), axis=1, keepdims=True)[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class SmallerParts:
    """Errors of shared configurations on parts of datasets; the forecast of errors alone uses them.

    Which configurations are best hardly depends on the number of images, so parts take no part in the choice: see
    research/transfer-protocol.md.

    Attributes:
        names: `m` names of the datasets of which they are parts, one as often as parts of it were measured.
        features: `m x q` of the parts, those that go with the model (`warmstart.metafeat.embed.feature_names`).
        n_val: `m` images that validated.
        configs: `c` configurations.
        errors: `m x c` in [0, 1]; NaN = not measured.
    """

    names: tuple[str, ...]
    features: NDArray[np.float64]
    n_val: tuple[int, ...]
    configs: tuple[Config, ...]
    errors: NDArray[np.float64]

    def of(self, names: Sequence[str], configs: Sequence[Config]) -> "SmallerParts":
        """Return the parts of some datasets, with their errors of some configurations."""
        column_of = {config_key(config): column for column, config in enumerate(self.configs)}
        errors = np.full((len(self.names), len(configs)), np.nan)
        for column, config in enumerate(configs):
            if (stored_column := column_of.get(config_key(config))) is not None:
                errors[:, column] = self.errors[:, stored_column]
        selection = set(names)
        rows = [row for row, name in enumerate(self.names) if name in selection and not np.isnan(errors[row]).all()]
        return SmallerParts(
            tuple(self.names[row] for row in rows),
            self.features[rows],
            tuple(self.n_val[row] for row in rows),
            tuple(configs),
            errors[rows],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types, rounded to four digits."""
        return {
            "version": VERSION,
            "names": list(self.names),
            "features": np.round(self.features, 4).tolist(),
            "n_val": list(self.n_val),
            "configs": [dict(config) for config in self.configs],
            "errors": [[None if np.isnan(error) else round(error, 4) for error in row] for row in self.errors.tolist()],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "SmallerParts":
        """Build parts from the fields of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: it is not what `to_dict` gives.
        """
        names, configs = tuple(map(str, fields["names"])), tuple(dict(config) for config in fields["configs"])
        features, n_val = np.array(fields["features"], dtype=np.float64), tuple(map(int, fields["n_val"]))
        errors = np.array(fields["errors"], dtype=np.float64)
        fits = errors.shape == (len(names), len(configs)) and features.shape[:1] == (len(names),) == (len(n_val),)
        if not (fits and features.ndim == 2 and np.isfinite(features).all()):
            msg = f"expected features and {len(configs)} errors of {len(names)} parts, got {features.shape} and {errors.shape}"
            raise ValueError(msg)
        if not ((errors >= 0) & (errors <= 1) | np.isnan(errors)).all():
            msg = "expected errors in [0, 1], got others"
            raise ValueError(msg)
        return cls(names, features, n_val, configs, errors)


def smaller_parts_key(model_hash: str) -> str:
    """Return the key of the smaller parts, with features of a model, in a history's results."""
    return f"smaller-parts/{model_hash}"


def read_smaller_parts(history: "Snapshot", model_hash: str) -> SmallerParts | None:
    """Read the smaller parts of a history's datasets; None if there are none, or a later version stored them.

    Raises:
        HistoryDamagedError: they are no such errors.
    """
    stored = history.view_result(smaller_parts_key(model_hash))
    if stored is None or stored.get("version") != VERSION or stored.get("names") == []:
        return None
    try:
        return SmallerParts.from_dict(stored)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{history.path}: expected errors on parts of datasets, got others. Restore the file: `warmstart history verify {in_shell(history.path)} --restore`."
        raise HistoryDamagedError(msg) from error


def drop_smaller_parts(history: "History", name: str) -> None:
    """Delete the smaller parts of a dataset, as another one may get its name.

    Args:
        history: open for writing.
        name: of the dataset.
    """
    for model_hash in history.model_hashes:
        parts = read_smaller_parts(history, model_hash)
        if parts is not None and name in parts.names:
            remaining = parts.of([dataset_name for dataset_name in parts.names if dataset_name != name], parts.configs)
            history.set_result(smaller_parts_key(model_hash), remaining.to_dict())
