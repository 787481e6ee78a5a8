"""`/v1/history` and `/v1/map`: datasets and runs of the history, new runs, the map."""

import math
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import Match
from starlette.types import Scope

from warmstart.histories.listing import dataset_rows, describe, summary
from warmstart.history_store.bundle.records import without_mark
from warmstart.history_store.errors import DataError, HistoryReadOnlyError, UsageError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.history_store.json_text import finite
from warmstart.history_store.records import Evaluation, Status
from warmstart.history_store.space import space_names, with_logarithms
from warmstart.locations import history_path, is_shipped, stored_hash
from warmstart.plots.plane import fit_plane
from warmstart.service.auth import Token
from warmstart.service.bodies import KEY, Body, Name, StrictRoute, plain_key, problems
from warmstart.service.core import Reader, Service, Shared, audit, writes
from warmstart.service.descriptors import EXAMPLE, read_descriptor
from warmstart.service.etags import UNCHANGED, NoneMatch, check_match
from warmstart.service.pages import Cursor, Limit, page_of
from warmstart.service.problems import ProblemError
from warmstart.service.records import DatasetPage, DatasetRecord, HistoryRecord, MapRecord, RunPage
from warmstart.service.suggestions import DescriptorOrId
from warmstart.suggestions.embedded_history import file_state

router = APIRouter(tags=["history"], route_class=StrictRoute)
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", pattern=KEY, description="The same key again adds nothing again."),
]
DatasetName = Annotated[str, Path(max_length=300, description="A slash in it is sent as %2F, or as it is.")]


class _RunsRoute(StrictRoute):
    """Route of the runs of a dataset; ``a%2Fruns`` is a dataset of that name, not the runs of `a`."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match only paths whose undecoded form ends in ``/runs``."""
        # Only the undecoded path tells a slash from %2F.
        raw: bytes = scope.get("raw_path") or b"/runs"
        return super().matches(scope) if raw.endswith(b"/runs") else (Match.NONE, {})


