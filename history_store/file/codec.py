"""Datasets and evaluations as JSON values, and back: one form for the file, the journal and the shards."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.records import Config, DatasetInfo, Evaluation, Status, Value

_INFO_FIELDS = tuple(field.name for field in fields(DatasetInfo))
_COUNTS = ("n_train", "n_val", "n_test", "n_classes", "channels", "split_seed")
_RUN_FIELDS = frozenset({"error", "status", "duration", "seed", "curve", "origin"})
Operation = dict[str, Any]
_STATUS = {status.value: status for status in Status}


def encode_info(info: DatasetInfo) -> dict[str, Any]:
    """Return the fields of a dataset as JSON values."""
    values: dict[str, Any] = {name: getattr(info, name) for name in _INFO_FIELDS}
    return values | {"class_counts": list(info.class_counts), "extra": dict(info.extra)}


def decode_info(values: Any, location: str) -> DatasetInfo:
    """Build a dataset from JSON values.

    Raises:
        DataError: a field is missing, unknown or of a wrong kind.
    """
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        msg = f"{location}: expected the fields of a dataset, got {values!r}. Write a JSON object."
        raise DataError(msg)
    unknown = sorted(set(values) - set(_INFO_FIELDS))
    if unknown:
        msg = f"{location}: expected fields among {', '.join(_INFO_FIELDS)}, got {', '.join(unknown)}. Remove or rename them."
        raise DataError(msg)
    wrong = sorted(
        name
        for name, value in values.items()
        if type(value) is not _JSON_TYPES[name] and not _has_right_type(name, value)
    )
    if wrong:
        msg = f"{location}: expected texts, whole numbers and a fraction as `DatasetInfo` has them, got {', '.join(f'{name}={values[name]!r:.60}' for name in wrong)}. Correct them."
        raise DataError(msg)
    try:
        counts = tuple(int(count) for count in values.get("class_counts", ()))
        extra = {str(key): str(value) for key, value in dict(values.get("extra", {})).items()}
        return DatasetInfo(**{**values, "class_counts": counts, "extra": extra})
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"{location}: expected the fields of a dataset, got {dict(values)} ({error}). Correct the named field."
        raise DataError(msg) from error


_JSON_TYPES = {
    name: int if name in _COUNTS else float if name == "fraction" else list if name == "class_counts" else str
    for name in _INFO_FIELDS
} | {"extra": dict}
"""Usual type of each field in JSON: a quick check before `_has_right_type`."""


def _has_right_type(name: str, value: Any) -> bool:
    """Return whether a value has the type of its field."""
    if name in ("class_counts", "extra"):
        return isinstance(value, list | tuple if name == "class_counts" else Mapping)
    if value is None:
        return name in ("parent", "split_seed", "manifest")
    if name in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | float if name == "fraction" else str)


def encode_run(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation without its dataset and configuration as JSON values; NaN becomes null."""
    return {
        "error": _null_for_nan(evaluation.error),
        "status": evaluation.status.value,
        "duration": _null_for_nan(evaluation.duration),
        "seed": None if evaluation.seed is None else int(evaluation.seed),
        "curve": [[int(step), float(error)] for step, error in evaluation.curve],
        "origin": evaluation.origin,
    }


def decode_run(values: Mapping[str, Any], dataset: str, config: Config, location: str) -> Evaluation:
    """Build an evaluation from JSON values; missing fields get the defaults of `Evaluation`.

    Raises:
        DataError: a field is unknown, of a wrong kind, or out of its range.
    """
    unknown = sorted(set(values) - _RUN_FIELDS)
    if unknown:
        msg = f"{location}: expected the fields {', '.join(sorted(_RUN_FIELDS))}, got {', '.join(unknown)}. Remove or rename them."
        raise DataError(msg)
    name = values.get("status", Status.OK.value)
    if name not in _STATUS:
        msg = f"{location}: expected a status among {', '.join(_STATUS)}, got {name!r}. Correct it."
        raise DataError(msg)
    seed = values.get("seed")
    try:
        if seed is not None and (isinstance(seed, bool) or int(seed) != seed):
            msg = f"seed {seed!r} is no whole number"
            raise ValueError(msg)  # noqa: TRY301 - one message for every field
        return Evaluation(
            dataset=dataset,
            config=config,
            error=_nan_for_null(values.get("error")),
            status=_STATUS[name],
            duration=_nan_for_null(values.get("duration")),
            seed=None if seed is None else int(seed),
            curve=tuple((int(step), float(error)) for step, error in values.get("curve") or ()),
            origin=str(values.get("origin", "unknown")),
        )
    except DataError as error:
        msg = f"{location}: {error}"
        raise DataError(msg) from error
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"{location}: expected an evaluation, got {dict(values)} ({error}). Correct the named field."
        raise DataError(msg) from error


def native(config: Config) -> dict[str, Value]:
    """Copy a configuration with plain Python values in place of numpy's."""
    return {name: _python_value(value) for name, value in config.items()}


def encode_operation(operation: Operation, serial: int) -> str:
    """Write an operation as one line of JSON.

    Raises:
        DataError: a result holds what JSON cannot.
    """
    values: Operation = {"serial": serial, **operation}
    if operation["op"] == "extend":
        values["evaluations"] = [
            {"dataset": e.dataset, "config": native(e.config)} | encode_run(e) for e in operation["evaluations"]
        ]
    try:
        text = json.dumps(values, allow_nan=False, ensure_ascii=False)
        # The numbers of evaluations were checked one by one.
        if operation["op"] != "extend":
            parse_stored_json(text)
    except (TypeError, ValueError) as error:
        msg = f"{operation['op']}: expected JSON values, got what JSON cannot hold ({error}). Use numbers, texts, lists and None for NaN."
        raise DataError(msg) from error
    return text


def config_key(config: Config) -> frozenset[tuple[str, Value]]:
    """Return the identity of a configuration as a set of pairs: equal numbers are equal whatever their type.

    Raises:
        DataError: a value is no number, text or truth value.
    """
    try:
        return frozenset(config.items())
    except (TypeError, AttributeError) as error:
        msg = f"configuration {config!r}: expected numbers, texts and truth values by name, got: {error}. Correct the value."
        raise DataError(msg) from error


def _python_value(value: Any) -> Any:
    """Return the Python value of a scalar of numpy."""
    # By the name of its module: numpy need not be loaded.
    return value.item() if type(value).__module__ == "numpy" else value


def _nan_for_null(value: Any) -> float:
    return math.nan if value is None else float(value)


def _null_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
