"""The FastAPI application: all routes, behind the guard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version

from anyio import to_thread
from fastapi import FastAPI

from warmstart.service import (
    descriptors,
    events,
    health,
    history,
    predictions,
    site,
    studies,
    study_pages,
    suggestions,
    uploads,
)
from warmstart.service.auth import TokenFile
from warmstart.service.bodies import ProblemBody
from warmstart.service.core import Service
from warmstart.service.guard import Guard
from warmstart.service.problems import install_problems
from warmstart.service.settings import ServiceSettings
from warmstart.service.study_book import StudyBook
from warmstart.service.webhook import Webhook

ABOUT = """Suggestions for hyperparameter search from a dataset's descriptor, and studies for workers anywhere.

Pictures stay with the client: `warmstart suggest --server URL --dataset PATH` sends numbers alone.
Every error is `application/problem+json`; its `pointer` names the field at fault."""


def create_app(settings: ServiceSettings) -> Guard:
    """Create the app of a server; only the token file is read before the first request.

    Raises:
        DataError: an invalid token file.
    """
    tokens = None if settings.token_file is None else TokenFile(settings.token_file)
    if settings.storage is not None:
        # Threads that import one package at the same time find it half loaded.
        for name in ("ConfigSpace", "warmstart.service.study_views", "warmstart.studies.state.leased_trials"):
            import_module(name)
    service = Service(settings, StudyBook(settings.storage), tokens)
    if settings.webhook is not None:
        service.webhook = Webhook(settings.webhook, lambda name: service.views().record(name), service.studies)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        # Built now, as building it on first use is not thread-safe.
        app.openapi()
        if service.webhook is not None:
            service.webhook.start()
        yield
        service.is_stopping = True
        if service.webhook is not None:
            await to_thread.run_sync(service.webhook.close)
        service.studies.close()

    api = FastAPI(
        title="warmstart",
        version=version("warmstart"),
        description=ABOUT,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its page loads scripts from other servers
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,  # names the functions of generated clients
    )
    api.state.service = service
    for part in (health, descriptors, uploads, suggestions, predictions, studies, events, history):
        api.include_router(part.router, prefix="/v1")
    api.include_router(health.monitoring, include_in_schema=False)
    api.include_router(site.router)
    api.include_router(study_pages.router)
    install_problems(api, service.private_paths)
    _describe_problems(api)
    return Guard(api, service)


def _describe_problems(api: FastAPI) -> None:
    """Add the schema of problems to the OpenAPI document."""
    describe = api.openapi

    def described() -> dict[str, object]:
        document = describe()
        schema = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(schema.pop("$defs", {}))
        schemas["ProblemBody"] = schema
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{}, {"token": []}]
        return document

    api.openapi = described  # type: ignore[method-assign]  # FastAPI's own way
