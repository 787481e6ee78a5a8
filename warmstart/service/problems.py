"""Errors as `application/problem+json` (RFC 9457): the status from the one table, the field by its JSON pointer."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from warmstart.descriptor import UnknownExtractorError
from warmstart.history_store.errors import WarmstartError
from warmstart.service.logs import FIELDS
from warmstart.status import http_status, json_pointer

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger("warmstart.service")


class ProblemError(HTTPException):
    """An HTTP error with a title and a JSON pointer.

    Attributes:
        title: a few words, the same for all of a kind.
        pointer: JSON pointer to the field at fault; None without one.
        headers: of the response.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        pointer: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers=headers)
        self.title, self.pointer = title, pointer


def problem_body(
    status: int, title: str, detail: str, *, request_id: str, pointer: str | None = None, **more: Any
) -> dict[str, Any]:
    """Return the JSON object of a problem."""
    about = {} if pointer is None else {"pointer": pointer}
    return {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        **about,
        **more,
        "request_id": request_id,
    }


def install_problems(app: FastAPI, private_paths: Callable[[], Sequence[Path]]) -> None:
    """Register handlers that turn an app's errors into problems.

    Args:
        app: the app.
        private_paths: returns files whose folders are hidden from clients.
    """

    def respond(
        request: Request, status: int, title: str, detail: str, headers: dict[str, str] | None = None, **more: Any
    ) -> JSONResponse:
        request_id = getattr(request.state, "request_id", "")
        for path in private_paths():
            detail = detail.replace(str(path), path.name)
        body = problem_body(status, title, detail, request_id=request_id, **more)
        return JSONResponse(body, status, headers=headers, media_type=MEDIA_TYPE)

    async def on_warmstart(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, WarmstartError)  # noqa: S101  what it is registered for
        more: dict[str, Any] = {}
        if (pointer := json_pointer(error)) is not None:
            more["pointer"] = pointer
        if isinstance(error, UnknownExtractorError):
            more["accepted"] = list(error.accepted)
        return respond(request, http_status(error), type(error).__name__, error.message or str(error), **more)

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)  # noqa: S101
        headers = dict(error.headers or {})
        # A response 304 has no body.
        if error.status_code == 304:
            return Response(status_code=304, headers=headers)
        return respond(request, error.status_code, error.title, error.detail, headers, pointer=error.pointer)

    async def on_validation(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)  # noqa: S101
        violations = _breaches(error)
        first = violations[0]
        if (fault := _json_fault(error)) is not None:
            detail = f"expected a JSON body, got something else: {fault}. Correct it."
            return respond(request, 400, "No JSON", detail)
        detail = f"expected what the schema says at {first['pointer'] or 'the body'}, got another value: {first['detail']}. See /v1/openapi.json."
        return respond(request, 422, "Unprocessable content", detail, pointer=first["pointer"], errors=violations[:20])

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        title, detail, headers = _http_problem(request, error)
        return _options(request, error) or respond(request, error.status_code, title, detail, headers)

    async def on_unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error(
            "unexpected", exc_info=error, extra={FIELDS: {"request_id": getattr(request.state, "request_id", "")}}
        )
        detail = "expected an answer, got an error of the server. Its log has the details under this request id."
        return respond(request, 500, "Internal error", detail)

    app.add_exception_handler(WarmstartError, on_warmstart)
    app.add_exception_handler(ProblemError, on_problem)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Exception, on_unexpected)


def _breaches(error: RequestValidationError) -> list[dict[str, str]]:
    """Return the schema violations of a request with their pointers."""
    return [
        {
            "pointer": _pointer(violation["loc"], error.body),
            "in": str(violation["loc"][0]),
            "detail": violation["msg"].removeprefix("Value error, "),
        }
        for violation in error.errors()
    ]


def _json_fault(error: RequestValidationError) -> str | None:
    """Return the JSON syntax error of a body; None for valid JSON."""
    faults = [violation for violation in error.errors() if violation["type"] == "json_invalid"]
    return str(faults[0].get("ctx", {}).get("error", faults[0]["msg"])) if faults else None


def _http_problem(request: Request, error: HTTPException) -> tuple[str, str, dict[str, str]]:
    """Return title, detail and headers of a framework error."""
    path, allow = request.url.path[:200], _allow(request)
    if error.status_code == 405:
        detail = f"expected {allow['allow']} at {path}, got {request.method[:20]}. See /v1/openapi.json."
        return "Method not allowed", detail, allow
    if error.status_code == 404:
        return "Not found", f"expected a path that is served, got {path}. See /v1/openapi.json.", {}
    return "HTTP error", str(error.detail), dict(error.headers or {})


def _options(request: Request, error: HTTPException) -> Response | None:
    """Return the response to OPTIONS, which no route handles; None for other requests."""
    is_options = error.status_code == 405 and request.method == "OPTIONS"
    return Response(status_code=204, headers=_allow(request)) if is_options else None


def _allow(request: Request) -> dict[str, str]:
    return {"allow": ", ".join(_methods(request))}


def _methods(request: Request) -> list[str]:
    """Return the methods allowed at the path of a request."""
    taken = {
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    }
    has_head = "GET" in taken and not request.url.path.endswith("/events")
    return sorted(taken | {"OPTIONS"} | ({"HEAD"} if has_head else set()))


def _pointer(location: Sequence[Any], body: Any) -> str:
    """Turn the location of a schema violation into a JSON pointer; outside of the body it begins with the kind of parameter.

    Names of alternatives, which only the schema has, are left out; a missing field is named.
    """
    if not location or location[0] != "body":
        parts = list(location)
    else:
        parts, value = [], body
        for part in location[1:]:
            if (isinstance(value, dict) and part in value) or (isinstance(value, list) and part in range(len(value))):
                value = value[part]
                parts.append(part)
            elif part == location[-1] and isinstance(part, str) and isinstance(value, dict):
                parts.append(part)
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
