"""The audit log: one JSON object a line for each write, also one that is refused; several processes append to it."""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import UsageError
from warmstart.service.logs import FIELDS

_log = logging.getLogger("warmstart.service")
REFUSED = (401, 403)
"""Statuses of requests without the right to what they ask for."""
CONFLICT = 409
"""Status of a conflict, with which a late result is stored all the same."""


@dataclass(frozen=True, slots=True)
class AuditLog:
    """The audit lines of a server: on its log, and in a file, if one is named."""

    path: Path | None = None

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line; a file that cannot be written fails no request, its lines are errors of the server's log."""
        _log.info("audit", extra={FIELDS: line})
        if self.path is None:
            return
        stamped = {"time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"), **line}
        try:
            _append(self.path, json.dumps(stamped).encode() + b"\n")
        except OSError as error:
            _log.error("audit line not written", extra={FIELDS: {"reason": error.strerror, **line}})


def outcome(status: int) -> str:
    """Return what became of a write, by the status of its response."""
    return "refused" if status in REFUSED else "conflict" if status == CONFLICT else "accepted"


def check_audit_file(path: Path) -> None:
    """Check that lines can be appended to a file, which is made with the first.

    Raises:
        UsageError: no folder for it, no plain file, or one that may not be written.
    """
    is_there = path.exists()
    if (is_there and not path.is_file()) or not os.access(path if is_there else path.parent, os.W_OK):
        msg = f"expected a file to append to, in a folder that is there, got {str(path)!r}. Check the path and its permissions."
        raise UsageError(msg, param="audit_log")


def _append(path: Path, line: bytes) -> None:
    """Append a line in one call, so that those of several processes do not mix; opened each time, so that it may be moved away."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(file, line) < len(line):
            # The next line must not go on in this one.
            os.write(file, b"\n")
            msg = "No space left for the whole line"
            raise OSError(None, msg)
    finally:
        os.close(file)
