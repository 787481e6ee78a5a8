"""Search spaces in short form (YAML, JSON or a dict): a hyperparameter a key, with its range or choices.

::

    lr: {log: [1e-5, 0.1]}        # a real on a logarithmic scale
    dropout: [0, 0.5]             # two numbers are a range of reals
    layers: {int: [1, 9]}         # two whole numbers have to be called a range
    batch_size: [16, 32, 64]      # more numbers are choices, ordered by size; so are words, without an order
    momentum: {float: [0, 0.99], default: 0.9, if: {optimizer: sgd}}

`docs/spaces.md` has the whole of it. ConfigSpace and PyYAML are imported inside the functions.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart.history_store.errors import DataError
from warmstart.history_store.foreign_spaces import ForeignEntryError, foreign_space
from warmstart.history_store.json_text import plain_fault
from warmstart.history_store.quoting import in_line, plain_value
from warmstart.history_store.space import CHOICES, PARTS, check_choices, check_conditions, load_space

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Path = tuple[str, ...]
KINDS = ("float", "log", "int", "log_int", "choice", "ordered", "value")
_EXPECTED = "ConfigSpace JSON, or a space in YAML such as 'lr: {log: [1e-5, 0.1]}'"
_RANGES = KINDS[:4]
_EXTRA_KEYS = ("step", "default", "if")
_OTHER_WORDS = {
    "range": "float",
    "uniform": "float",
    "real": "float",
    "loguniform": "log",
    "log_float": "log",
    "log_uniform": "log",
    "integer": "int",
    "int_log": "log_int",
    "choices": "choice",
    "categorical": "choice",
    "values": "choice",
    "ordinal": "ordered",
    "constant": "value",
    "q": "step",
    "condition": "if",
    "when": "if",
}
"""Words of other tools, with ours."""
_BOUNDS = ("min", "low", "lower", "from", "start"), ("max", "high", "upper", "to", "stop")
"""Other tools' names of the two ends of a range."""
MOST_WHOLE = 2**53
"""The largest bound of whole numbers: ConfigSpace computes in floats."""
LEAST = 1e-12
"""The least lower bound of a logarithmic real: ConfigSpace keeps 13 decimals."""
MOST = 1e100
"""The largest bound, either way."""


@dataclass(frozen=True, slots=True)
class Source:
    """Location of a short form, for messages.

    Attributes:
        location: file, option or argument.
        lines: line, from 1, of a hyperparameter, or of a key of it; empty where there are no lines.
    """

    location: str
    lines: Mapping[Path, int] = field(default_factory=dict)

    def renamed(self, paths: Mapping[str, Path]) -> Source:
        """Return the source of hyperparameters whose keys lie deeper in the document, by name and path."""
        lines: dict[Path, int] = {
            (name,): line for name, path in paths.items() if (line := self._line(path)) is not None
        }
        return Source(self.location, lines)

    def _line(self, path: Path) -> int | None:
        """Return the line of a key, or of the nearest one round it that has one."""
        return next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)

    def error(self, path: Path, expected: str, got: object, step: str) -> DataError:
        """Return the error of one hyperparameter or of a key of it."""
        at = self._line(path)
        location = self.location if at is None else f"{self.location}, line {at}"
        subject = f": {' '.join(path)}" if any(path) else ""
        return DataError(f"{location}{subject}: expected {expected}, got {_short_repr(got)}. {step}")


def parse_space(text: str, location: str = "space") -> ConfigurationSpace:
    """Read a space from text: the short form in YAML or JSON, or ConfigSpace JSON.

    Raises:
        DataError: a text that is neither; the message names the line.
    """
    data, lines = read_yaml(text, location, expected=_EXPECTED)
    if _is_configspace(data):
        return load_space(text if text.lstrip().startswith("{") else json.dumps(data), location)
    if not isinstance(data, Mapping):
        msg = f"{location}: expected a space, one hyperparameter a line such as 'lr: {{log: [1e-5, 0.1]}}', or ConfigSpace JSON, got {_short_repr(data)}. Write the names of your hyperparameters with their ranges; docs/spaces.md shows how."
        raise DataError(msg)
    return build_space(data, Source(location, lines))


def build_space(entries: Mapping[Any, Any], source: Source) -> ConfigurationSpace:
    """Build the space of a short form.

    Args:
        entries: what each hyperparameter may be, by name; see docs/spaces.md.
        source: for messages.

    Raises:
        DataError: an entry that is no range and no choices, or a condition on what is not there.
    """
    from ConfigSpace import ConfigurationSpace

    if _is_configspace(entries):
        return load_space(json.dumps(entries), source.location)
    try:
        foreign = foreign_space(entries)
    except ForeignEntryError as error:
        step = "Write it in the short form of docs/spaces.md."
        raise source.error(error.path, error.expected, error.got, step) from error
    if foreign is not None:
        entries, source = foreign.entries, source.renamed(foreign.paths)
    if not entries:
        raise source.error((), "a space with at least one hyperparameter", "none", "Write lr: {log: [1e-5, 0.1]}.")
    if len(entries) > PARTS:
        raise source.error((), f"at most {PARTS:,} hyperparameters", f"{len(entries):,}", "Leave some out.")
    hyperparameters, n_choices = list[Any](), 0
    conditions: dict[str, Any] = {}
    for name, entry in entries.items():
        if not isinstance(name, str) or not name.strip() or plain_fault(name):
            step = "Write lr: {log: [1e-5, 0.1]}." if isinstance(name, str) else "Put it in quotes."
            raise source.error((in_line(name).strip(),), "a name of a hyperparameter", name, step)
        native = _python_value(_whole_numbers(entry) if isinstance(entry, range) else entry)
        spec = _entry_spec(name, tuple(native) if isinstance(entry, tuple) else native, source)
        conditions[name] = spec.pop("if", None)
        try:
            hyperparameters.append(_hyperparameter(name, spec, source))
        except (ValueError, TypeError, ArithmeticError) as error:
            if isinstance(error, DataError):
                raise
            raise source.error(
                (name,), "a range or choices that ConfigSpace can express", entry, "Change its bounds or its choices."
            ) from error
        n_choices += _n_choices(hyperparameters[-1])
        check_choices(n_choices, source.location)
    # At once: after each, ConfigSpace looks at all of them anew.
    space = ConfigurationSpace(space=hyperparameters)
    added = [_condition(space, name, entry, source) for name, entry in conditions.items() if entry is not None]
    parents = {name: condition for name, condition in conditions.items() if isinstance(condition, Mapping)}
    try:
        check_conditions(parents, source.location)
    except CycleError as error:
        name = max(error.args[1], key=list(conditions).index)
        step = "Leave one of them out."
        raise source.error((name, "if"), "conditions that run in no circle", conditions[name], step) from error
    space.add(*added)
    return space


def _entry_spec(name: str, entry: Any, source: Source) -> dict[str, Any]:
    """Return an entry as a mapping of exactly one kind and its extra keys."""
    if not isinstance(entry, Mapping):
        return {_kind_of(name, entry, source): list(entry) if isinstance(entry, tuple) else entry}
    if isinstance(entry.get("log"), bool):  # {int: [4, 512], log: true}
        scaled = {"float": "log", "int": "log_int"} if entry["log"] else {}
        entry = {scaled.get(key, key): value for key, value in entry.items() if key != "log"}
    for key in entry:
        if key not in (*KINDS, *_EXTRA_KEYS):
            meant = _OTHER_WORDS.get(str(key)) or next(
                iter(difflib.get_close_matches(str(key), (*KINDS, *_EXTRA_KEYS), 1)), None
            )
            step = f"Write {meant}." if meant else f"Write {name}: {{log: [1e-5, 0.1]}} or {name}: [a, b, c]."
            step = _from_bounds(name, entry) or step
            raise source.error(
                (name, str(key)), f"{', '.join((*KINDS, *_EXTRA_KEYS[:-1]))} or {_EXTRA_KEYS[-1]}", key, step
            )
    kinds = [key for key in entry if key in KINDS]
    if len(kinds) != 1:
        got = " and ".join(kinds) or "none"
        raise source.error((name,), f"one key of {', '.join(KINDS)}", got, f"Write {name}: {{float: [0, 1]}}.")
    if "step" in entry and kinds[0] not in ("float", "int"):
        raise source.error((name, "step"), "steps beside float or int", kinds[0], "List the values: [1, 2, 4, 8].")
    return dict(entry)


def _from_bounds(name: str, entry: Mapping[Any, Any]) -> str:
    """Return the hint on how to write a range that was given by two bounds; empty for other entries."""
    low, high = (next((entry[word] for word in names if word in entry), None) for names in _BOUNDS)
    if not (_is_number(low) and _is_number(high)):
        return ""
    kind = "int" if isinstance(low, int) and isinstance(high, int) and (low, high) != (0, 1) else "float"
    return f"Write {name}: {{{kind}: [{low}, {high}]}}."


def _kind_of(name: str, entry: Any, source: Source) -> str:
    """Return the kind of a bare entry: two numbers are a range, more are ordered choices, other lists are choices.

    Two whole numbers may be a range or two choices: a tuple is the former, a list is refused.
    """
    if not isinstance(entry, list | tuple):
        if isinstance(entry, bool | int | float | str):
            return "value"
        step = "Write a list: a set has no order." if isinstance(entry, set | frozenset) else f"Write {name}: [0, 0.5]."
        raise source.error((name,), "a range, a list of choices or one value", entry, step)
    if not all(map(_is_number, entry)):
        _check_no_scale(name, entry, source)
        return "choice"
    if len(entry) != 2:
        return "ordered"
    if not all(isinstance(number, int) for number in entry):
        return "float"
    if isinstance(entry, tuple) and entry != (0, 1):
        return "int"
    low, high = entry
    kind, noun = ("float", "number") if low == 0 and high == 1 else ("int", "whole number")
    step = f"Write {name}: {{{kind}: [{low}, {high}]}} for any {noun} between, or {name}: {{choice: [{low}, {high}]}} for one of the two."
    if isinstance(entry, tuple):
        step = f"Write {name}: (0.0, 1.0) for any {noun} between, or {name}: {{'choice': [0, 1]}} for one of the two."
    raise source.error((name,), "a range or two choices, and this may be either", entry, step)


def _check_no_scale(name: str, entry: list[Any] | tuple[Any, ...], source: Source) -> None:
    """Check that a list of choices is no range with the word of its scale, as some tools write it."""
    words = [value.lower() for value in entry if isinstance(value, str)]
    numbers = [value for value in entry if _is_number(value)]
    kind = _OTHER_WORDS.get(words[0], words[0]) if len(words) == 1 else ""
    if kind in _RANGES and len(numbers) == 2 and len(entry) == 3:
        step = f"Write {name}: {{{kind}: [{numbers[0]:g}, {numbers[1]:g}]}} for a number between, or {name}: {{choice: [...]}} for one of the three."
        raise source.error((name,), "a range or choices, and this may be either", entry, step)