class RunBody(Body):
    """One run of one configuration on one dataset."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "dataset": "photos",
                    "config": {"log10_learning_rate": -3.0, "batch_size": 16},
                    "error": 0.12,
                    "seed": 0,
                }
            ]
        }
    )

    dataset: Name
    config: Annotated[dict[str, int | float | str | bool], Field(min_length=1, max_length=1000)]
    error: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="Left out where the run gave none.")
    status: Annotated[Status, Field(strict=False)] = Status.OK
    duration: Annotated[float, Field(ge=0, le=3e38)] | None = Field(None, description="Seconds.")
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    curve: Annotated[list[Annotated[list[float], Field(min_length=2, max_length=2)]], Field(max_length=10_000)] = Field(
        [], description="Pairs [update, error]."
    )
    origin: Annotated[str, Field(max_length=200)] = "server"


class RunRecord(BaseModel):
    """A run that is on the disk."""

    dataset: str
    n_evaluations: int
    replayed: bool = Field(description="It was there already, under this key.")


@router.get("/history", response_model=None, responses={**problems(), **UNCHANGED, 200: {"model": HistoryRecord}})
def get_history(service: Shared, response: Response, _: Reader, none_match: NoneMatch = None) -> dict[str, Any]:
    """Return a summary of the history."""
    _set_etag(service, response, none_match)
    with open_history(service) as opened:
        return {**summary(opened), "history": opened.path.name}


@router.get(
    "/history/datasets", response_model=None, responses={**problems(), **UNCHANGED, 200: {"model": DatasetPage}}
)
def get_datasets(
    service: Shared,
    response: Response,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    none_match: NoneMatch = None,
) -> dict[str, Any]:
    """List the datasets: group, size, evaluations, lowest error."""
    _set_etag(service, response, none_match)
    with open_history(service) as opened:
        items, following = page_of(dataset_rows(opened), limit, cursor)
    return {"items": items, "next": following}


def get_runs(
    name: DatasetName,
    service: Shared,
    response: Response,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    none_match: NoneMatch = None,
) -> dict[str, Any]:
    """List the runs on one dataset, in the order in which they were recorded."""
    _set_etag(service, response, none_match)
    with open_history(service) as opened:
        _check_dataset(opened, name)
        items, following = page_of(opened.evaluations(name), limit, cursor)
    return {"items": [_run_object(run) for run in items], "next": following}


# Registered before the route of one dataset, whose names may have slashes.
router.add_api_route(
    "/history/datasets/{name:path}/runs",
    get_runs,
    methods=["GET"],
    response_model=None,
    responses={**problems(404), **UNCHANGED, 200: {"model": RunPage}},
    route_class_override=_RunsRoute,
)


@router.get(
    "/history/datasets/{name:path}",
    response_model=None,
    responses={**problems(404), **UNCHANGED, 200: {"model": DatasetRecord}},
)
def get_dataset(
    name: DatasetName, service: Shared, response: Response, _: Reader, none_match: NoneMatch = None
) -> dict[str, Any]:
    """Return one dataset: record, runs, best configurations, nearest datasets."""
    _set_etag(service, response, none_match)
    with open_history(service) as opened:
        _check_dataset(opened, name)
        model_hash = stored_hash(
            opened.model_hashes, None if service.settings.model is None else str(service.settings.model)
        )
        document: dict[str, Any] = finite(describe(opened, name, model_hash=model_hash))
        return document


@router.post(
    "/history/runs",
    status_code=201,
    responses={
        **problems(404, 409, 423, 507),
        200: {"model": RunRecord, "description": "It was there already, under this key."},
    },
)
def post_run(
    body: RunBody,
    request: Request,
    response: Response,
    service: Shared,
    token: Annotated[Token, writes("history.record")],
    key: Key = None,
) -> RunRecord:
    """Record one run, on the disk before the response. The same key again adds nothing."""
    path = history_path(service.settings.history)
    if is_shipped(path) or not service.settings.writable_history:
        msg = f"{path}: expected a history of your own, got one that is only read. Start the server with `history`."
        raise HistoryReadOnlyError(msg)
    mark = None if key is None else f" [{token.name}:{plain_key(key)}]"
    run = _evaluation(body, _origin_suffix(body.origin, token) if mark is None else mark)
    # Threads wait here for each other; another process's lock is refused with 423.
    with service.writing, open_history(service, write=True) as opened:
        _check_dataset(opened, run.dataset, pointer="/dataset")
        # Stored runs use these names.
        names = space_names(opened.space_json)
        run = replace(run, config=with_logarithms(run.config, names, location=str(opened.path)))
        earlier = None if mark is None else _find_marked(opened, mark)
        is_replay = earlier is not None
        if earlier is None:
            _check_new(opened, run)
            opened.append(run)
        elif (earlier.dataset, _run_object(earlier)) != (run.dataset, _run_object(run)):
            detail = f"expected the run that this Idempotency-Key recorded, got another one on {run.dataset[:80]!r}. Give every run a key of its own."
            raise ProblemError(409, "Key used before", detail, pointer="/header/Idempotency-Key")
        count = opened.n_evaluations
    if is_replay:
        response.status_code = 200
    else:
        audit(request, dataset=run.dataset)
    return RunRecord(dataset=run.dataset, n_evaluations=count, replayed=is_replay)


class MapRequest(Body):
    """A descriptor to place on the map of the history."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"descriptor": EXAMPLE}]})

    descriptor: DescriptorOrId | None = None


