"""`/v1/studies/{name}/events`: changes of a study's trials as server-sent events."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator

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
    followed = service.followed.get(name) or Followed()
    await followed.look(service, name)
    return StreamingResponse(_events(service, name, followed), media_type="text/event-stream")


class Followed:
    """A study with followers: its trials as text, read and written once a second for all of them, and what changed."""

    def __init__(self) -> None:
        """Create a study that nobody has read yet."""
        self.n_followers = 0
        self.change = 0
        self._texts: dict[int, str] = {}
        self._changes: dict[int, int] = {}
        self._finished: set[int] = set()
        self._looked, self._looking = -math.inf, asyncio.Lock()

    def since(self, change: int) -> list[str]:
        """Return the texts of the trials that changed after a change; without one, none is looked at."""
        if change == self.change:
            return []
        return [self._texts[number] for number, last in self._changes.items() if last > change]

    async def look(self, service: Service, name: str) -> None:
        """Read the trials, unless that was done within the last second."""
        async with self._looking:
            # Polled, as other processes may write to the storage too.
            if time.monotonic() - self._looked >= LOOK_S / 2:
                await run_in_threadpool(self._read, service, name)
                self._looked = time.monotonic()

    def _read(self, service: Service, name: str) -> None:
        with service.studies.study(name) as trials:
            for trial in trials.queue.trials():
                if trial.number in self._finished:
                    continue
                text = json.dumps(trial_record(trial), allow_nan=False)
                if self._texts.get(trial.number) != text:
                    self._texts[trial.number] = text
                    self.change += 1
                    self._changes[trial.number] = self.change
                elif trial.state.is_finished():  # it was, too, a second ago
                    self._finished.add(trial.number)


async def _events(service: Service, name: str, followed: Followed) -> AsyncIterator[str]:
    """Yield the changed records of trials, until the server stops or the client disconnects."""
    service.n_streams += 1
    followed.n_followers += 1
    service.followed[name] = followed
    try:
        seen, quiet = 0, 0.0
        yield "retry: 2000\n\n"
        while not service.is_stopping:
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
            await followed.look(service, name)
    finally:
        service.n_streams -= 1
        followed.n_followers -= 1
        if not followed.n_followers:
            service.followed.pop(name, None)
