"""Shapes of JSON that another program sent: checked where it arrives, before anything is made of it.

A shape is a type (`float` takes whole numbers too), a set of allowed values, a list of one shape, a dict of shapes by name, a dict of
one shape under `str` for any names, or a tuple of shapes of which one must fit. Fields whose name ends in ``?`` may be missing. Fields
that a dict does not name are let through, as a newer server may send more; an `Exact` has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

VALUE = (str, bool, int, float)
"""A hyperparameter's value."""


class Exact(dict[str, Any]):
    """The shape of an object without further fields."""


_NAMES: dict[Any, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", None: "null"}


def check_shape(value: Any, shape: Any, path: str = "") -> None:
    """Check a value of JSON.

    Raises:
        ValueError: it has another shape; the message names the field.
    """
    problem = _problem(value, shape, path)
    if problem:
        raise ValueError(problem)


def _problem(value: Any, shape: Any, path: str) -> str:
    """Return what is wrong with a value; empty if nothing is."""
    if isinstance(shape, tuple):
        problems = [_problem(value, option, path) for option in shape]
        return "" if "" in problems else max(problems, key=len)
    if isinstance(shape, list) and isinstance(value, list):
        return next(filter(None, (_problem(item, shape[0], f"{path}/{i}") for i, item in enumerate(value))), "")
    if isinstance(shape, dict) and isinstance(value, dict):
        if str in shape:
            return next(
                filter(None, (_problem(item, shape[str], f"{path}/{name}") for name, item in value.items())), ""
            )
        if isinstance(shape, Exact) and (others := value.keys() - {name.removesuffix("?") for name in shape}):
            return f"{path}/{min(others)}: expected no such field, got one"
        return next(filter(None, (_field_problem(value, name, each, path) for name, each in shape.items())), "")
    if _fits(value, shape):
        return ""
    expected = (
        f"one of {', '.join(map(repr, sorted(shape)))}" if isinstance(shape, frozenset)
        else _NAMES.get(shape) if isinstance(shape, type | None) else "a list" if isinstance(shape, list) else "an object"
    )  # fmt: skip
    return f"{path or '/'}: expected {expected}, got {value!r:.80}"


def _field_problem(value: dict[str, Any], name: str, shape: Any, path: str) -> str:
    plain = name.removesuffix("?")
    if plain not in value:
        return "" if plain != name else f"{path}/{plain}: expected a value, got none"
    return _problem(value[plain], shape, f"{path}/{plain}")


def _fits(value: Any, shape: Any) -> bool:
    """Tell whether a single value is of a type or among allowed ones."""
    if isinstance(shape, frozenset):
        return isinstance(value, str) and value in shape
    if shape is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return value is None if shape is None else isinstance(shape, type) and isinstance(value, shape)


_CONFIG = {str: VALUE}
_ERROR = Exact({"value": float, "low": float, "high": float, "level": float})
_STATES = frozenset(["running", "ok", "diverged", "failed", "crashed", "timeout", "oom", "killed", "pruned"])
LIST = {"next": (str, None)}
"""A part of a list, beside its items."""
OFFERED = {
    "state": frozenset(["offered", "done", "wait"]),
    "trials": [{"study": str, "number": int, "config": _CONFIG, "seed": int, "budget": (float, None)}],
}
REPORTED = {"stop": bool}
TRIAL = {
    "number": int,
    "state": _STATES,
    "config": _CONFIG,
    "seed": (int, None),
    "error": (float, None),
    "duration": (float, None),
    "note": str,
    "constraints": {str: float},
    "curve": [[float]],
    "client": (str, None),
    "lease_until": (float, None),
    "extra_of": (int, None),
}
_EXPECTED_TRIAL = {"trial": int, "expected_error": (_ERROR, None), "error": (float, None), "best": _ERROR}
_WARM_CONFIG = Exact(
    {
        "config": _CONFIG,
        "source?": (str, None),
        "distance?": (float, None),
        "source_error?": (float, None),
        "measured?": bool,
        "not_measured?": [str],
        "expected_error?": (_ERROR, None),
    }
)
STUDY = {
    "name": str,
    "space": dict,
    "objective": {str: (str, None)},
    "search": Exact(
        {
            "seed": int,
            "surrogate": str,
            "acquisition": str,
            "pruner": str,
            "budget": (float, None),
            "metric": (str, None),
            "maximize": (bool, None),
            "scale": (str, None),
        }
    ),
    "warm": {"mode": str, "configs": [_WARM_CONFIG], "n_design": int},
    "related": [{"name": str, "distance": float, "evaluations": int}],
    "members?": [str],
    "n_trials": int,
    "exhausted": bool,
    "expectation?": (
        {
            "promised": _ERROR,
            "trials": [_EXPECTED_TRIAL],
            "warm": [{"config": _CONFIG, "expected_error": _ERROR}],
            "next": (int, None),
        },
        None,
    ),
    "notes?": [str],
}
_NEIGHBOUR = {"name": str, "distance": float, "best_error": (float, None), "distance_range?": ([float], None)}
_MATCH = Exact(
    {"there": (str, None), "here": (str, None), "action": str, "reason": str, "rule?": (str, None)}
    | {f"{count}?": int for count in ("clipped", "rounded", "filled", "lost", "snapped")}
)
_EXPLANATION = {
    "neighbours?": [{"name": str, "what": str, "distance": float, "distance_percentile": (float, None)}],
    "suggestions?": [
        {
            "from": (str, None),
            "source_error": (float, None),
            "source_rank": (int, None),
            "ranks_on_nearest": [int],
            "configurations": int,
            "portfolio_place": (int, None),
        }
    ],
    "portfolio?": [_CONFIG],
    "mapping?": [_MATCH],
}
_DESIGN = {
    "config": _CONFIG,
    "natural": {str: float},
    "from": (str, None),
    "distance": (float, None),
    "source_error": (float, None),
    "expected_regret": (float, None),
    "expected_error?": (_ERROR, None),
    "measured": bool,
    "not_measured": [str],
    "why": str,
}


def answer_shape(strategies: Iterable[str]) -> dict[str, Any]:
    """Return the shape of an answer by one of the strategies; empty for neighbours alone."""
    return {
        "neighbours": [_NEIGHBOUR],
        "suggestions": [_DESIGN],
        "strategy": frozenset(["", *strategies]),
        "confidence": {"typical": bool, "distance_percentile": (float, None), "note": str, "reasons": [str]},
        "history": str,
        "model": str,
        "seed": int,
        "notes": [str],
        "space": (dict, None),
        "expected_error?": (_ERROR, None),
        "explanation?": (_EXPLANATION, None),
        "measured_with?": (
            Exact(
                {f"{name}?": (str, None) for name in ("network", "optimiser", "budget", "program")}
                | {"image_size?": (int, None), "origins?": {str: int}}
            ),
            None,
        ),
    }
