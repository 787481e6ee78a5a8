"""Convert an objective's return value to an outcome. An unusable value is a failed trial, never an exception."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.objectives.metric import is_larger_better, plain_number, python_value

NOTE_CHARS = 300


def read_result(value: object, duration: float) -> Outcome:
    """Convert an objective's return value to an outcome.

    Args:
        value: a number, or a mapping as `Objective` describes it.
        duration: seconds of the call, unless the mapping has them.
    """
    try:
        return _read(value, duration)
    except _UnusableError as problem:
        note = str(problem)
    except Exception as problem:  # noqa: BLE001  somebody else's classes raise what they want
        note = f"expected a result that can be read, got {type(problem).__name__}: {problem}"
    return Outcome(None, TrialStatus.FAILED, duration, one_line(note))


def one_line(text: str) -> str:
    """Return text as one printable line of limited length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= NOTE_CHARS else f"{line[: NOTE_CHARS - 1]}…"


class _UnusableError(ValueError):
    """A return value that is no result."""


def _read(value: object, duration: float) -> Outcome:
    if not isinstance(value, Mapping):
        return Outcome(_number(value, "an error"), TrialStatus.OK, duration)
    fields = {str(name): item for name, item in value.items()}
    status_text = fields.pop("status", TrialStatus.OK)
    try:
        status = TrialStatus(status_text)
    except ValueError as problem:
        msg = f"expected a status of {', '.join(TrialStatus)}, got {safe_repr(status_text)}"
        raise _UnusableError(msg) from problem
    if "error" not in fields and status in (TrialStatus.OK, TrialStatus.DIVERGED):
        msg = f"expected a mapping with an error, got {safe_repr(dict(value))}"
        key = next((name for name, item in fields.items() if plain_number(item) is not None), None)
        if key is not None:
            more = ", with `maximize`" if is_larger_better(key) else ""
            msg += f"; `metric` {key!r} takes that key{more}"
        raise _UnusableError(msg)
    error_value = fields.pop("error", None)
    error = _number(error_value, "an error") if status in (TrialStatus.OK, TrialStatus.DIVERGED) else None
    seconds = fields.pop("duration", None)
    constraints = fields.pop("constraints", {})
    note = fields.pop("note", "")
    if not isinstance(constraints, Mapping):
        msg = f"expected constraints as a mapping, got {safe_repr(constraints)}"
        raise _UnusableError(msg)
    return Outcome(
        error,
        status,
        duration if seconds is None else _seconds(seconds),
        one_line(str(note)),
        metrics={name: number for name, item in fields.items() if (number := plain_number(item)) is not None},
        constraints={str(name): _violation(name, item) for name, item in constraints.items()},
    )


def _number(value: object, label: str) -> float:
    number = plain_number(value)
    if number is None or not math.isfinite(number):
        msg = f"expected {label} that is one finite number, got {safe_repr(value)}"
        raise _UnusableError(msg)
    return number


def _seconds(value: object) -> float:
    seconds = _number(value, "a duration")
    if seconds < 0:
        msg = f"expected a duration of 0 or more seconds, got {seconds:g}"
        raise _UnusableError(msg)
    return seconds


def _violation(name: object, value: Any) -> float:
    truth = python_value(value)
    if isinstance(truth, bool):
        return 0.0 if truth else 1.0
    return _number(value, f"a constraint {str(name)!r}")


def safe_repr(value: object) -> str:
    """Return the repr of a value, even if its class raises there."""
    if value is None:
        return "nothing (None)"
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  somebody else's __repr__
        return f"a {type(value).__name__}"
