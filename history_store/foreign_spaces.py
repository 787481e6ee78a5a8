"""Search spaces of other tools in the short form of `space_yaml`, with their scales.

Read are: sweeps of Weights & Biases, search spaces of NNI, parameters of Hydra's sweepers, Optuna's distributions as
JSON, and dicts of Ray Tune. What the short form cannot express, such as a normal distribution, is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warmstart.history_store.quoting import plain_value

Path = tuple[str, ...]
_WANDB_KEYS = frozenset(
    ["distribution", "min", "max", "value", "values", "q", "mu", "sigma", "probabilities", "parameters"]
)
_MOST = 1e100
"""The largest bound, either way."""
_MOST_EXPONENT = 200
_LONGEST = 1_000
"""Characters of an override of Hydra's, at most."""
_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)


class ForeignEntryError(ValueError):
    """An entry that has no short form.

    Attributes:
        path: of the entry in the document.
        expected: what it could be.
        got: what it is.
    """

    def __init__(self, path: Path, expected: str, got: object) -> None:
        super().__init__(expected)
        self.path, self.expected, self.got = path, expected, got


@dataclass(frozen=True, slots=True)
class ForeignSpace:
    """A space of another tool.

    Attributes:
        entries: in the short form, by name.
        paths: of each hyperparameter in the document.
    """

    entries: dict[str, Any]
    paths: dict[str, Path]


def foreign_space(document: Any) -> ForeignSpace | None:
    """Return the space of another tool's document in the short form; None for a document that is none of theirs.

    Raises:
        ForeignEntryError: an entry that has no short form.
    """
    if not isinstance(document, Mapping) or not document:
        return None
    for form in (_wandb, _nni, _hydra, _optuna, _ray):
        space = form(document)
        if space is not None:
            return space
    return None


def _wandb(document: Mapping[Any, Any]) -> ForeignSpace | None:
    parameters = document.get("parameters")
    if not isinstance(parameters, Mapping) or not all(map(_is_wandb_entry, parameters.values())):
        return None
    space = ForeignSpace({}, {})

    def add(prefix: str, path: Path, entries: Mapping[Any, Any]) -> None:
        for key, entry in entries.items():
            name, place = f"{prefix}{key}", (*path, str(key))
            inner = entry.get("parameters") if isinstance(entry, Mapping) else None
            if isinstance(inner, Mapping):
                add(f"{name}.", (*place, "parameters"), inner)
            elif _is_wandb_entry(entry):
                space.entries[name], space.paths[name] = _wandb_entry(place, entry), place
            else:
                raise ForeignEntryError(place, f"an entry of {', '.join(sorted(_WANDB_KEYS))}", entry)

    add("", ("parameters",), parameters)
    return space


def _is_wandb_entry(entry: Any) -> bool:
    return isinstance(entry, Mapping) and bool(entry) and entry.keys() <= _WANDB_KEYS


