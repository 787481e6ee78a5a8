"""What the program of a trial prints, line by line, as a person sees it."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
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


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a log as `printed_lines` yields those of a program; none of a file that is not there."""
    with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as lines:
        yield from _whole_objects(_plain(lines))


def _plain(lines: Iterable[str]) -> Iterator[str]:
    return (text for line in lines if (text := _STYLE.sub("", line).rstrip()))


def _copied(lines: io.TextIOWrapper, log: TextIO) -> Iterator[str]:
    def copy() -> Iterator[str]:
        for line in lines:
            log.write(line)
            yield line

    return _plain(copy())


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