def _hyperparameter(name: str, spec: Mapping[str, Any], source: Source) -> Any:
    """Build the hyperparameter of a mapping of one kind."""
    from ConfigSpace import Categorical, Constant, Float, Integer, OrdinalHyperparameter

    kind = next(key for key in spec if key in KINDS)
    value, default = spec[kind], spec.get("default")
    default = _unquoted(default) if kind in _RANGES else default
    if kind == "value":
        _check_plain((name, kind), value, source)
        return Constant(name, value)
    if kind in _RANGES and "step" not in spec:
        low, high = _bounds((name, kind), value, source)
        if default is not None and not (_is_number(default) and low <= default <= high):
            raise source.error((name, "default"), f"a number in {low:g} .. {high:g}", default, "Correct it.")
        factory = Integer if kind in ("int", "log_int") else Float
        return factory(name, (low, high), log=kind.startswith("log"), default=default)
    choices = _stepped_values(name, spec, source) if kind in _RANGES else _choices((name, kind), value, source)
    default = default if default in choices else _unquoted(default)
    if default is not None and default not in choices:
        examples = ", ".join(map(str, choices[:8]))
        raise source.error((name, "default"), f"one of {examples}", default, "Correct it.")
    if kind == "choice":
        return Categorical(name, choices, default=choices[0] if default is None else default)
    if len(choices) == 1:
        return Constant(name, choices[0])
    ordered = sorted(choices) if all(map(_is_number, choices)) else choices
    middle = ordered[(len(ordered) - 1) // 2]
    meta = _optuna_meta(kind, ordered, spec["step"]) if kind in _RANGES else _written_order(choices, ordered)
    return OrdinalHyperparameter(name, ordered, default_value=middle if default is None else default, meta=meta)


def _bounds(path: Path, value: Any, source: Source) -> tuple[Any, Any]:
    """Read the two bounds of a range."""
    name, kind = path
    example = {"log": "1e-5, 0.1", "float": "0, 0.5", "int": "1, 9", "log_int": "16, 1024"}[kind]
    step = f"Write {name}: {{{kind}: [{example}]}}."
    expected = "two whole numbers" if kind in ("int", "log_int") else "two numbers"
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
        raise source.error(path, f"{expected}, the lower one first", value, step)
    low, high = value
    if kind in ("int", "log_int"):
        if not all(float(bound).is_integer() for bound in value):
            raise source.error(path, "two whole numbers, the lower one first", value, step)
        low, high = int(low), int(high)
    else:
        low, high = float(low), float(high)
    if not low < high:
        step = f"Write {name}: {low:g} for a constant." if low == high else step
        raise source.error(path, f"{expected}, the lower one first", value, step)
    most = MOST_WHOLE if kind in ("int", "log_int") else MOST
    least = LEAST if kind == "log" else 1 if kind == "log_int" else -most
    if low < least or high > most:
        limits = f"from {least:g} on" if high <= most else f"up to {most:g}"
        raise source.error(path, f"numbers {limits}", value, step)
    return low, high


def _stepped_values(name: str, spec: Mapping[str, Any], source: Source) -> list[Any]:
    """List the values of a range with steps."""
    kind = "int" if "int" in spec else "float"
    (low, high), step = _bounds((name, kind), spec[kind], source), _unquoted(spec["step"])
    is_whole = _is_number(step) and float(step).is_integer()
    if not _is_number(step) or not 0 < step <= high - low or (kind == "int" and not is_whole):
        expected = "a whole number" if kind == "int" else "a number"
        raise source.error((name, "step"), f"{expected} above 0, at most {high - low:g}", step, "Correct it.")
    count = math.floor((high - low) / step + 1e-9) + 1
    if count > CHOICES:
        raise source.error((name, "step"), f"at most {CHOICES:,} values", f"{count:,}", "Leave the step out.")
    if kind == "int":
        return [low + k * int(step) for k in range(count)]
    return [float(f"{low + k * step:.12g}") for k in range(count)]


def _optuna_meta(kind: str, values: list[Any], step: Any) -> dict[str, str]:
    """Return the steps of a range in Optuna's words, for `warmstart.integrations.optuna.space`."""
    classes = {"int": ("IntDistribution", int), "float": ("FloatDistribution", float)}
    (name, number), ends = classes[kind], (values[0], values[-1])
    range_ = {"step": number(_unquoted(step)), "low": ends[0], "high": ends[1]}
    # In the order of Optuna's own JSON.
    attributes = {"log": False, **range_} if kind == "int" else {**range_, "log": False}
    return {"optuna": json.dumps({"name": name, "attributes": attributes})}


def _written_order(choices: list[Any], ordered: list[Any]) -> dict[str, str] | None:
    """Return the written order of choices as Optuna's metadata; None if it is the sorted one."""
    if choices == ordered:
        return None
    return {"optuna": json.dumps({"name": "CategoricalDistribution", "attributes": {"choices": choices}})}


def _choices(path: Path, value: Any, source: Source) -> list[Any]:
    """Read a list of choices."""
    step = f"Write {path[0]}: [a, b, c]."
    if not isinstance(value, list) or not value:
        raise source.error(path, "a list of at least one choice", value, step)
    check_choices(len(value), source.location)
    before: set[Any] = set()
    for choice in value:
        _check_plain(path, choice, source)
        if choice in before:
            raise source.error(path, "choices that differ (1, 1.0 and true are one)", choice, "Name it once.")
        before.add(choice)
    return value


def _check_plain(path: Path, value: Any, source: Source) -> None:
    """Raise if a configuration cannot hold a value."""
    if value is None:
        step = "Write 'none' in quotes, and read it as such in your program."
        raise source.error(path, "a text, a number, true or false", "null", step)
    is_kept = isinstance(value, bool | int | float | str) and plain_fault(value) is None
    if not is_kept or (isinstance(value, float) and not math.isfinite(value)):
        raise source.error(path, "a text, a finite number, true or false", value, "Name it in one word.")


def _n_choices(hyperparameter: Any) -> int:
    return len(getattr(hyperparameter, "choices", None) or getattr(hyperparameter, "sequence", None) or ())


def _condition(space: ConfigurationSpace, name: str, condition: Any, source: Source) -> Any:
    """Return the condition that a hyperparameter is active only for certain values of others."""
    from ConfigSpace import AndConjunction, EqualsCondition, InCondition
    from ConfigSpace.hyperparameters import FloatHyperparameter

    path, step = (name, "if"), f"Write {name}: {{..., if: {{optimizer: sgd}}}}."
    if not isinstance(condition, Mapping) or not condition:
        raise source.error(path, "the value, or values, of another hyperparameter by its name", condition, step)
    parts = []
    for parent, condition_value in condition.items():
        if parent not in space or parent == name:
            siblings = ", ".join(sibling for sibling in space if sibling != name) or "there is none"
            raise source.error(path, f"another hyperparameter of the space ({siblings})", parent, "Correct its name.")
        values = condition_value if isinstance(condition_value, list) else [condition_value]
        for value in values:
            _check_plain(path, value, source)
        values = [
            choice if choice is None or space[parent].legal_value(choice) else _unquoted(choice) for choice in values
        ]
        for value in values:
            if value is None or not space[parent].legal_value(value):
                allowed = space[parent]
                raise source.error(path, f"a value of {parent} ({_allowed_values(allowed)})", value, "Correct it.")
        if isinstance(space[parent], FloatHyperparameter):
            expected = (
                "a hyperparameter of choices or whole numbers: one of any numbers hardly ever has just that value"
            )
            raise source.error(path, expected, parent, f"Make {parent} a choice, or leave `if` out.")
        if not values:
            raise source.error(path, f"at least one value of {parent}", condition_value, step)
        whole = space[name], space[parent]
        parts.append(EqualsCondition(*whole, values[0]) if len(values) == 1 else InCondition(*whole, values))
    return parts[0] if len(parts) == 1 else AndConjunction(*parts)


def _allowed_values(hyperparameter: Any) -> str:
    """Describe the values that a hyperparameter may have."""
    choices = getattr(hyperparameter, "choices", None) or getattr(hyperparameter, "sequence", None)
    if choices:
        return ", ".join(map(str, choices))
    if hasattr(hyperparameter, "value"):
        return str(hyperparameter.value)
    return f"{hyperparameter.lower:g} .. {hyperparameter.upper:g}"


def _is_configspace(data: Any) -> bool:
    """Return whether a document is ConfigSpace's own."""
    return isinstance(data, Mapping) and isinstance(data.get("hyperparameters"), list)


def _is_number(value: Any) -> bool:
    """Tell whether a value is a finite number that a float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _whole_numbers(values: range) -> dict[str, Any]:
    """Turn a Python range into an entry for whole numbers."""
    ends = sorted((values[0], values[-1])) if values else []
    return {"int": ends, **({"step": abs(values.step)} if abs(values.step) > 1 else {})}


def _python_value(value: Any) -> Any:
    """Return a Python value as YAML has it: lists for tuples, ranges and arrays, no scalars of numpy."""
    if isinstance(value, Mapping):
        return {key: _python_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range) or (isinstance(value, np.ndarray) and value.ndim):
        items = [_python_value(item) for item in value]
        numbers = [_unquoted(item) for item in items]
        return numbers if all(map(_is_number, numbers)) else items
    return value.item() if isinstance(value, np.generic) else value


def _unquoted(value: Any) -> Any:
    """Return a number for a text such as `1e-5`, which PyYAML's loaders do not take for one."""
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def _short_repr(value: object) -> str:
    text = value if isinstance(value, str) and value in ("none", "null") else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str"))
"""Tags of what is written without one."""
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")


def read_yaml(text: str, location: str, *, expected: str) -> tuple[Any, dict[Path, int]]:
    """Read one document of YAML 1.2 or JSON, without aliases.

    Args:
        text: of the document.
        location: begins messages.
        expected: what it should hold, for messages.

    Returns: its data; and the line, from 1, of each key of the first two levels.

    Raises:
        DataError: a text that is neither; the message names the line.
    """
    import yaml

    lines: dict[Path, int] = {}

    def fail(line: int, expected: str, got: str, step: str) -> DataError:
        return DataError(f"{location}, line {line + 1}: expected {expected}, got {got}. {step}")

    def read(node: Any, path: Path) -> Any:
        if node.tag not in _PLAIN_TAGS:
            raise fail(node.start_mark.line, "values written out", f"a tag, {node.tag}", "Leave it out.")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, fail)
        if isinstance(node, yaml.SequenceNode):
            return [read(child, (*path, "")) for child in node.value]
        mapping: dict[Any, Any] = {}
        for key_node, child in node.value:
            key, line = read(key_node, (*path, "")), key_node.start_mark.line
            if isinstance(key, list | dict):
                raise fail(line, "a name of a hyperparameter", repr(key), "Write a word.")
            if key in mapping:
                raise fail(line, "each name once", repr(key), "Leave one of them out.")
            if len(path) < 2:
                lines[*path, str(key)] = line + 1
            mapping[key] = read(child, (*path, str(key)))
        return mapping

    try:
        node = _compose(text.replace("\t", " "), fail)
        return (None if node is None else read(node, ())), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        written = text.splitlines() or [""]
        at = 0 if mark is None else min(mark.line, len(written) - 1)
        got = written[at].strip()
        step = "Close its brackets and quotes, and indent alike what belongs together."
        raise fail(at, expected, _short_repr(got), step) from error
    except RecursionError as error:
        raise fail(0, expected, "brackets nested too deep", "Write it flat.") from error


def _scalar(node: Any, fail: Callable[[int, str, str, str], DataError]) -> Any:
    """Return the value of a scalar node; raises `DataError` for one that cannot be kept."""
    value = plain_value(node.value) if node.style is None else node.value
    if fault := plain_fault(value):
        raise fail(node.start_mark.line, "texts and numbers that can be kept", fault, "Correct it.")
    return value


def _compose(text: str, fail: Callable[[int, str, str, str], DataError]) -> Any:
    """Return the nodes of the one document of a text; nothing in it is resolved or built."""
    import yaml

    class Reader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML's own name; words are read by `plain_value`

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                line = self.peek_event().start_mark.line  # type: ignore[no-untyped-call]
                raise fail(line, "values written out", "an alias", "Write out what it stands for.")
            return super().compose_node(parent, index)

    loader = Reader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()
