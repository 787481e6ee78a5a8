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


def decode_info(values: Any, where: str) -> DatasetInfo:
    """Build a dataset from JSON values.

    Raises:
        DataError: a field is missing, unknown or of a wrong kind.
    """
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        msg = f"{where}: expected the fields of a dataset, got {values!r}. Write a JSON object."
        raise DataError(msg)
    unknown = sorted(set(values) - set(_INFO_FIELDS))
    if unknown:
        msg = f"{where}: expected fields among {', '.join(_INFO_FIELDS)}, got {', '.join(unknown)}. Remove or rename them."
        raise DataError(msg)
    wrong = sorted(name for name, value in values.items() if type(value) is not _USUAL[name] and not _fits(name, value))
    if wrong:
        msg = f"{where}: expected texts, whole numbers and a fraction as `DatasetInfo` has them, got {', '.join(f'{name}={values[name]!r:.60}' for name in wrong)}. Correct them."
        raise DataError(msg)
    try:
        counts = tuple(int(count) for count in values.get("class_counts", ()))
        extra = {str(key): str(value) for key, value in dict(values.get("extra", {})).items()}
        return DatasetInfo(**{**values, "class_counts": counts, "extra": extra})
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"{where}: expected the fields of a dataset, got {dict(values)} ({error}). Correct the named field."
        raise DataError(msg) from error


_USUAL = {
    name: int if name in _COUNTS else float if name == "fraction" else list if name == "class_counts" else str
    for name in _INFO_FIELDS
} | {"extra": dict}
"""What JSON gives for a field, as a rule."""


def _fits(name: str, value: Any) -> bool:
    """Tell whether a field of a dataset is of its kind."""
    if name in ("class_counts", "extra"):
        return isinstance(value, list | tuple if name == "class_counts" else Mapping)
    if value is None:
        return name in ("parent", "split_seed", "manifest")
    if name in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | float if name == "fraction" else str)


def encode_run(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation, its dataset and configuration apart, as JSON values; NaN becomes null."""
    return {
        "error": _or_none(evaluation.error),
        "status": evaluation.status.value,
        "duration": _or_none(evaluation.duration),
        "seed": None if evaluation.seed is None else int(evaluation.seed),
        "curve": [[int(step), float(error)] for step, error in evaluation.curve],
        "origin": evaluation.origin,
    }


def decode_run(values: Mapping[str, Any], dataset: str, config: Config, where: str) -> Evaluation:
    """Build an evaluation from JSON values; what is left out takes the default of `Evaluation`.

    Raises:
        DataError: a field is unknown, of a wrong kind, or out of its range.
    """
    unknown = sorted(set(values) - _RUN_FIELDS)
    if unknown:
        msg = f"{where}: expected the fields {', '.join(sorted(_RUN_FIELDS))}, got {', '.join(unknown)}. Remove or rename them."
        raise DataError(msg)
    name = values.get("status", Status.OK.value)
    if name not in _STATUS:
        msg = f"{where}: expected a status among {', '.join(_STATUS)}, got {name!r}. Correct it."
        raise DataError(msg)
    seed = values.get("seed")
    try:
        if seed is not None and (isinstance(seed, bool) or int(seed) != seed):
            msg = f"seed {seed!r} is no whole number"
            raise ValueError(msg)  # noqa: TRY301 - one message for every field
        return Evaluation(
            dataset=dataset,
            config=config,
            error=_number(values.get("error")),
            status=_STATUS[name],
            duration=_number(values.get("duration")),
            seed=None if seed is None else int(seed),
            curve=tuple((int(step), float(error)) for step, error in values.get("curve") or ()),
            origin=str(values.get("origin", "unknown")),
        )
    except DataError as error:
        msg = f"{where}: {error}"
        raise DataError(msg) from error
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"{where}: expected an evaluation, got {dict(values)} ({error}). Correct the named field."
        raise DataError(msg) from error


def native(config: Config) -> dict[str, Value]:
    """Copy a configuration with plain Python values in place of numpy's."""
    return {name: _plain(value) for name, value in config.items()}


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
        if operation["op"] != "extend":  # of which every number was checked by itself
            parse_stored_json(text)
    except (TypeError, ValueError) as error:
        msg = f"{operation['op']}: expected JSON values, got what JSON cannot hold ({error}). Use numbers, texts, lists and None for NaN."
        raise DataError(msg) from error
    return text


def config_key(config: Config) -> frozenset[tuple[str, Value]]:
    """Return what tells configurations apart: equal numbers are equal whatever their type.

    Raises:
        DataError: a value is no number, text or truth value.
    """
    try:
        return frozenset(config.items())
    except (TypeError, AttributeError) as error:
        msg = f"configuration {config!r}: expected numbers, texts and truth values by name, got: {error}. Correct the value."
        raise DataError(msg) from error


def _plain(value: Any) -> Any:
    """Return the Python value of a scalar of numpy, which need not be loaded here."""
    return value.item() if type(value).__module__ == "numpy" else value


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
