"""Texts of others in our output: one quoting function a format.

A text that came from elsewhere (a server, a history, a space, a name of a file) passes one of these where it leaves. What
programs read keeps its value: `in_json`, `in_yaml`, `in_python` and `in_csv` escape as their format does. What people read shows
characters that act rather than show (control characters, line breaks, marks of direction) as escapes.
`warmstart/service/static/quoting.js` has the same rules for the page; a test holds both to one corpus.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pprint
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_ACTING = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
"""Control characters, line ends, marks of direction, halves of surrogate pairs (bytes of a file's name that are no UTF-8)."""
_ILLEGIBLE, _ILLEGIBLE_IN_LINES = re.compile(f"[{_ACTING}]"), re.compile(f"(?!\n)[{_ACTING}]")
_ACTIVE = re.compile(r"[\\`*\[\]<>|~$&]|(?<!\w)_|_(?!\w)")
"""Characters that Markdown takes for markup, wherever they stand in a line."""
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
"""Beginning of a text that a spreadsheet takes for a formula, or that is one of ours escaped."""
PREFIX = "config."
"""Prefix of the column of a hyperparameter whose name is one of these; also in tables of trials."""


def in_line(text: object) -> str:
    r"""Write a text on one line, for a terminal, a message, a log or a comment: acting characters as in JSON, ``\n``, ``\u001b``."""
    return _ILLEGIBLE.sub(_escaped, str(text))


def in_lines(text: str) -> str:
    """Write a text whose line breaks are ours; otherwise as `in_line`."""
    return _ILLEGIBLE_IN_LINES.sub(_escaped, text)


def in_json(document: object) -> str:
    """Write a document as JSON for a person's terminal too: what acts is escaped; NaN and infinity are refused."""
    return in_lines(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False))


def in_python(value: object) -> str:
    """Write a value as a Python expression."""
    return pprint.pformat(value, sort_dicts=False, width=110)


def in_yaml(document: object) -> str:
    """Write a document as YAML, keys in their order; texts that YAML 1.1 or 1.2 takes for another value are in quotes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """PyYAML's own, which minds YAML 1.1 alone."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        is_other = not isinstance(plain_value(text), str)
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if is_other else None)

    Dumper.add_representer(str, represent)
    return yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True)


def in_csv(heads: Iterable[str], rows: Iterable[Iterable[object]], *, raw: bool = False) -> str:
    """Write a table as CSV.

    Args:
        heads: of the columns.
        rows: cells; None is an empty one.
        raw: leave texts that a spreadsheet takes for formulas as they are; else ``'`` stands before them, which `from_csv` removes.
    """
    lines = []
    for row in (heads, *rows):
        line = io.StringIO()
        # A line end of two characters makes the writer quote cells with either; it goes again.
        csv.writer(line, lineterminator="\r\n").writerow(row if raw else map(_inert, row))
        lines.append(line.getvalue()[:-2] + "\n")
    return "".join(lines)


def to_csv(rows: Sequence[Mapping[str, Any]], *, raw: bool = False) -> str:
    """Format rows as CSV with a header; an absent or None value is an empty cell; `raw` as in `in_csv`."""
    heads = heads_of(rows)
    return in_csv(heads, ([row.get(head) for head in heads] for row in rows), raw=raw)


def heads_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all rows in order; a key that some rows lack keeps its position in the others."""
    heads: list[str] = []
    for row in rows:
        position = 0
        for key in row:
            if key not in heads:
                heads.insert(position, key)
            position = heads.index(key) + 1
    return heads


def with_config(row: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Append a configuration to a row; a hyperparameter named like a column becomes `config.NAME`."""
    return {**row, **{f"{PREFIX}{name}" if name in row else name: value for name, value in config.items()}}


def from_csv(cell: str) -> str:
    """Return the text of a cell as it was before `in_csv`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def in_markup(text: object) -> str:
    """Write a text in HTML, SVG or another XML, as an element's content or in a quoted attribute."""
    return escape(in_line(text))


def in_markdown(text: object) -> str:
    """Write a text in a line or a table's cell of Markdown, without markup."""
    return _ACTIVE.sub(r"\\\g<0>", in_line(text))


def in_code(text: object) -> str:
    """Write a text as a code span of Markdown."""
    line = in_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if match[0] != "\x7f" else r"\u007f"


def _inert(cell: object) -> object:
    """Put an apostrophe before a text that a spreadsheet takes for a formula."""
    if not isinstance(cell, str) or not _FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


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
