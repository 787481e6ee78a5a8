"""JSON of files that others made."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is none, or is nested deeper than Python follows.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        msg = "nested too deep"
        raise ValueError(msg) from error
