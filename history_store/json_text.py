"""JSON of other people's files, and of our own."""

import json
import math
from typing import Any

from warmstart.history_store.wording import FaultError


def parse_json(text: str | bytes) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is none, or is nested deeper than Python follows.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        msg = "brackets nested too deep"
        raise FaultError(msg) from error


def parse_stored_json(text: str | bytes | memoryview) -> Any:
    """Parse JSON that warmstart wrote: every number is finite and has at most 64 bits.

    Raises:
        ValueError: it is none, is nested deeper than Python follows, or has another number.
    """
    try:
        return _STORED.decode(text if isinstance(text, str) else str(text, "utf-8"))
    except RecursionError as error:
        msg = "brackets nested too deep"
        raise FaultError(msg) from error


def finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        msg = f"a number that is not finite, {text:.20}"
        raise ValueError(msg)
    return number


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        msg = f"a number of {len(text)} digits, {text:.20}"
        raise ValueError(msg)
    return int(text)


_DIGITS = 20
"""Of the longest 64-bit integer, or its sign and digits."""
_STORED = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_whole)
