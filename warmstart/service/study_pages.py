"""`/studies`: the list of studies, and a page, pictures and files for each."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from warmstart.history_store.errors import WarmstartError
from warmstart.service.auth import LOOPBACK_TOKEN, bearer, cookie_name
from warmstart.service.core import Reader, Service, Shared
from warmstart.service.etags import NoneMatch, check_match
from warmstart.service.frame import error_page
from warmstart.service.problems import ProblemError
from warmstart.service.study_bodies import StudyName
from warmstart.service.study_list import ListQuery, Sort, State
from warmstart.service.trial_table import TrialQuery
from warmstart.status import http_status

SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Of a picture, whose only styles are its own: it runs nothing and loads nothing."""
Text = Annotated[str, Query(max_length=200)]


class PageRoute(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        answer = super().get_route_handler()

        async def with_pages(request: Request) -> Response:
            try:
                return await answer(request)
            except ProblemError as problem:
                if problem.status_code < 400:
                    raise
                return _error(request, problem.status_code, problem.title, problem.detail)
            except RequestValidationError:
                return _error(request, 422, "No such page", "expected another address, got one with a wrong part.")
            except WarmstartError as error:
                return _error(request, http_status(error), "Cannot be shown", _without_folders(request, error.message))

        return with_pages


router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.post("/session", status_code=204)
def sign_in(request: Request, service: Shared, token: Reader) -> Response:
    """Let the browser send the token of this request with every later one, until it is closed."""
    response = Response(status_code=204)
    secret = bearer(dict(request.scope["headers"]))
    if token is not LOOPBACK_TOKEN and secret is not None:
        response.set_cookie(
            cookie_name(service.settings.port),
            secret,
            path=service.settings.root_path or "/",
            secure=request.headers.get("origin", "").startswith("https:"),
            httponly=True,
            samesite="lax",
        )
    return response


@router.get("/studies")
def get_list(
    service: Shared,
    token: Reader,
    q: Text = "",
    state: State = "current",
    sort: Sort = "-changed",
    none_match: NoneMatch = None,
) -> HTMLResponse:
    """Return the page of all studies."""
    return _with_etag(service.views().list_page(ListQuery(q, state, sort), token), none_match)


@router.get("/studies/{name}")
def get_page(
    name: StudyName,
    request: Request,
    service: Shared,
    token: Reader,
    q: Text = "",
    state: Text = "",
    sort: Text = "-trial",
    part: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    none_match: NoneMatch = None,
) -> HTMLResponse:
    """Return the page of a study."""
    query = TrialQuery(q, state, sort, part)
    server = str(request.base_url).rstrip("/")
    return _with_etag(service.views().page(name, query, token, server), none_match)


@router.get("/studies/{name}/trials.csv")
def get_csv(name: StudyName, service: Shared, _: Reader) -> Response:
    """Return the trials of a study as `warmstart studies export` writes them."""
    return Response(service.views().csv(name), media_type="text/csv; charset=utf-8")


@router.get("/studies/{name}/space.json")
def get_space(name: StudyName, service: Shared, _: Reader) -> Response:
    """Return the space of a study, as `--space` takes it."""
    return Response(service.views().record(name).space_json, media_type="application/json")


@router.get("/studies/{name}/{picture}.svg")
async def get_picture(name: StudyName, picture: str, service: Shared, _: Reader, v: Text = "") -> Response:
    """Return a picture of a study."""
    svg, tag = await to_thread.run_sync(lambda: service.views().picture(name, picture), limiter=service.drawing)
    # The address of a picture has the state of its study: that one never changes.
    age = "private, max-age=604800, immutable" if v == tag else "no-cache"
    headers = {"cache-control": age, "content-security-policy": SVG_POLICY}
    return Response(svg, media_type="image/svg+xml", headers=headers)


def _with_etag(html: str, none_match: str | None) -> HTMLResponse:
    tag = f'"{sha256(html.encode()).hexdigest()[:24]}"'
    check_match(tag, none_match)
    return HTMLResponse(html, headers={"etag": tag, "vary": "cookie"})


def _error(request: Request, status: int, title: str, detail: str) -> HTMLResponse:
    return HTMLResponse(error_page(request.scope["path"], title, detail), status_code=status)


def _without_folders(request: Request, text: str) -> str:
    service: Service = request.app.state.service
    for path in service.private_paths():
        text = text.replace(str(path), path.name)
    return text
