"""Base class of request bodies, shared field types, and problems in the OpenAPI document."""

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from warmstart.history_store.json_text import parse_strict_json
from warmstart.history_store.wording import in_words
from warmstart.service.problems import MEDIA_TYPE, ProblemError


class Body(BaseModel):
    """A JSON object with exactly the declared fields and types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class FieldProblem(BaseModel):
    """One field at fault."""

    pointer: str
    detail: str


class ProblemBody(BaseModel):
    """An error as in RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="What was expected, what came, the next step.")
    pointer: str | None = Field(None, description="JSON pointer to the field of the body at fault.")
    accepted: list[str] | None = Field(None, description="With an unknown extractor: those that the server accepts.")
    errors: list[FieldProblem] | None = None
    request_id: str


KEY = r"^[\x21-\x7e]{1,200}$"
"""An idempotency key: printed characters, in quotes or without."""


def plain_key(key: str | None) -> str | None:
    """Strip the quotes that some clients put around an idempotency key."""
    return None if key is None else key.strip('"')


Number = Annotated[float, Field(ge=-3e38, le=3e38)]
"""A number of meta-features, within float32; measured values may be any finite number."""
Name = Annotated[str, Field(min_length=1, max_length=200)]
_TEXTS = {
    400: "A call that cannot be carried out.",
    401: "No token, or one that is not known.",
    403: "Another host, another origin, or a token of a lesser scope.",
    404: "It is not there.",
    408: "The body did not arrive in time.",
    409: "It does not fit the present state.",
    413: "The body is too large.",
    415: "The content type is another.",
    422: "The body does not fit the schema, or an unknown extractor.",
    423: "Another writer holds the history.",
    429: "Too many requests.",
    500: "An error of the server.",
    503: "A file or a database of the server does not answer.",
    507: "No space is left.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of a route's problems, with those common to all routes."""
    every = {400, 401, 403, 408, 413, 415, 422, 429, 503, *statuses}
    schema = {"schema": {"$ref": "#/components/schemas/ProblemBody"}}
    return {status: {"description": _TEXTS[status], "content": {MEDIA_TYPE: schema}} for status in sorted(every)}


_MAX_CHARS = 40
_MOST_IN_LOOP = 20_000
"""Bytes of the longest body that is parsed in the event loop, which waits some milliseconds for it."""


class StrictRoute(APIRoute):
    """A route that refuses unknown query parameters and bodies that are not strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        answer = super().get_route_handler()
        parameters = sorted(field.alias for field in self.dependant.query_params)

        async def strictly(request: Request) -> Response:
            for name in request.query_params:
                if name not in parameters:
                    raise _unknown(name, parameters)
            return await answer(_StrictRequest(request.scope, request.receive))

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Parse the body; raises `json.JSONDecodeError`."""
        if not hasattr(self, "_json"):
            body = await self.body()
            is_long = len(body) > _MOST_IN_LOOP
            self._json = await run_in_threadpool(parse_strictly, body) if is_long else parse_strictly(body)
        return self._json


def parse_strictly(body: bytes) -> Any:
    """Parse the body of a request.

    Raises:
        json.JSONDecodeError: it is no strict JSON.
    """
    try:
        return parse_strict_json(body)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        raise json.JSONDecodeError(in_words(error), "", 0) from error


def _unknown(name: str, parameters: list[str]) -> ProblemError:
    expected = " or ".join(parameters) if parameters else "no query parameter"
    detail = f"expected {expected} after the question mark, got {name[:_MAX_CHARS]!r}. Leave it out."
    return ProblemError(422, "Unknown parameter", detail, pointer=f"/query/{name[:_MAX_CHARS]}")
