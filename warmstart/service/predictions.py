"""`/v1/predictions`: the class of an uploaded picture, which is not stored."""

import subprocess
import sys
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from warmstart.history_store.errors import DataError
from warmstart.service.auth import Token
from warmstart.service.bodies import Body, StrictRoute, problems
from warmstart.service.core import Service, Shared, audit, writes
from warmstart.service.problems import ProblemError
from warmstart.service.settings import PICTURES
from warmstart.service.uploads import counted_upload
from warmstart.training.workloads.classifier_images import to_channels

if TYPE_CHECKING:
    from warmstart.training.workloads import Classifier

router = APIRouter(tags=["predictions"], route_class=StrictRoute)
TIME_S = 30.0
_BINARY: dict[str, Any] = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in PICTURES}


class PredictionRecord(Body):
    """The answer to one picture."""

    model_config = ConfigDict(populate_by_name=True)

    label: str = Field(alias="class", description="The most probable class.")
    probability: float
    probabilities: dict[str, float]
    unlike: bool | None = Field(
        None, description="Whether the picture is unlike those that the classifier learned; null = unknown."
    )


@router.post("/predictions", responses=problems(507), openapi_extra={"requestBody": {"required": True, "content": _BINARY}})  # fmt: skip
async def predict(request: Request, service: Shared, _: Annotated[Token, writes("predictions")]) -> PredictionRecord:
    """Name the class of a picture: the bytes of its file.

    It is decoded in a process of its own, within limits of bytes, pixels, memory and time, and not kept. Needs
    --classifier. Only on loopback, unless the server was started with --allow-uploads.
    """
    if service.settings.classifier is None:
        detail = "expected a server with a classifier, got one without. Start it with --classifier FILE."
        raise ProblemError(404, "No classifier", detail)
    if not service.settings.takes_uploads:
        detail = "expected no picture, got one, which this server does not take. Start it with --allow-uploads."
        raise ProblemError(403, "No uploads", detail)
    with counted_upload(service):
        content = await request.body()
        record = await run_in_threadpool(_answer, content, service)
    audit(request, bytes=len(content))
    return record


def _answer(content: bytes, service: Service) -> PredictionRecord:
    """Decode a picture and name its class."""
    classifier = service.classifier()
    with service.predicting:  # one at a time: each uses all threads
        answers, unlike = classifier.answer(_decoded(content, classifier)[None])
    probabilities = [round(float(value), 6) for value in answers[0]]
    best = int(answers[0].argmax())
    by_class = dict(zip(classifier.classes, probabilities, strict=True))
    is_unlike = None if unlike is None else bool(unlike[0])
    label = classifier.classes[best]
    return PredictionRecord.model_validate(
        {"class": label, "probability": probabilities[best], "probabilities": by_class, "unlike": is_unlike}
    )


def _decoded(content: bytes, classifier: "Classifier") -> NDArray[np.uint8]:
    """Decode a picture in a separate process, to the size and channels of a classifier.

    Raises:
        DataError: no picture, or one beyond the limits.
    """
    command = [sys.executable, "-P", "-m", "warmstart.service.decode_picture", str(classifier.size)]
    try:
        process = subprocess.run(command, input=content, capture_output=True, timeout=TIME_S, check=False)  # noqa: S603  our own module
    except subprocess.TimeoutExpired as error:
        msg = f"expected a picture that can be decoded within {TIME_S:g} s, got one that takes longer. Send a smaller one."
        raise DataError(msg) from error
    if process.returncode:
        reason = process.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        msg = f"expected a picture that can be decoded, got another file ({reason or 'beyond the limits of memory and time'}). Send its bytes as they are."
        raise DataError(msg)
    pixels: NDArray[np.uint8] = np.load(BytesIO(process.stdout), allow_pickle=False)
    return to_channels(pixels if pixels.ndim == 3 else pixels[..., None], classifier.channels)
