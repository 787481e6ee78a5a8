"""Table of errors to replay, from a file or a history.

The file is an npz with `errors` (m x c, NaN = missing) and `dataset_names` (m). Optional are `groups` of siblings (m),
the configurations `X` (c x d in [0, 1]) with `active` (c x d bool), `meta_features` (m x p), and distances, `distances`
or `distances_NAME` (m x m, row i with dataset i as the query).
"""

import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.error_tables import fill_failed, min_max_normalised
from warmstart.history_store.errors import DataError, MissingPathError
from warmstart.history_store.history import History
from warmstart.history_store.space import load_space

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """Errors of common configurations on several datasets, with optional features and distances.

    Attributes:
        name: for reports.
        errors: `m x c`, lower is better; NaN = missing or failed.
        datasets: `m` names, all different.
        groups: `m` groups of siblings.
        unit: `c x d` configurations in [0, 1], NaN = inactive hyperparameter; None = unknown.
        failed: `m x c` bool: cells whose run failed; they count as error 1 in true distances.
        meta_features: `m x p`, or None; NaN = unknown.
        distances: matrices `m x m` by name, row i with dataset i as the query.
    """

    name: str
    errors: Matrix
    datasets: tuple[str, ...]
    groups: tuple[str, ...]
    unit: Matrix | None = None
    failed: NDArray[np.bool_] | None = None
    meta_features: Matrix | None = None
    distances: Mapping[str, Matrix] = field(default_factory=dict)

    def __post_init__(self) -> None:
        m, c = _shape(self)
        rows: dict[str, tuple[ArrayLike | None, tuple[int | None, ...]]] = {
            "dataset_names": (self.datasets, (m,)),
            "groups": (self.groups, (m,)),
            "X": (self.unit, (c, None)),
            "failed": (self.failed, (m, c)),
            "meta_features": (self.meta_features, (m, None)),
            **{f"distances {name!r}": (matrix, (m, m)) for name, matrix in self.distances.items()},
        }
        for name, (value, expected) in rows.items():
            shape = None if value is None else np.shape(value)
            if shape is not None and (
                len(shape) != len(expected) or any(e not in (None, s) for e, s in zip(expected, shape, strict=True))
            ):
                expected_shape = " x ".join("any" if size is None else str(size) for size in expected)
                msg = f"{self.name}: expected {name} of shape {expected_shape} for errors of {m} datasets x {c} configurations, got {shape}. Align the arrays."
                raise DataError(msg)
        if len(set(self.datasets)) < m:
            msg = f"{self.name}: expected different dataset_names, got one twice. Rename it."
            raise DataError(msg)
        empty = [self.datasets[row] for row in np.flatnonzero(np.isnan(self.errors).all(axis=1))]
        if np.isinf(self.errors).any() or empty:
            got = f"none on {', '.join(empty)}" if empty else "an infinite one"
            msg = f"{self.name}: expected on every dataset at least one error, all of them numbers or NaN, got {got}. Leave such a dataset out; give NaN for a run without an error."
            raise DataError(msg)
        if self.unit is not None and not np.all(np.isnan(self.unit) | ((self.unit >= 0) & (self.unit <= 1))):
            msg = f"{self.name}: expected configurations X in [0, 1], got {np.nanmin(self.unit):g} to {np.nanmax(self.unit):g}. Scale every column."
            raise DataError(msg)

    def known_errors(self) -> Matrix:
        """Return the errors of the history: 1 for a failed run, NaN for a missing one."""
        return self.errors if self.failed is None else fill_failed(self.errors, self.failed)

    def true_distances(self, *, normalised: bool) -> Matrix:
        """Compute the mean absolute difference of errors over the common configurations of each pair of datasets.

        Args:
            normalised: scale each dataset's errors to [0, 1] by its lowest and highest first.

        Returns: `m x m`, zero diagonal; a pair without common configurations has the largest known distance.
        """
        table = min_max_normalised(self.known_errors()) if normalised else self.known_errors()
        measured = ~np.isnan(table)
        filled, matrix = np.nan_to_num(table), np.full((len(table), len(table)), np.nan)
        for row, (values, has) in enumerate(zip(filled, measured, strict=True)):
            both = measured & has
            shared = both.sum(axis=1)
            gaps = np.sum(np.abs(filled - values) * both, axis=1)
            matrix[row, shared > 0] = gaps[shared > 0] / shared[shared > 0]
        return np.where(np.isnan(matrix), np.nanmax(matrix), matrix)


