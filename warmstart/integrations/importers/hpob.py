"""Import tables of HPO-B: space, dataset, configurations `X` in [0, 1], accuracies `y` [PinedaArango2021hpob].

With `meta-dataset-descriptors.json` beside the file the original values are restored: scaled to the variable's range,
out of its logarithm, one-hot columns as choices, `.na` columns as missing values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.external_runs import ForeignParameter, ForeignRuns
from warmstart.history_store.records import Status
from warmstart.history_store.wording import FaultError, in_shell, in_words
from warmstart.integrations.importers.external_json import read_json

DESCRIPTORS = "meta-dataset-descriptors.json"
_EXPECTED = 'a table of HPO-B, {"space": {"dataset": {"X": ..., "y": ...}}}'
_OFFSET = 1e-4
"""Offset that HPO-B adds before a logarithm."""
_NONE = ("INVALID", "na")
"""Choices for a missing value."""


def read_hpob(path: Path, *, study: str | None = None) -> ForeignRuns:
    """Read the runs of one search space on all its datasets.

    Args:
        path: of the JSON file.
        study: the search space; may be left out if there is only one.

    Raises:
        MissingPathError: no file there.
        UsageError: no space of that name, or several to choose from.
        DataError: it is no such table.
    """
    content = read_json(path, _EXPECTED)
    if isinstance(content, Mapping) and {"study", "storage", "trials"} <= content.keys():
        storage, name = (in_shell(str(content[key])) for key in ("storage", "study"))
        msg = f"{path}: expected {_EXPECTED}, got the report of a study of warmstart. Import its storage: `warmstart history import HISTORY {storage} --study {name}`."
        raise DataError(msg)
    if not isinstance(content, Mapping) or not content:
        msg = (
            f"{path}: expected {_EXPECTED}, got {type(content).__name__}. Give one of its meta-...-dataset.json files."
        )
        raise DataError(msg)
    if study not in content and (study is not None or len(content) > 1):
        msg = f"expected one of the search spaces {', '.join(content)}, got {study or 'none'}. Name one."
        raise UsageError(msg, param="study")
    space = study or next(iter(content))
    X, y, datasets = _stack_datasets(content[space], f"{path}:{space}")
    params, parameters = _named_columns(path.parent / DESCRIPTORS, space, X)
    return ForeignRuns(
        kind=f"HPO-B space {space}",
        params=params,
        values=y,
        status=[Status.OK if fine else Status.CRASHED for fine in np.isfinite(y).tolist()],
        datasets=datasets,
        durations=np.full(len(y), np.nan),
        seeds=[None] * len(y),
        origins=[f"import/hpob/{space}"] * len(y),
        curves=[()] * len(y),
        maximised=True,
        space=parameters,
    )


def _stack_datasets(tables: Any, source: str) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """Stack the datasets: `X` of `n x d`, `y` of `n`, and each row's dataset."""
    try:
        names = list(tables)
        blocks = [np.array(tables[name]["X"], dtype=np.float64) for name in names]
        values = [np.array(tables[name]["y"], dtype=np.float64).reshape(-1) for name in names]
        X, y = np.concatenate(blocks), np.concatenate(values)
        counts = [len(block) for block in blocks]
        if X.ndim != 2 or counts != [len(column) for column in values]:
            msg = f"X of shape {X.shape} and {len(y)} values"
            raise FaultError(msg)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        msg = f"{source}: expected {_EXPECTED}, got {in_words(error)}. Give one of its meta-...-dataset.json files."
        raise DataError(msg) from error
    return X, y, [f"hpob-{name}" for name, count in zip(names, counts, strict=True) for _ in range(count)]


def _named_columns(
    path: Path, space: str, X: NDArray[np.float64]
) -> tuple[dict[str, Sequence[object]], dict[str, ForeignParameter]]:
    """Return the columns by name with their original values, if the descriptors have the space; else raw columns."""
    if not path.is_file():
        return _raw_columns(X)
    descriptors = read_json(path, "descriptions of HPO-B's search spaces")
    try:
        if space not in descriptors:
            return _raw_columns(X)
        descriptor = descriptors[space]
        if len(descriptor["variables_order"]) == X.shape[1]:
            return _original_values(X, descriptor)
        problem = f"{len(descriptor['variables_order'])} variables"
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        problem = in_words(error)
    msg = f"{path}:{space}: expected the {X.shape[1]} variables of the table, got {problem}. Take the file that belongs to the table."
    raise DataError(msg)


def _raw_columns(X: NDArray[np.float64]) -> tuple[dict[str, Sequence[object]], dict[str, ForeignParameter]]:
    names = [f"x{column}" for column in range(X.shape[1])]
    columns: dict[str, Sequence[object]] = dict(zip(names, X.T.tolist(), strict=True))
    return columns, dict.fromkeys(names, ForeignParameter(0.0, 1.0))


def _original_values(
    X: NDArray[np.float64], descriptor: Mapping[str, Any]
) -> tuple[dict[str, Sequence[object]], dict[str, ForeignParameter]]:
    """Return the original values of the columns, by name."""
    index = {name: column for column, name in enumerate(descriptor["variables_order"])}
    params: dict[str, Sequence[object]] = {}
    parameters: dict[str, ForeignParameter] = {}
    for name, variable in descriptor["variables"].items():
        if "categories" in variable:
            hot = {key.split(".ohe.", 1)[1].removeprefix("_"): X[:, column] for key, column in index.items() if key.startswith(f"{name}.ohe.")}  # fmt: skip
            params[name], parameters[name] = _choices(hot)
        elif not name.endswith(".na"):
            missing = X[:, index[f"{name}.na"]] > 0.5 if f"{name}.na" in index else np.zeros(len(X), dtype=np.bool_)
            params[name], parameters[name] = _numbers(X[:, index[name]], missing, variable)
    return params, parameters


def _choices(hot: Mapping[str, NDArray[np.float64]]) -> tuple[list[object], ForeignParameter]:
    names = list(hot)
    columns = np.stack([hot[name] for name in names])
    chosen = [names[row] if on else None for row, on in zip(columns.argmax(axis=0).tolist(), (columns.max(axis=0) > 0.5).tolist(), strict=True)]  # fmt: skip
    values: list[object] = [None if name in _NONE else name for name in chosen]
    return values, ForeignParameter(choices=tuple(name for name in names if name not in _NONE))


def _numbers(
    column: NDArray[np.float64], missing: NDArray[np.bool_], variable: Mapping[str, Any]
) -> tuple[list[object], ForeignParameter]:
    low, high = float(variable["min"]), float(variable["max"])
    is_log = low != variable.get("min_before_tf", low) or high != variable.get("max_before_tf", high)
    values = low + column * (high - low)
    bounds = (low, high)
    if is_log:
        values = np.exp(values) - _OFFSET
        bounds = float(variable["min_before_tf"]), float(variable["max_before_tf"])
    numbers: list[object] = [
        None if is_missing else value for value, is_missing in zip(values.tolist(), missing.tolist(), strict=True)
    ]
    return numbers, ForeignParameter(*bounds, log=is_log)
