"""What the program of a trial prints, line by line, as a person sees it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import IO, TextIO

from warmstart.history_store.json_text import parse_json

_STYLE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\ufeff\x00-\x08\x0e-\x1f\x7f]"
)
"""What moves a terminal's cursor or colours its text, byte order marks, and other control characters."""
_LONGEST_OBJECT = 10_000
"""Lines of an object of JSON at most."""


def printed_lines(stream: IO[bytes] | None, log: TextIO) -> Iterator[str]:
    """Copy what a program prints into a log, and yield its lines that are not empty; an object of JSON over several is one."""
    assert stream is not None  # noqa: S101  a pipe
    with io.TextIOWrapper(stream, errors="replace") as lines:
        yield from _whole_objects(_copied(lines, log))


def _copied(lines: io.TextIOWrapper, log: TextIO) -> Iterator[str]:
    for line in lines:
        log.write(line)
        if text := _STYLE.sub("", line).rstrip():
            yield text


def _whole_objects(lines: Iterator[str]) -> Iterator[str]:
    """Join the lines from ``{`` to the ``}`` that makes them JSON; yield them one by one where none does."""
    held: list[str] = []
    for line in lines:
        if not held and line != "{":
            yield line.strip()
            continue
        held.append(line)
        if line == "}" and _is_json(joined := " ".join(held)):
            yield joined
            held = []
        elif len(held) > _LONGEST_OBJECT:
            yield from map(str.strip, held)
            held = []
    yield from map(str.strip, held)


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True
