"""Rate limits by client: token buckets, which refill with time."""

import time
from collections.abc import Callable

BURST = 10
"""Seconds of requests that a client may send in one burst."""
MOST_CLIENTS = 10_000


class RateLimit:
    """A limit of requests per second for every client."""

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, client: str) -> float:
        """Take one request from a client's bucket; return 0, or the seconds to wait."""
        now, most = self._clock(), max(1.0, self._rate * BURST)
        left, then = self._buckets.pop(client, (most, now))
        left = min(most, left + (now - then) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        # Inserted last, so that the client unseen for longest is dropped first.
        self._buckets[client] = (left - 1 if wait == 0 else left, now)
        if len(self._buckets) > MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        return wait
