"""Commands on a pseudo-terminal of a given width, and what a person sees there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import pyte

_ATTACH = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
_DRAWINGS = re.compile(rb"(?=\r\x1b\[)")
ROWS = 60


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a command.

    Attributes:
        code: its exit code.
        raw: all that it wrote.
        screen: the lines that are on the screen in the end.
        frames: the screen after each drawing, or piece of what it wrote.
        is_cursor_hidden: in the end.
    """

    code: int
    raw: bytes
    screen: tuple[str, ...]
    frames: tuple[tuple[str, ...], ...]
    is_cursor_hidden: bool

    @property
    def text(self) -> str:
        """Return the screen."""
        return "\n".join(self.screen)


def type_in(*args, columns=80, env=None, folder=None, interrupt_at=None, limit_s=280.0):
    """Run `warmstart ARGS` on a terminal.

    Args:
        args: of the command.
        columns: of the terminal.
        env: variables beside those of this process.
        folder: to run it in.
        interrupt_at: Ctrl-C is typed when this is on the screen.
        limit_s: seconds after which it is killed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    variables = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [str(Path(sys.executable).with_name("warmstart")), *map(str, args)]
    process = subprocess.Popen(
        [sys.executable, "-c", _ATTACH, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=variables | {"TERM": "xterm-256color"} | (env or {}),
        start_new_session=True,
    )
    os.close(theirs)
    screen = pyte.HistoryScreen(columns, ROWS, history=10_000)
    stream, raw, frames, until = pyte.ByteStream(screen), b"", [], time.monotonic() + limit_s
    try:
        while piece := _read(ours, until):
            raw += piece
            for drawing in filter(None, _DRAWINGS.split(piece)):  # however many came at once
                stream.feed(drawing)
                frames.append(_lines(screen))
                if interrupt_at is not None and interrupt_at in "\n".join(frames[-1]):
                    interrupt_at = None
                    os.write(ours, b"\x03")
        code = process.wait(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(ours)
    above = [_text(screen, row) for row in screen.history.top]
    return Seen(code, raw, (*above, *_lines(screen)), tuple(frames), screen.cursor.hidden)


def _read(ours, until):
    """Read a piece; nothing at the end, and where it takes too long."""
    ready, _, _ = select.select([ours], [], [], max(until - time.monotonic(), 0.0))
    if not ready:
        return b""
    try:
        return os.read(ours, 65_536)
    except OSError:  # the other end is closed
        return b""


def _lines(screen):
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def _text(screen, row):
    return "".join(row[column].data for column in range(screen.columns)).rstrip()
