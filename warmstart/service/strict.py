"""Requests read strictly: what JSON does not know, names given twice, and parameters that no route has are refused."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from warmstart.service.problems import ProblemError

_SHOWN = 40


class StrictRoute(APIRoute):
    """A route that refuses unknown query parameters, and bodies that are no strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()
        known = sorted(field.alias for field in self.dependant.query_params)

        async def strictly(request: Request) -> Response:
            for name in request.query_params:
                if name not in known:
                    raise _unknown(name, known)
            return await answer(_StrictRequest(request.scope, request.receive))

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Parse the body; raises `json.JSONDecodeError`."""
        if not hasattr(self, "_json"):
            self._json = parse_strictly(await self.body())
        return self._json


def parse_strictly(body: bytes) -> Any:
    """Parse JSON in UTF-8.

    Raises:
        json.JSONDecodeError: it is none, has NaN or an infinity, a name twice in an object, or too deep brackets.
    """
    try:
        return json.loads(str(body, "utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_each_once)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise _broken(what="brackets nested too deep") from error
    except UnicodeDecodeError as error:
        raise _broken(what="bytes that are no UTF-8") from error
    except ValueError as error:  # a number of thousands of digits
        raise _broken(what="a number that is too long") from error


def _no_constant(text: str) -> NoReturn:
    raise _broken(what=f"{text}, which JSON does not have")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise _broken(what=f"the name {twice[:_SHOWN]!r} twice in one object")
    return found


def _broken(*, what: str) -> json.JSONDecodeError:
    return json.JSONDecodeError(what, "", 0)


def _unknown(name: str, known: list[str]) -> ProblemError:
    taken = " or ".join(known) if known else "no query parameter"
    detail = f"expected {taken} after the question mark, got {name[:_SHOWN]!r}. Leave it out."
    return ProblemError(422, "Unknown parameter", detail, pointer=f"/query/{name[:_SHOWN]}")
