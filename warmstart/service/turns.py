"""Turns of the clients that ask one study for trials, so that hundreds of them wait without threads."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from anyio import CapacityLimiter, current_time, move_on_after, sleep

TURN_S = 20.0
"""Seconds that a client waits for its turn: far less than those after which it takes its request for lost."""
AT_ONCE = 2
"""Threads that choose trials of one study: one chooses, the next is ready."""
WAITS_PER_S = 10
"""Clients of one study that hear each second that they have to wait, about."""
STEP_S = 0.5


@dataclass(slots=True, weakref_slot=True)
class Turns:
    """The turns of one study's clients."""

    _limiter: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(AT_ONCE))
    _n_paused: int = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for a turn and hold it in the block; gives False where it did not come in time."""
        holder = object()
        with move_on_after(TURN_S) as waiting:
            await self._limiter.acquire_on_behalf_of(holder)
        if waiting.cancelled_caught:
            yield False
            return
        try:
            yield True
        finally:
            self._limiter.release_on_behalf_of(holder)

    async def pause(self, since: float, is_over: Callable[[], bool]) -> None:
        """Let a client wait that has to ask again, the longer the more do: every one costs about as much as a trial.

        Args:
            since: when its request came, by the event loop's clock.
            is_over: whether the server stops.
        """
        self._n_paused += 1
        try:
            until = since + min(TURN_S, self._n_paused / WAITS_PER_S)
            while (rest := until - current_time()) > 0 and not is_over():
                await sleep(min(STEP_S, rest))
        finally:
            self._n_paused -= 1
