"""The log of a server: one JSON object per line, with the id of its request."""

import json
import logging
import sys
import time
from typing import Any

FIELDS = "fields"
"""Attribute of a log record: further fields of its line."""


class JsonLines(logging.Formatter):
    """A formatter of log records as JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one JSON line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(*, quiet: bool) -> None:
    """Send the server's log and uvicorn's warnings to stderr as JSON lines; quiet: only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in (
        ("warmstart.service", logging.WARNING if quiet else logging.INFO),
        ("uvicorn", logging.WARNING),
    ):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
