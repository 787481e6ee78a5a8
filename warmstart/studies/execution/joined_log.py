"""The log of all trials: what each prints, with the name of the trial before each line."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import IO

from warmstart.history_store import system

TITLE = "== "
"""Beginning of the line that begins a trial."""
CHUNK = 1 << 20
"""Bytes that are copied at a time."""


class JoinedLog:
    """A log to which the outputs of trials are copied while they grow, in whole lines, so that workers' lines do not mix.

    A log that cannot be written does not end a study.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the log for appending; None = no log."""
        self._file = None if path is None else path.open("ab")
        self._output: int | None = None
        self._position, self._prefix = 0, b""

    def begin(self, output: int, position: int, title: str) -> None:
        """Follow the output of a trial.

        Args:
            output: descriptor of its file.
            position: at which its output begins.
            title: of the trial; empty = its lines are copied as they are.
        """
        self._output, self._position = output, position
        self._prefix = f"{title} | ".encode() if title else b""
        if title:
            self._append(f"{TITLE}{title} ==\n".encode())

    def copy(self, *, is_last: bool = False) -> None:
        """Copy the lines that came since the last call; the last time, an unfinished one too."""
        if self._file is None or self._output is None:
            return
        while data := system.read_at(self._output, CHUNK, self._position):
            end = data.rfind(b"\n") + 1
            if not end:
                if not is_last and len(data) < CHUNK:
                    return
                end = len(data)
            lines = data[:end].removesuffix(b"\n").split(b"\n")
            self._append(b"".join(self._prefix + line + b"\n" for line in lines))
            self._position += end

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def _append(self, data: bytes) -> None:
        file: IO[bytes] | None = self._file
        if file is not None:
            with contextlib.suppress(OSError):  # a full disk: the storage says so
                file.write(data)
                file.flush()
