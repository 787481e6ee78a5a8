"""Search spaces: ConfigSpace JSON, and names and values for people.

ConfigSpace is imported inside the functions: answering a query needs stored configurations only.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.records import Config, Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

CONDITIONS = 250
"""The most hyperparameters with conditions, of which each makes ConfigSpace look at all."""
DEPTH = 10
"""Of conditions on hyperparameters that have conditions, at most one less."""
CHOICES = 10_001
"""The most values of a range with steps, and the most choices of a space."""
PARTS = 1_000
"""The most hyperparameters of a space, conditions and clauses: searching among more is slow."""
_IGNORED_KEYS = frozenset({"name", "meta", "python_module_version", "format_version"})
"""Keys of ConfigSpace JSON that change no configuration."""


def dump_space(space: ConfigurationSpace) -> str:
    """Write a space as ConfigSpace JSON, keys sorted, so that equal spaces give equal texts."""
    return json.dumps(space.to_serialized_dict(), sort_keys=True)


def load_space(text: str, location: str = "space") -> ConfigurationSpace:
    """Read a space from ConfigSpace JSON, conditions and forbidden clauses included.

    Raises:
        DataError: when the text is no such JSON, or names no hyperparameter.
    """
    import numpy as np
    from ConfigSpace import ConfigurationSpace

    try:
        # Bounds so large that ConfigSpace cannot round them are an error, not a warning.
        with np.errstate(over="raise"):
            document = parse_stored_json(text)
            _check_size(document, location)
            space = ConfigurationSpace.from_serialized_dict(_with_tuples(document))
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        msg = f"{location}: expected ConfigSpace JSON, got {text[:60]!r}. Write one with ConfigurationSpace.to_json."
        raise DataError(msg) from error
    if not len(space):
        msg = f"{location}: expected ConfigSpace JSON with at least one hyperparameter, got {text[:60]!r}. Add one to the space."
        raise DataError(msg)
    return space


def check_conditions(parents: Mapping[str, Iterable[str]], location: str) -> None:
    """Check that conditions build on each other so little that ConfigSpace can follow them.

    Its work doubles with each condition on a hyperparameter that has conditions itself.

    Args:
        parents: of each hyperparameter with conditions.
        location: begins messages.

    Raises:
        DataError: they are too many, or too deep.
        CycleError: they run in a circle.
    """
    if len(parents) > CONDITIONS:
        msg = f"{location}: expected at most {CONDITIONS} hyperparameters with conditions, got {len(parents):,}. Leave some out."
        raise DataError(msg)
    work: dict[str, int] = {}
    for name in TopologicalSorter(parents).static_order():
        work[name] = 2 * sum(work[parent] for parent in parents[name]) + 1 if name in parents else 0
    deep = max(work, key=lambda name: work[name], default="")
    if deep and work[deep] > 2**DEPTH:
        msg = f"{location}: expected conditions on conditions to a depth of {DEPTH - 1}, got more, of {deep!r}. Leave some out."
        raise DataError(msg)


def check_choices(count: int, location: str) -> None:
    """Check the number of choices of all hyperparameters; raises `DataError`."""
    if count > CHOICES:
        msg = f"{location}: expected at most {CHOICES:,} choices in all, got {count:,}. Give ranges, or leave some out."
        raise DataError(msg)


def _parents(condition: Any) -> Iterator[tuple[str, str]]:
    """Give the pairs (child, parent) of a condition in ConfigSpace JSON."""
    if "conditions" in condition:
        for part in condition["conditions"]:
            yield from _parents(part)
    else:
        yield condition["child"], condition["parent"]


def _check_size(document: Any, location: str) -> None:
    """Check that a space has no more parts than can be searched; raises `DataError`."""
    parents: dict[str, list[str]] = {}
    for condition in document.get("conditions", ()):
        for child, parent in _parents(condition):
            parents.setdefault(child, []).append(parent)
    check_conditions(parents, location)
    check_choices(
        sum(len(item.get("choices") or item.get("sequence") or ()) for item in document["hyperparameters"]), location
    )
    parts = {name: len(document[name]) for name in ("hyperparameters", "conditions", "forbiddens") if name in document}
    many = next((name for name, count in parts.items() if count > PARTS), None)
    if many is not None:
        msg = f"{location}: expected at most {PARTS:,} {many}, got {parts[many]:,}. Leave some out."
        raise DataError(msg)


def same_space(first: str, second: str) -> bool:
    """Return whether two spaces in ConfigSpace JSON are equal; names, versions and Optuna's order do not count."""
    return bool(_comparable_space(first) == _comparable_space(second))