def _wandb_entry(path: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    if "value" in entry:
        return {"value": entry["value"]}
    if "values" in entry and "probabilities" not in entry:
        return _choices(path, entry["values"])
    low: Any = entry.get("min")
    high: Any = entry.get("max")
    step = entry.get("q")
    is_whole = isinstance(low, int) and isinstance(high, int)
    kind = entry.get("distribution") or ("int_uniform" if is_whole else "uniform")
    step = (step or 1) if str(kind).startswith("q_") else None
    kind = str(kind).removeprefix("q_")
    if kind == "log_uniform" and all(_is_number(bound) and abs(bound) < _MOST_EXPONENT for bound in (low, high)):
        low, high = (float(f"{math.exp(bound):.12g}") for bound in (low, high))  # W&B gives exponents of e
    if kind not in ("uniform", "int_uniform", "log_uniform", "log_uniform_values"):
        raise ForeignEntryError(path, "values, min and max, or a distribution that is uniform or log_uniform", kind)
    return _range(path, low, high, is_log="log" in kind, step=step, is_whole=kind == "int_uniform")


def _nni(document: Mapping[Any, Any]) -> ForeignSpace | None:
    key = next((name for name in ("searchSpace", "search_space") if isinstance(document.get(name), Mapping)), "")
    entries = document[key] if key else document
    if not entries or not all(
        isinstance(entry, Mapping) and {"_type", "_value"} == entry.keys() for entry in entries.values()
    ):
        return None
    paths = {str(name): (*filter(None, [key]), str(name)) for name in entries}
    return ForeignSpace({str(name): _nni_entry(paths[str(name)], entry) for name, entry in entries.items()}, paths)


def _nni_entry(path: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    kind, value = entry["_type"], entry["_value"]
    if kind == "choice":
        return _choices(path, value)
    kinds = ("uniform", "quniform", "loguniform", "qloguniform", "randint")
    if kind not in kinds:
        raise ForeignEntryError(path, f"choice, {', '.join(kinds[:-1])} or {kinds[-1]}", kind)
    if not isinstance(value, list) or len(value) != (3 if kind[0] == "q" else 2):
        raise ForeignEntryError(path, "a _value of two bounds, and a step with quniform", value)
    low, high = value[:2]
    if kind == "randint":  # without its upper bound
        return _range(path, low, high - 1 if isinstance(high, int) else high, is_whole=True)
    return _range(path, low, high, is_log="log" in kind, step=value[2] if kind[0] == "q" else None)


def _hydra(document: Mapping[Any, Any]) -> ForeignSpace | None:
    sweeper: Any = document
    path: Path = ()
    for key in ("hydra", "sweeper"):
        sweeper = sweeper.get(key) if isinstance(sweeper, Mapping) else None
        path = (*path, key)
    if not isinstance(sweeper, Mapping):
        return None
    if isinstance(sweeper.get("search_space"), Mapping):
        entries = sweeper["search_space"]
        paths = {str(name): (*path, "search_space", str(name)) for name in entries}
        return ForeignSpace(
            {str(name): _typed_entry(paths[str(name)], entry) for name, entry in entries.items()}, paths
        )
    entries = sweeper.get("params")
    if not isinstance(entries, Mapping):
        return None
    paths = {str(name): (*path, "params", str(name)) for name in entries}
    return ForeignSpace({str(name): _hydra_entry(paths[str(name)], entry) for name, entry in entries.items()}, paths)


def _hydra_entry(path: Path, entry: Any) -> dict[str, Any]:
    """Read an override of a sweep: `choice(a, b)`, `interval(0, 1)`, `tag(log, interval(1e-5, 0.1))`, `range(1, 9)`, `a,b`."""
    if not isinstance(entry, str):
        return _choices(path, entry) if isinstance(entry, list) else {"value": entry}
    if len(entry) > _LONGEST:
        raise ForeignEntryError(path, f"at most {_LONGEST:,} characters", f"{len(entry):,}")
    text, is_log, is_whole = entry.strip(), False, False
    while match := _CALL.fullmatch(text):
        name, words = match[1], _split(match[2])
        if name == "tag" and len(words) > 1:
            is_log |= "log" in words[:-1]
            text = words[-1]
        elif name in ("int", "float", "shuffle", "sort"):
            is_whole |= name == "int"
            text = ", ".join(words)
        else:
            break
    if match is None:
        words = _split(text)
        return _choices(path, [_plain(word) for word in words]) if len(words) > 1 else {"value": _plain(text)}
    values = [_plain(word.rpartition("=")[2]) for word in words]
    if name == "choice":
        return _choices(path, values)
    if name == "interval" and len(values) == 2:
        return _range(path, *values, is_log=is_log, is_whole=is_whole)
    if name == "range" and 1 <= len(values) <= 3 and all(map(_is_number, values)):
        low, high, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
        if step > 0 and (high - low) / step < 1e9:  # without its upper bound
            last = low + step * (math.ceil((high - low) / step - 1e-9) - 1)
            return _range(path, low, last, is_log=is_log, step=None if step == 1 else step, is_whole=step == 1)
    raise ForeignEntryError(
        path, "choice(...), interval(low, high), range(low, high) or tag(log, interval(...))", entry
    )


def _split(text: str) -> list[str]:
    """Split a text at its commas outside brackets and quotes."""
    return [
        word.strip()
        for word in re.findall(r"""(?:[^,()\[\]'"]|'[^']*'|"[^"]*"|[(\[][^()]*(?:\([^()]*\)[^()]*)*[)\]])+""", text)
    ]


def _plain(word: str) -> Any:
    word = word.strip()
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else plain_value(word)


def _optuna(document: Mapping[Any, Any]) -> ForeignSpace | None:
    """Read Optuna's distributions as `optuna.distributions.distribution_to_json` writes them."""
    entries = {str(name): _parsed(entry) for name, entry in document.items()}
    if not all(isinstance(entry, Mapping) and {"name", "attributes"} == entry.keys() for entry in entries.values()):
        return None
    paths: dict[str, Path] = {name: (name,) for name in entries}
    return ForeignSpace({name: _typed_entry(paths[name], _typed(entry)) for name, entry in entries.items()}, paths)


def _parsed(entry: Any) -> Any:
    try:
        return json.loads(entry) if isinstance(entry, str) and entry.startswith("{") else entry
    except ValueError:
        return entry


def _typed(entry: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(entry["name"]).removesuffix("Distribution").lower()
    return {"type": kind, **(entry["attributes"] if isinstance(entry["attributes"], Mapping) else {})}


def _typed_entry(path: Path, entry: Any) -> dict[str, Any]:
    """Read an entry of a type with its bounds: `{type: float, low: 1e-5, high: 0.1, log: true}`."""
    kind = entry.get("type") if isinstance(entry, Mapping) else None
    if kind == "categorical":
        return _choices(path, entry.get("choices"))
    if kind not in ("int", "float"):
        raise ForeignEntryError(
            path, "a type of int, float or categorical", kind if isinstance(entry, Mapping) else entry
        )
    step = entry.get("step")
    step = None if kind == "int" and step == 1 else step
    return _range(
        path, entry.get("low"), entry.get("high"), is_log=bool(entry.get("log")), step=step, is_whole=kind == "int"
    )


def _ray(document: Mapping[Any, Any]) -> ForeignSpace | None:
    if not any(
        _is_ray(entry) or (isinstance(entry, Mapping) and any(map(_is_ray, entry.values())))
        for entry in document.values()
    ):
        return None
    space = ForeignSpace({}, {})

    def add(prefix: str, entries: Mapping[Any, Any]) -> None:
        for key, entry in entries.items():
            name = f"{prefix}{key}"
            if isinstance(entry, Mapping) and entry.keys() != {"grid_search"}:
                add(f"{name}.", entry)
            else:
                space.entries[name], space.paths[name] = _ray_entry((name,), entry), (name,)

    add("", document)
    return space


def _is_ray(entry: Any) -> bool:
    return type(entry).__module__.startswith("ray.tune.") or (
        isinstance(entry, Mapping) and entry.keys() == {"grid_search"}
    )


def _ray_entry(path: Path, entry: Any) -> Any:
    if isinstance(entry, Mapping):
        return _choices(path, entry["grid_search"])
    if not _is_ray(entry):
        return _choices(path, entry) if isinstance(entry, list) else {"value": entry}
    kind, sampler, step = type(entry).__name__, entry.get_sampler(), None
    if type(sampler).__name__ == "Quantized":
        sampler, step = sampler.sampler, sampler.q
    scale = type(sampler).__name__.strip("_")
    if kind == "Categorical":
        return _choices(path, entry.categories)
    if kind not in ("Float", "Integer") or scale not in ("Uniform", "LogUniform"):
        raise ForeignEntryError(path, "uniform, loguniform, randint, lograndint, their q forms or choice", scale)
    is_whole = kind == "Integer"
    high = entry.upper - 1 if is_whole and step in (None, 1) else entry.upper  # only a step includes the upper bound
    return _range(path, entry.lower, high, is_log=scale == "LogUniform", step=step, is_whole=is_whole)


def _choices(path: Path, values: Any) -> dict[str, Any]:
    if not isinstance(values, list | tuple) or not values:
        raise ForeignEntryError(path, "a list of at least one value", values)
    return {"ordered" if len(values) > 1 and all(map(_is_number, values)) else "choice": list(values)}


def _range(
    path: Path, low: Any, high: Any, *, is_log: bool = False, step: Any = None, is_whole: bool = False
) -> dict[str, Any]:
    """Return the short form of a range; a step of 1 between whole bounds is a range of whole numbers."""
    if not (_is_number(low) and _is_number(high)):
        raise ForeignEntryError(path, "two numbers as its bounds", (low, high))
    is_whole |= step is not None and all(_is_number(value) and float(value).is_integer() for value in (low, high, step))
    if is_whole:
        low, high, step = int(low), int(high), None if step in (None, 1) else int(step)
    if is_log and step is not None:
        raise ForeignEntryError(path, "no step on a logarithmic scale, or 1", step)
    kind = ("log_int" if is_log else "int") if is_whole else "log" if is_log else "float"
    return {kind: [low, high], **({} if step is None else {"step": step})}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST
