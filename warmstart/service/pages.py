"""Paging of lists with cursors."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from warmstart.service.problems import ProblemError

Item = TypeVar("Item")
Limit = Annotated[int, Query(ge=1, le=1000, description="Items of a part, at most.")]
Cursor = Annotated[str | None, Query(max_length=64, description="`next` of the part before.")]


def page_of(items: Sequence[Item], limit: int, cursor: str | None) -> tuple[list[Item], str | None]:
    """Return a page of a list that only grows at its end, and the cursor of the next page.

    Raises:
        ProblemError: 400, an invalid cursor.
    """
    start = 0 if cursor is None else _start(cursor)
    end = start + limit
    following = base64.urlsafe_b64encode(f"from:{end}".encode()).decode() if end < len(items) else None
    return list(items[start:end]), following


def _start(cursor: str) -> int:
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
        kind, _, number = text.partition(":")
        if kind == "from" and number.isascii() and number.isdecimal():
            return int(number)
    except (ValueError, binascii.Error):
        pass
    detail = f"expected `next` of the part before, got {cursor[:40]!r}. Leave it out to begin."
    raise ProblemError(400, "No such cursor", detail, pointer="/query/cursor")
