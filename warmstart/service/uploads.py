"""`/v1/descriptors:upload`: the descriptor of an uploaded dataset, which is not stored."""

import contextlib
import errno
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from warmstart.default_workload import workload_of_extractor
from warmstart.history_store.errors import DataError, StorageFullError
from warmstart.locations import history_path, usual_model
from warmstart.service.auth import Token
from warmstart.service.bodies import StrictRoute, problems
from warmstart.service.core import MOST_WAITING_UPLOADS, Service, Shared, audit, writes
from warmstart.service.descriptors import DescriptorBody, DescriptorRecord
from warmstart.service.problems import ProblemError
from warmstart.service.settings import UPLOADS

router = APIRouter(tags=["suggestions"], route_class=StrictRoute)
Extractor = Annotated[
    str | None,
    Query(max_length=128, description="Hash of the model, one that GET /v1 lists; the small network's when left out."),
]
TIME_S = 120.0
_BINARY: dict[str, Any] = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in UPLOADS}


@router.post(
    "/descriptors:upload",
    responses=problems(507),
    openapi_extra={"requestBody": {"required": True, "content": _BINARY}},
)
async def upload(
    request: Request, service: Shared, _: Annotated[Token, writes("descriptors.upload")], extractor: Extractor = None
) -> DescriptorRecord:
    """Compute the descriptor of an uploaded dataset: a ZIP or TAR of CLASS/PICTURE, or an NPZ of images and labels.

    It is unpacked and decoded in a process of its own, within limits of bytes, pictures, pixels and time, and then gone.
    Only on loopback, unless the server was started with --allow-uploads.
    """
    if not service.settings.takes_uploads:
        detail = "expected a descriptor, got an upload, which this server does not take. Compute the descriptor with `warmstart.Client`, or start it with --allow-uploads."
        raise ProblemError(403, "No uploads", detail)
    # The guard refuses others.
    kind = UPLOADS[request.headers["content-type"].partition(";")[0].strip().lower()]
    with counted_upload(service), tempfile.TemporaryDirectory(prefix="warmstart-upload-") as folder:
        file = Path(folder) / f"upload.{kind}"
        with _upload_errors(), file.open("wb") as opened:
            async for part in request.stream():
                await run_in_threadpool(opened.write, part)
        record = await to_thread.run_sync(_describe, file, kind, service, extractor, limiter=service.uploads)
    audit(request, bytes=int(request.headers.get("content-length", 0)))
    body = DescriptorBody.model_validate(record["descriptor"])
    return DescriptorRecord(id=service.add_descriptor(body.read()), descriptor=body, notes=record["notes"])


@contextlib.contextmanager
def counted_upload(service: Service) -> Iterator[None]:
    """Count an upload; raises `ProblemError` where too many wait."""
    if service.n_uploads >= MOST_WAITING_UPLOADS:
        detail = f"expected at most {MOST_WAITING_UPLOADS} uploads at a time, got one more. Send it again later, or a descriptor instead."
        raise ProblemError(503, "Too many uploads", detail, headers={"retry-after": "10", "connection": "close"})
    service.n_uploads += 1
    try:
        yield
    finally:
        service.n_uploads -= 1


@contextlib.contextmanager
def _upload_errors() -> Iterator[None]:
    """Turn a full disk and a broken upload into clear errors."""
    try:
        yield
    except ClientDisconnect as error:
        raise ProblemError(400, "Broken off", "expected the whole upload, got a part of it. Send it again.") from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        msg = "expected room on the server's disk for an upload, got none left. Send it again later, or a descriptor instead."
        raise StorageFullError(msg) from error


def _describe(file: Path, kind: str, service: Service, extractor: str | None) -> dict[str, Any]:
    """Compute the descriptor of a file in a separate process.

    Raises:
        ProblemError: 422, a model that the server does not accept.
        DataError: no dataset, or one beyond the limits.
    """
    settings = service.settings
    if extractor is not None and extractor not in service.extractors():
        detail = f"expected one of {', '.join(service.extractors())}, got {extractor!r}. GET /v1 lists them."
        raise ProblemError(422, "No such extractor", detail, pointer="/query/extractor")
    sizes = [str(4 * settings.most_upload_bytes), str(settings.most_pixels)]
    workload = None if extractor is None or settings.model is not None else workload_of_extractor(extractor)
    model = usual_model(history_path(settings.history, workload=workload), settings.model)
    command = [sys.executable, "-P", "-m", "warmstart.service.upload_file", str(file), kind, str(model)]
    try:
        process = subprocess.run(  # noqa: S603  our own module
            [*command, *sizes], capture_output=True, timeout=TIME_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        msg = f"expected a dataset that can be described within {TIME_S:g} s, got one that takes longer. Send a sample: 400 pictures are looked at."
        raise DataError(msg) from error
    try:
        output = json.loads(process.stdout)
    except ValueError as error:
        msg = "expected a dataset that can be described within the limits of memory and time, got one that needs more. Send a sample."
        raise DataError(msg) from error
    if "error" in output:
        raise DataError(output["error"])
    record: dict[str, Any] = output
    return record
