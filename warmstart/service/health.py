"""`/v1/healthz`, `/v1/readyz`, `/v1/metrics` and `/v1`: health, metrics and description of the server."""

import logging
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from warmstart.descriptor import MOST_BYTES, SCHEMA_VERSION
from warmstart.history_store.errors import WarmstartError
from warmstart.service.bodies import StrictRoute, problems
from warmstart.service.core import Admin, Reader, Shared
from warmstart.service.history import open_history
from warmstart.service.logs import FIELDS
from warmstart.service.problems import ProblemError

router = APIRouter(tags=["server"], route_class=StrictRoute)
_log = logging.getLogger("warmstart.service")


monitoring = APIRouter(route_class=StrictRoute)
"""The same routes at /healthz, /readyz and /metrics, where monitors expect them."""


class Health(BaseModel):
    """A server that answers."""

    status: str


class About(BaseModel):
    """Version, extractors and history of a server."""

    name: str
    version: str
    api: str
    extractors: list[str]
    descriptor_schema_version: int
    most_descriptor_bytes: int
    history: dict[str, Any]


@monitoring.get("/healthz")
@router.get("/healthz")
async def healthz() -> Health:
    """Return ok while the process answers."""
    return Health(status="ok")


@monitoring.get("/readyz")
@router.get("/readyz", responses=problems(503))
def readyz(service: Shared) -> Health:
    """Return ready if history, model and studies can be used and the server is not stopping; the history may be empty."""
    if service.is_stopping:
        raise ProblemError(503, "Stopping", "expected a running server, got one that is shutting down. Ask another.")
    try:
        service.embedded_or_empty()
        service.studies.check()
    except WarmstartError as error:
        _log.warning("not ready", extra={FIELDS: {"reason": str(error)}})
        detail = "expected a history, a model and a storage of studies that can be used, got others. The server's log says more."
        raise ProblemError(503, "Not ready", detail) from error
    return Health(status="ready")


@monitoring.get("/metrics")
@router.get("/metrics", response_class=PlainTextResponse, responses=problems())
async def metrics(service: Shared, _: Admin) -> PlainTextResponse:
    """Return the metrics in Prometheus' text format."""
    return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


@router.get("", responses=problems())
def about(service: Shared, _: Reader) -> About:
    """Return the version, the accepted extractors and the history."""
    embedded = service.embedded_or_empty()
    if embedded is None:
        with open_history(service) as opened:
            history = {"name": opened.path.name, "n_datasets": 0, "n_configs": len(opened.configs)}
    else:
        history = {"name": embedded.path.name, "n_datasets": len(embedded.names), "n_configs": len(embedded.configs)}
    return About(
        name="warmstart",
        version=version("warmstart"),
        api="v1",
        extractors=service.extractors(),
        descriptor_schema_version=SCHEMA_VERSION,
        most_descriptor_bytes=MOST_BYTES,
        history=history,
    )
