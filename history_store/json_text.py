"""JSON of files that others made."""

import json
from typing import Any

from history_store.wording import FaultError


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
