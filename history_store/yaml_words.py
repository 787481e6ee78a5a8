"""Plain words of YAML 1.2: which are numbers, true, false and null, and which are texts."""

import math
import re
from collections.abc import Mapping
from typing import Any

_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", "+.inf"), math.inf),
    "-.inf": -math.inf,
    ".nan": math.nan,
    ".NaN": math.nan,
}


def plain_value(text: str) -> Any:
    """Read a plain word as YAML 1.2 does: `1e-5` is a number; `on`, `off`, `yes` and `no` are texts."""
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 400 else math.inf
    return float(text) if _FLOAT.fullmatch(text) else _WORDS.get(text, text)