@router.post("/map", response_model=None, responses={**problems(404), 200: {"model": MapRecord}})
def post_map(body: MapRequest, service: Shared, _: Reader) -> dict[str, Any]:
    """Return a map of the history's datasets in a plane, with a descriptor's position."""
    descriptor = None if body.descriptor is None else read_descriptor(body.descriptor, service)
    embedded = service.embedded(descriptor)
    if embedded.model is None:
        detail = "expected a history with images to draw a map of, got runs alone. `warmstart history add` gives its datasets their images."
        raise ProblemError(422, "No map", detail)
    vectors = np.asarray(embedded.vectors)
    plane = fit_plane(vectors)
    query_position = None
    if descriptor is not None:
        location = service.advisor().locate(descriptor)
        query_position = [round(float(value), 5) for value in plane.project(location.vector)]
    positions = plane.project(vectors).round(5).tolist()
    return {
        "share": round(plane.share, 4),
        "datasets": [
            {"name": name, "group": group, "position": position}
            for name, group, position in zip(embedded.names, embedded.groups, positions, strict=True)
        ],
        "own": query_position,
    }


def open_history(service: Service, *, write: bool = False) -> "History":
    """Open the server's history; raises as `History.open`."""
    return History.open(history_path(service.settings.history), write=write)


def _find_marked(history: "History", mark: str) -> Evaluation | None:
    """Find the run recorded under a key, on any dataset."""
    table = history.table()
    origins = [number for number, origin in enumerate(table.origins) if origin.endswith(mark)]
    rows = np.flatnonzero(np.isin(table.origin, origins)) if origins else np.zeros(0, np.int64)
    return next(iter(table.records(history.names, history.configs, rows)), None)


def _check_new(history: "History", run: Evaluation) -> None:
    """Check that a run was not recorded before, under another key or without one.

    Raises:
        DataError: it was.
    """
    if run.seed is None:
        return
    origin, key = without_mark(run.origin), config_key(run.config)
    for earlier in history.evaluations(run.dataset):
        if earlier.seed == run.seed and without_mark(earlier.origin) == origin and config_key(earlier.config) == key:
            msg = f"expected a run that the history does not have, got {run.dataset[:80]!r} with this configuration, seed={run.seed}, origin={origin!r} a second time. Leave it out, or give its own seed."
            raise DataError(msg)


def _origin_suffix(origin: str, token: Token) -> str:
    """Return a suffix for an origin that looks like the mark of a key; empty for others."""
    return f" [{token.name}]" if without_mark(origin) != origin else ""


def _check_dataset(history: "History", name: str, *, pointer: str = "/path/name") -> None:
    if name not in history.names:
        detail = f"expected a dataset of the history, got {name[:80]!r}. GET /v1/history/datasets lists them."
        raise ProblemError(404, "No such dataset", detail, pointer=pointer)


def _set_etag(service: Service, response: Response, none_match: str | None) -> None:
    """Set the history's ETag on a response; raises `ProblemError` 304 if the client has it."""
    state = file_state(history_path(service.settings.history))
    tag = '"' + sha256(repr(state).encode()).hexdigest()[:24] + '"'
    response.headers["etag"] = tag
    check_match(tag, none_match)


def _evaluation(body: RunBody, mark: str) -> Evaluation:
    """Build an evaluation; the mark of its key is part of the origin, so that one write stores both."""
    status = body.status
    if body.error is None and status.has_error:
        msg = f"expected a validation error in [0, 1] for status {status.value!r}, got none. Give it, or `status` crashed, timeout or oom."
        raise UsageError(msg, param="error")
    return Evaluation(
        dataset=body.dataset,
        config=dict(body.config),
        error=math.nan if body.error is None else body.error,
        status=status,
        duration=math.nan if body.duration is None else body.duration,
        seed=body.seed,
        curve=tuple(_point(step, error) for step, error in body.curve),
        origin=body.origin + mark,
    )


def _point(step: float, error: float) -> tuple[int, float]:
    """Return a checked point of a curve."""
    if not float(step).is_integer():
        msg = f"expected whole numbers of updates, got {step}. Count updates."
        raise UsageError(msg, param="curve")
    return int(step), error


def _run_object(run: Evaluation) -> dict[str, Any]:
    return {
        "config": dict(run.config),
        "error": None if math.isnan(run.error) else run.error,
        "status": run.status.value,
        "duration": None if math.isnan(run.duration) else run.duration,
        "seed": run.seed,
        "curve": [list(point) for point in run.curve],
        "origin": run.origin,
    }
