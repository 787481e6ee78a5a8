"""The web page: static files, and HTML tables without JavaScript."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from warmstart.histories.listing import dataset_rows
from warmstart.history_store.quoting import in_markup
from warmstart.history_store.wording import in_short
from warmstart.service.api_page import api_page
from warmstart.service.core import Reader, Shared
from warmstart.service.frame import page
from warmstart.service.history import open_history
from warmstart.service.problems import ProblemError

router = APIRouter(include_in_schema=False)
_FILES = files("warmstart.service") / "static"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


@router.get("/")
def index() -> Response:
    """Return the web page."""
    return _file("index.html")


@router.get("/static/{name}")
def static(name: Annotated[str, Path(pattern=r"^[a-z]+\.(js|css)$")]) -> Response:
    """Return a static file of the web page."""
    return _file(name)


@router.get("/docs")
def interface(request: Request) -> HTMLResponse:
    """Return a page of all requests and bodies."""
    return HTMLResponse(api_page(request.app.openapi()))


@router.get("/tables/datasets")
def datasets_table(service: Shared, _: Reader) -> HTMLResponse:
    """Return a table of the datasets without JavaScript."""
    with open_history(service) as history:
        rows = dataset_rows(history)
    heads = ("name", "group", "n_train", "n_classes", "n_evaluations", "best_error")
    return _page("Datasets of the history", heads, [[row[head] for head in heads] for row in rows])


@router.get("/tables/studies")
def studies_table() -> RedirectResponse:
    """Lead to the list of studies, which needs no JavaScript."""
    return RedirectResponse("../studies")


def _file(name: str) -> Response:
    file = _FILES / name
    if not file.is_file():
        raise ProblemError(404, "No such file", f"expected a file of the page, got {name!r}. Begin at /.")
    return Response(file.read_bytes(), media_type=_KINDS["." + name.rpartition(".")[2]])


def _page(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> HTMLResponse:
    """Return a page with one table."""
    head = "".join(f'<th scope="col">{in_markup(cell.replace("_", " "))}</th>' for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{in_markup(_cell_text(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    return HTMLResponse(page(title, f"<h1>{in_markup(title)}</h1>{table}", root="../", home="Datasets"))


def _cell_text(value: object) -> str:
    return "" if value is None else in_short(value)
