"""ETags of responses."""

import json
from hashlib import sha256
from typing import Annotated, Any

from fastapi import Header, Response

from warmstart.service.problems import ProblemError

NoneMatch = Annotated[str | None, Header(alias="If-None-Match", max_length=500)]
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "It is as it was when that ETag was given."}}


def check_match(tag: str, none_match: str | None) -> None:
    """Raise `ProblemError` 304 if the client's If-None-Match has the tag."""
    if none_match is None:
        return
    # Proxies that compress a response weaken its ETag.
    tags = [item.strip().removeprefix("W/") for item in none_match.split(",")]
    if tag in tags or "*" in tags:
        raise ProblemError(304, "Not modified", "", headers={"etag": tag})


def with_etag(document: dict[str, Any], response: Response, none_match: str | None) -> dict[str, Any]:
    """Set the ETag of a document on its response and return the document; raises as `check_match`."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    tag = f'"{sha256(text.encode()).hexdigest()[:24]}"'
    check_match(tag, none_match)
    response.headers["etag"] = tag
    return document
