"""Words for people: numbers with their nouns, lengths of time, errors of libraries.

A library's own text is for people who know the library (`-vv` shows it).
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import tomllib
import zlib
from collections.abc import Collection
from gzip import BadGzipFile


class FaultError(ValueError):
    """An error whose text is already in words for people."""


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: `1 trial`, `2 trials`."""
    if n == 1:
        return f"{n} {noun}"
    if noun.endswith("y"):
        return f"{n} {noun[:-1]}ies"
    return f"{n} {noun}es" if noun.endswith("s") else f"{n} {noun}s"


def in_short(value: object) -> str:
    """Write a value for people: a fraction to four digits, whole from 10000 to 10 million."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e7 else f"{value:.4g}"


def in_shell(text: object) -> str:
    """Quote a path or a name for a command line, if necessary."""
    return shlex.quote(str(text))


def some_of(names: Collection[str], most: int = 5) -> str:
    """Write the first names and the number of the others: `a, b and 3 more`."""
    first = list(names)[:most]
    return ", ".join(first) + (f" and {len(names) - most} more" if len(names) > most else "")


def suggest_names(names: Collection[str], choices: Collection[str], *, otherwise: str) -> str:
    """Write "Did you mean …?" with the known names nearest to unknown ones; `otherwise` if none is near."""
    matches = dict.fromkeys(near for name in names for near in difflib.get_close_matches(name, sorted(choices), n=1))
    return f"Did you mean {', '.join(matches)}?" if matches else otherwise


def of_100(error: float) -> str:
    """Write a share of 100, below 1 with a digit more."""
    return f"{100 * error:.1f}" if 0 < 100 * error < 0.95 else f"{100 * error:.0f}"


def right_of_100(error: float, interval: tuple[float, float] | None = None) -> str:
    """Write how many of 100 answers are right: ``95 of 100 right (92 to 97)``.

    Args:
        error: share of wrong ones.
        interval: of the error.
    """

    def right(wrong: float) -> str:
        return f"{100 - float(of_100(wrong)):g}"

    ends = "" if interval is None else f" ({right(max(interval))} to {right(min(interval))})"
    return f"{right(error)} of 100 right{ends}"


def duration(seconds: float) -> str:
    """Write a length of time for people, to two units at most: ``12 s``, ``4 min``, ``1 h 20 min``, ``3 d 2 h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h"


def exact_duration(seconds: float) -> str:
    """Write a length of time for people, to the second: ``4.2 s``, ``48 s``, ``9 min 12 s``, ``2 h 5 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 >= 60 else "")


def in_words(error: BaseException) -> str:
    """Describe a library's error: where a text is wrong, what is missing, what the system refused.

    Returns: words that continue "got", without a full stop.
    """
    if isinstance(error, FaultError):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        return f"text that is no JSON from line {error.lineno}, column {error.colno} on"
    if isinstance(error, tomllib.TOMLDecodeError):
        match = re.search(r"at line (\d+), column (\d+)", str(error))
        return f"text that is no TOML {f'at line {match[1]}, column {match[2]}' if match else 'at its end'}"
    if isinstance(error, UnicodeError):
        start = getattr(error, "start", None)
        return "bytes that are no UTF-8 text" + ("" if start is None else f", at byte {start}")
    if isinstance(error, BadGzipFile | zlib.error | EOFError):
        return "damaged data"
    if isinstance(error, re.error):
        return f"one that goes wrong at character {(error.pos or 0) + 1}"
    if isinstance(error, ModuleNotFoundError):
        return f"no module {error.name!r}"
    if isinstance(error, KeyError) and error.args:
        return f"no {error.args[0]!r}"
    if isinstance(error, RecursionError):
        return "text that is nested too deeply"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "something else"
