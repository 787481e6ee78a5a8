"""`/v1/studies/{name}/events`: changes of a study's trials as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from warmstart.service.bodies import problems
from warmstart.service.core import Reader, Service, Shared
from warmstart.service.problems import ProblemError
from warmstart.service.strict import StrictRoute
from warmstart.service.study_bodies import StudyName
from warmstart.service.study_records import trial_record

router = APIRouter(tags=["studies"], route_class=StrictRoute)
LOOK_S = 1.0
QUIET_S = 15.0
"""Seconds without an event after which a comment keeps the connection alive."""
MOST_STREAMS = 100


@router.get(
    "/studies/{name}/events",
    response_class=StreamingResponse,
    responses={
        **problems(404),
        200: {
            "description": "Events `trial`, each the record of a trial as it is now; all of them first.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    },
)
async def get_events(name: StudyName, service: Shared, _: Reader) -> StreamingResponse:
    """Stream the trials of a study: all of them first, then every change."""
    if service.n_streams >= MOST_STREAMS:
        detail = f"expected at most {MOST_STREAMS} followers, got one more. Ask for the trials instead."
        raise ProblemError(503, "Too many followers", detail, headers={"retry-after": "10"})
    first = await run_in_threadpool(_records, service, name)
    return StreamingResponse(_events(service, name, first), media_type="text/event-stream")


async def _events(service: Service, name: str, first: list[dict[str, Any]]) -> AsyncIterator[str]:
    """Yield the changed records of trials, until the server stops or the client disconnects."""
    service.n_streams += 1
    try:
        sent: dict[int, str] = {}
        records, quiet = first, 0.0
        yield "retry: 2000\n\n"
        while not service.is_stopping:
            for record in records:
                text = json.dumps(record, allow_nan=False)
                if sent.get(record["number"]) != text:
                    sent[record["number"]] = text
                    quiet = 0.0
                    yield f"event: trial\ndata: {text}\n\n"
            if quiet >= QUIET_S:
                quiet = 0.0
                yield ": still there\n\n"
            # Polled, as other processes may write to the storage too.
            await asyncio.sleep(LOOK_S)
            quiet += LOOK_S
            records = await run_in_threadpool(_records, service, name)
    finally:
        service.n_streams -= 1


def _records(service: Service, name: str) -> list[dict[str, Any]]:
    with service.studies.study(name) as trials:
        return [trial_record(trial) for trial in trials.queue.trials()]
