"""JSON of other people's files, of our own, and of requests and answers."""

import json
import math
import re
from typing import Any

from warmstart.history_store.wording import FaultError

LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**64 - 1
"""Whole numbers of 64 bits, with or without a sign."""
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_DIGITS = 20
"""Of the longest 64-bit integer, or its sign and digits."""
_MAX_CHARS = 40
_TOO_DEEP = "brackets nested too deep"


def plain_fault(value: object) -> str | None:
    """Describe why a text or a number cannot be kept: half of a surrogate pair, more than 64 bits; None if it can."""
    if isinstance(value, str) and (half := _HALF.search(value)):
        return f"half of a surrogate pair, \\u{ord(half[0]):04x}"
    if isinstance(value, int) and not LEAST_WHOLE <= value <= MOST_WHOLE:
        return f"a whole number of {value.bit_length()} bits, where 64 are the most"
    return None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON: numbers may be of any size and none, every text is Unicode.

    Raises:
        ValueError: it is none, is nested deeper than Python follows, or has another text.
    """
    return _decode(_LENIENT, text)


def parse_stored_json(text: str | bytes | memoryview) -> Any:
    """Parse JSON that warmstart wrote: every number is finite and has at most 64 bits, every text is Unicode.

    Raises:
        ValueError: it is none, is nested deeper than Python follows, or has another number or text.
    """
    return _decode(_STORED, text)


def parse_strict_json(text: str | bytes) -> Any:
    """Parse JSON of a request or an answer: as `parse_stored_json`, and each name once in an object.

    Raises:
        ValueError: it is something else.
    """
    return _decode(_STRICT, text)


def finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def _decode(decoder: json.JSONDecoder, text: str | bytes | memoryview) -> Any:
    plain = text.removeprefix("\ufeff") if isinstance(text, str) else str(text, "utf-8-sig")
    try:
        value = decoder.decode(plain)
        if _ESCAPED_HALF.search(plain):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise FaultError(_TOO_DEEP) from error
    except UnicodeEncodeError as error:
        raise FaultError(plain_fault(error.object[error.start]) or "") from error
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        msg = (
            f"{text:.20}, which JSON does not have"
            if number != number or "f" in text
            else f"{text:.20}, beyond what a float holds"
        )
        raise FaultError(msg)
    return number


def _whole(text: str) -> int:
    if len(text) < _DIGITS - 1:
        return int(text)
    if len(text) > _DIGITS or plain_fault(int(text)):
        msg = f"a number that is too long, {text:.20}"
        raise FaultError(msg)
    return int(text)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]  # None
        msg = f"the name {twice[:_MAX_CHARS]!r} twice in one object"
        raise FaultError(msg)
    return fields


_LENIENT = json.JSONDecoder()
_STORED = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_whole)
_STRICT = json.JSONDecoder(
    parse_constant=_finite, parse_float=_finite, parse_int=_whole, object_pairs_hook=_unique_names
)