def space_difference(old: str, new: str) -> str:
    """Describe how one space differs from another."""
    before, after = ({item["name"]: item for item in _comparable_space(text)["hyperparameters"]} for text in (old, new))
    parts = [
        f"{verb} {', '.join(names)}"
        for verb, names in (
            ("adds", [name for name in after if name not in before]),
            ("lacks", [name for name in before if name not in after]),
            ("changes", [name for name in after if name in before and after[name] != before[name]]),
        )
        if names
    ]
    return ", ".join(parts) or "has another order, other conditions or other clauses"


def _comparable_space(text: str) -> Any:
    """Return the content of a space without names and versions; text that is no space stays as it is."""
    space = json.loads(text)
    if not isinstance(space, dict) or not isinstance(space.get("hyperparameters", []), list):
        return space
    facts = {key: value for key, value in space.items() if key not in _IGNORED_KEYS}
    named = [
        {key: value for key, value in item.items() if key != "meta"} if isinstance(item, dict) else item
        for item in space.get("hyperparameters", [])
    ]
    return facts | {"hyperparameters": named}


_VALUE, _VALUES = {"value", "default_value"}, {"values", "choices", "sequence"}
"""Where ConfigSpace JSON has a value of a hyperparameter, and where several."""


def _with_tuples(record: Any) -> Any:
    """Turn lists of JSON back into the tuples of a space's values."""
    if isinstance(record, list):
        return [_with_tuples(item) for item in record]
    if not isinstance(record, dict):
        return record
    tuples = {name: as_tuple(value) for name, value in record.items() if name in _VALUE}
    tuples |= {name: [*map(as_tuple, value)] for name, value in record.items() if name in _VALUES}
    return {name: tuples.get(name, _with_tuples(value)) for name, value in record.items()}


def as_tuple(value: Any) -> Any:
    """Turn lists of JSON into tuples."""
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


def natural(config: Config) -> dict[str, float]:
    """Return the values behind logarithms: `log10_learning_rate` -2.9 becomes `learning_rate` 0.00126.

    What no float holds (beyond 1e308) is left out.
    """
    return {
        name.removeprefix("log10_"): float(10.0**value)
        for name, value in config.items()
        if name.startswith("log10_") and isinstance(value, int | float) and value < sys.float_info.max_10_exp
    }


def shown(config: Config) -> dict[str, Value]:
    """Return a configuration for people: natural values in place of their logarithms, empty text in quotes."""
    values = natural(config)
    readable: dict[str, Value] = {}
    for name, value in config.items():
        plain = name.removeprefix("log10_")
        is_natural = plain != name and plain in values and plain not in config
        readable[plain if is_natural else name] = values[plain] if is_natural else '""' if value == "" else value
    return readable


def with_logarithms(
    config: Mapping[str, Any], names: Collection[str], *, location: str = "configuration"
) -> dict[str, Any]:
    """Return a configuration in the names of a space: `learning_rate` 0.001 becomes `log10_learning_rate` -3.

    Args:
        config: values by name; of a value and its logarithm one is enough.
        names: of the space.
        location: begins messages.

    Raises:
        UsageError: a value and its logarithm that are not equal, or a value that has none.
    """
    converted = dict(config)
    for name in [name for name in config if name not in names and f"log10_{name}" in names]:
        value, logarithm = converted.pop(name), f"log10_{name}"
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
        if not is_number:
            msg = f"{location}: expected {name} > 0, got {value!r}. Correct it, or give {logarithm}."
            raise UsageError(msg)
        stored = converted.setdefault(logarithm, math.log10(value))
        if not isinstance(stored, int | float) or not math.isclose(stored, math.log10(value), rel_tol=0, abs_tol=5e-4):
            msg = (
                f"{location}: expected {name} to be 10^{logarithm}, got {value!r} and {stored!r}. Give one of the two."
            )
            raise UsageError(msg)
    return converted


def space_names(space_json: str) -> list[str]:
    """List the hyperparameters of a space without building it.

    Raises:
        ValueError: the text is no ConfigSpace JSON.
    """
    space = parse_stored_json(space_json)
    items = space.get("hyperparameters") if isinstance(space, dict) else None
    listed = items if isinstance(items, list) else []
    names = [item["name"] for item in listed if isinstance(item, dict) and isinstance(item.get("name"), str)]
    if not names or len(names) != len(listed):
        msg = f"a space without hyperparameters, {space_json:.60}"
        raise ValueError(msg)
    return names