def read_table(path: Path) -> ErrorTable:
    """Read a table of errors from an npz file.

    Raises:
        MissingPathError: when the file is missing.
        DataError: when it is no npz, or arrays are missing or do not fit.
    """
    if not path.is_file():
        msg = f"{path}: expected an npz file with a table of errors, got nothing there. Check `table`."
        raise MissingPathError(msg)
    if not zipfile.is_zipfile(path):
        msg = f"{path}: expected an npz file with a table of errors, got a file that cannot be read as one. Write it with numpy.savez."
        raise DataError(msg)
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays: dict[str, NDArray[Any]] = {key: file[key] for key in file.files if key != "info"}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        msg = f"{path}: expected an npz file with a table of errors, got a file that cannot be read as one. Write it with numpy.savez."
        raise DataError(msg) from error
    lacking = [name for name in ("errors", "dataset_names") if name not in arrays]
    if lacking:
        msg = f"{path}: expected the arrays errors and dataset_names, got {', '.join(sorted(arrays)) or 'none'}. Add {', '.join(lacking)}."
        raise DataError(msg)
    names = _words(arrays["dataset_names"])
    matrices = {
        key.removeprefix("distances").removeprefix("_") or "given": _floats(path, key, value)
        for key, value in arrays.items()
        if key == "distances" or key.startswith("distances_")
    }
    features = arrays.get("meta_features")
    return ErrorTable(
        path.stem,
        _floats(path, "errors", arrays["errors"]),
        names,
        _words(arrays["groups"]) if "groups" in arrays else names,
        unit=_unit(path, arrays),
        meta_features=None if features is None else _floats(path, "meta_features", features),
        distances=matrices,
    )


def history_table(history: "History", name: str, names: Collection[str] | None = None) -> ErrorTable:
    """Return the table of a history: its errors, groups and configurations.

    Args:
        history: with evaluations; datasets without any error are left out of the table.
        name: for reports.
        names: of its datasets; None = all.

    Raises:
        DataError: when no dataset has an error.
    """
    measured = np.flatnonzero(~np.isnan(history.errors).all(axis=1)).tolist()
    if names is not None:
        measured = [row for row in measured if history.names[row] in names]
    if not measured:
        msg = f"{name}: expected a history with errors, got none. Record or collect some."
        raise DataError(msg)
    kinds = {h["name"]: h for h in json.loads(history.space_json)["hyperparameters"]}
    order = [kinds[hyperparameter] for hyperparameter in load_space(history.space_json)]
    return ErrorTable(
        name,
        history.errors[measured],
        tuple(history.names[row] for row in measured),
        tuple(history.groups[row] for row in measured),
        unit=scale_choices(history.configs_unit, order),
        failed=history.failed[measured],
    )


def scale_choices(values: Matrix, hyperparameters: Sequence[Mapping[str, Any]]) -> Matrix:
    """Scale the columns of choices, which hold the number of a choice, to [0, 1].

    Args:
        values: `c x d`, output of `warmstart.history_store.numbering.to_unit`, NaN = inactive.
        hyperparameters: `d` in ConfigSpace's JSON: a categorical becomes a 0/1 column for each choice, an ordinal is
            divided by its last number, a constant is left out.

    Returns: `c x e`.
    """
    columns: list[Matrix] = []
    for column, about in zip(values.T, hyperparameters, strict=True):
        if about["type"] == "categorical":
            indicators = (column[:, None] == np.arange(len(about["choices"]))).astype(np.float64)
            columns.extend(np.where(np.isnan(column)[:, None], np.nan, indicators).T)
        elif about["type"] == "ordinal":
            columns.append(column / max(len(about["sequence"]) - 1, 1))
        elif about["type"] != "constant":
            columns.append(column)
    return np.column_stack(columns) if columns else np.zeros((len(values), 1))


def _shape(table: ErrorTable) -> tuple[int, int]:
    """Return `m` and `c` of a table with datasets and configurations."""
    if table.errors.ndim != 2 or 0 in table.errors.shape:
        msg = f"{table.name}: expected errors of datasets x configurations, got shape {table.errors.shape}. Give one row a dataset."
        raise DataError(msg)
    return table.errors.shape


def _words(values: NDArray[Any]) -> tuple[str, ...]:
    return tuple(map(str, np.atleast_1d(values).tolist()))


def _floats(path: Path, name: str, values: NDArray[Any]) -> Matrix:
    """Convert an array to float64."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{path}: expected {name} to hold numbers, got {values.dtype}. Give NaN for a missing one."
        raise DataError(msg) from error


def _unit(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Matrix | None:
    """Return the configurations, NaN for inactive hyperparameters."""
    if "X" not in arrays:
        return None
    unit = _floats(path, "X", arrays["X"])
    active = arrays.get("active")
    if active is not None and (active.shape != unit.shape or active.dtype != np.bool_):
        msg = f"{path}: expected active to be bool of X's shape {unit.shape}, got {active.dtype} of shape {active.shape}. Align the arrays."
        raise DataError(msg)
    return unit if active is None else np.where(active, unit, np.nan)
