"""Strict parsing of requests: no NaN, no repeated names, no unknown query parameters."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from warmstart.history_store.json_text import parse_strict_json
from warmstart.history_store.wording import in_words
from warmstart.service.problems import ProblemError

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
