"""`/v1/studies/{name}/events`: changes of a study's trials as server-sent events."""

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from warmstart.service.auth import Token
from warmstart.service.bodies import StrictRoute, problems
from warmstart.service.core import Reader, Service, Shared
from warmstart.service.followed import LOOK_S, Followed
from warmstart.service.problems import ProblemError
from warmstart.service.study_bodies import StudyName

router = APIRouter(tags=["studies"], route_class=StrictRoute)
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
async def get_events(name: StudyName, service: Shared, token: Reader) -> StreamingResponse:
    """Stream the trials of a study: all of them first, then every change."""
    if service.n_streams >= MOST_STREAMS:
        detail = f"expected at most {MOST_STREAMS} followers, got one more. Ask for the trials instead."
        raise ProblemError(503, "Too many followers", detail, headers={"retry-after": "10"})
    followed = service.followed.get(name) or Followed()
    await followed.look(service.studies, name)
    return StreamingResponse(_events(service, name, followed, token), media_type="text/event-stream")


async def _events(service: Service, name: str, followed: Followed, token: Token) -> AsyncIterator[str]:
    """Yield the changed records of trials, until the server stops, the token is revoked or the client disconnects."""
    service.n_streams += 1
    followed.n_followers += 1
    service.followed[name] = followed
    try:
        seen, quiet = 0, 0.0
        yield "retry: 2000\n\n"
        while not service.is_stopping and (service.tokens is None or service.tokens.has(token)):
            change = followed.change
            for text in followed.since(seen):
                quiet = 0.0
                yield f"event: trial\ndata: {text}\n\n"
            seen = change
            if quiet >= QUIET_S:
                quiet = 0.0
                yield ": still there\n\n"
            await asyncio.sleep(LOOK_S)
            quiet += LOOK_S
            await followed.look(service.studies, name)
    finally:
        service.n_streams -= 1
        followed.n_followers -= 1
        if not followed.n_followers:
            service.followed.pop(name, None)
