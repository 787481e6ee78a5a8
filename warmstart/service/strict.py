"""Strict parsing of requests: no NaN, no repeated names, no unknown query parameters."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from warmstart.service.problems import ProblemError

_MAX_CHARS = 40


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
            self._json = parse_strictly(await self.body())
        return self._json


def parse_strictly(body: bytes) -> Any:
    """Parse strict JSON in UTF-8.

    Raises:
        json.JSONDecodeError: invalid JSON, NaN or infinity, a repeated name in an object, or too deep nesting.
    """
    try:
        return json.loads(str(body, "utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_unique_names)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise _json_error(problem="brackets nested too deep") from error
    except UnicodeDecodeError as error:
        raise _json_error(problem="bytes that are no UTF-8") from error
    except ValueError as error:  # a number of thousands of digits
        raise _json_error(problem="a number that is too long") from error


def _no_constant(text: str) -> NoReturn:
    raise _json_error(problem=f"{text}, which JSON does not have")


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise _json_error(problem=f"the name {twice[:_MAX_CHARS]!r} twice in one object")
    return fields


def _json_error(*, problem: str) -> json.JSONDecodeError:
    return json.JSONDecodeError(problem, "", 0)


def _unknown(name: str, parameters: list[str]) -> ProblemError:
    expected = " or ".join(parameters) if parameters else "no query parameter"
    detail = f"expected {expected} after the question mark, got {name[:_MAX_CHARS]!r}. Leave it out."
    return ProblemError(422, "Unknown parameter", detail, pointer=f"/query/{name[:_MAX_CHARS]}")
