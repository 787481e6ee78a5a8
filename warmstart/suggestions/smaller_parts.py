"""Errors of a history's datasets with fewer training images, for the forecast of errors on small datasets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.records import Config
from warmstart.history_store.wording import in_shell

if TYPE_CHECKING:
    from warmstart.history_store.history import History

VERSION = 1


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


def read_smaller_parts(history: "History", model_hash: str) -> SmallerParts | None:
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
