"""HTML for notebooks: plain tables in the notebook's colours, without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warmstart.history_store.quoting import in_markup
from warmstart.history_store.wording import in_short


def table(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return an HTML table with a caption, without empty columns.

    Args:
        caption: of the table.
        rows: cells by their headings.
    """
    heads = [
        head for head in dict.fromkeys(head for row in rows for head in row) if any(row.get(head) is not None for row in rows)
    ]  # fmt: skip
    top = "".join(f'<th scope="col">{in_markup(head)}</th>' for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(row.get(head))}</td>' for head in heads)}</tr>" for row in rows)
    return f"<table><caption>{in_markup(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def section(parts: Sequence[str]) -> str:
    """Join HTML parts in one element."""
    return f"<div>{''.join(parts)}</div>"


def _cell(value: object) -> str:
    return "" if value is None else in_markup(in_short(value))
