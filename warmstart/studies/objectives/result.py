"""Conversion of an objective's return value to an outcome. An unusable value is a failed trial, never an exception."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.objectives.metric import is_larger_better

NOTE_CHARS = 300


def read_result(value: object, duration: float) -> Outcome:
    """Read what an objective returned.

    Args:
        value: a number, or a mapping as `Objective` describes it.
        duration: seconds that the call took; what the mapping says goes before it.
    """
    try:
        return _read(value, duration)
    except _UnusableError as problem:
        note = str(problem)
    except Exception as problem:  # noqa: BLE001  somebody else's classes raise what they want
        note = f"expected a result that can be read, got {type(problem).__name__}: {problem}"
    return Outcome(None, TrialStatus.FAILED, duration, one_line(note))


def one_line(text: str) -> str:
    """Put a text on one line that a terminal can show."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= NOTE_CHARS else f"{line[: NOTE_CHARS - 1]}…"


class _UnusableError(ValueError):
    """A value that is no result."""


def _read(value: object, duration: float) -> Outcome:
    if not isinstance(value, Mapping):
        return Outcome(_number(value, "an error"), TrialStatus.OK, duration)
    fields = {str(name): given for name, given in value.items()}
    given_status = fields.pop("status", TrialStatus.OK)
    try:
        status = TrialStatus(given_status)
    except ValueError as problem:
        msg = f"expected a status of {', '.join(TrialStatus)}, got {shown_value(given_status)}"
        raise _UnusableError(msg) from problem
    if "error" not in fields and status in (TrialStatus.OK, TrialStatus.DIVERGED):
        msg = f"expected a mapping with an error, got {shown_value(dict(value))}"
        key = next((name for name, each in fields.items() if plain_number(each) is not None), None)
        if key is not None:
            more = ", with `maximize`" if is_larger_better(key) else ""
            msg += f"; `metric` {key!r} takes that key{more}"
        raise _UnusableError(msg)
    given = fields.pop("error", None)
    error = _number(given, "an error") if status in (TrialStatus.OK, TrialStatus.DIVERGED) else None
    seconds = fields.pop("duration", None)
    constraints = fields.pop("constraints", {})
    note = fields.pop("note", "")
    if not isinstance(constraints, Mapping):
        msg = f"expected constraints as a mapping, got {shown_value(constraints)}"
        raise _UnusableError(msg)
    return Outcome(
        error,
        status,
        duration if seconds is None else _seconds(seconds),
        one_line(str(note)),
        metrics={name: number for name, each in fields.items() if (number := plain_number(each)) is not None},
        constraints={str(name): _violation(name, each) for name, each in constraints.items()},
    )


def plain_number(value: object) -> float | None:
    """Return a number as Python has it; None for whatever is not one number."""
    value = _item(value)
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def _item(value: object) -> object:
    """Return what numpy's and torch's numbers hold, and their arrays of one; other values, arrays of several among them, as they are."""
    try:
        return value.item()  # type: ignore[attr-defined]  # what has none is no such number
    except (AttributeError, ValueError, RuntimeError, TypeError):
        return value


def _number(value: object, what: str) -> float:
    number = plain_number(value)
    if number is None or not math.isfinite(number):
        msg = f"expected {what} that is one finite number, got {shown_value(value)}"
        raise _UnusableError(msg)
    return number


def _seconds(value: object) -> float:
    seconds = _number(value, "a duration")
    if seconds < 0:
        msg = f"expected a duration of 0 or more seconds, got {seconds:g}"
        raise _UnusableError(msg)
    return seconds


def _violation(name: object, value: Any) -> float:
    truth = _item(value)
    if isinstance(truth, bool):
        return 0.0 if truth else 1.0
    return _number(value, f"a constraint {str(name)!r}")


def shown_value(value: object) -> str:
    """Return how a value looks in Python, whatever its class does."""
    if value is None:
        return "nothing (None)"
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  somebody else's __repr__
        return f"a {type(value).__name__}"
