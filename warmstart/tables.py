"""Tables of results: of pandas, and of HTML for notebooks and pages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warmstart.history_store.errors import MissingExtraError
from warmstart.history_store.quoting import in_markup
from warmstart.history_store.wording import in_short


def frame_of(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return rows as a table of pandas.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        msg = "expected pandas for a table, got none installed. Install it: pip install pandas."
        raise MissingExtraError(msg) from error
    return pd.DataFrame([dict(row) for row in rows])


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
