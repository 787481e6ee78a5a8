"""The server process: socket, uvicorn, and a graceful shutdown."""

import asyncio
import errno
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from warmstart.history_store import system
from warmstart.history_store.errors import UsageError
from warmstart.service.app import create_app
from warmstart.service.settings import ServiceSettings

BACKLOG = 512
END_S = 2.0
"""After the grace, for closing files; then the process ends, whatever computes."""
KEEP_ALIVE_S = 20
SWITCH_S = 0.0005
"""Until a thread that computes lets others on: a heartbeat waits for that after each of its dozen answers of a database."""
WARNING_S = 60.0
"""Between two lines about too many connections."""
MOST_CONNECTIONS = 1000
DESCRIPTORS_EACH = 2
"""Of the process, for each connection that it takes: its own, and one for files and databases."""
_log = logging.getLogger("warmstart.service")


def run_server(settings: ServiceSettings, *, on_message: Callable[[str], object] = lambda _: None) -> None:
    """Serve until a signal.

    Args:
        settings: of the server.
        on_message: called with the URL once it listens.

    Raises:
        UsageError: an address that cannot be used.
        WarmstartError: an invalid token file.
    """
    _raise_descriptors()
    sys.setswitchinterval(SWITCH_S)
    with listen(settings) as listening:
        make_server(settings, listening, on_message=on_message).run(sockets=[listening])


def make_server(
    settings: ServiceSettings, listening: socket.socket, *, on_message: Callable[[str], object] = lambda _: None
) -> uvicorn.Server:
    """Create a uvicorn server for a listening socket; it ends when its `should_exit` is true."""
    app = create_app(settings)
    host, port = listening.getsockname()[:2]
    host_in_url = f"[{host}]" if ":" in host else host
    kind = "http" if settings.tls_cert is None else "https"
    config = uvicorn.Config(
        app,
        http=_limited_protocol(settings.body_timeout_s, most_connections()),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the client is the peer; headers of proxies are not trusted
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(settings.grace_s)),
        ws="none",
        lifespan="on",
    )
    return _Server(
        config, settings.grace_s, app.stop, lambda: on_message(f"{kind}://{host_in_url}:{port}{settings.root_path}")
    )


def _quiet_handler() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return a handler of the event loop's errors, with a line a minute where no connection can be taken."""
    warned = -math.inf

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal warned
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (
            errno.EMFILE,
            errno.ENFILE,
            errno.ENOBUFS,
            errno.ENOMEM,
        ):
            loop.default_exception_handler(context)
        elif time.monotonic() - warned > WARNING_S:
            warned = time.monotonic()
            _log.warning("no connection can be taken: %s", error.strerror)

    return handle


def _raise_descriptors() -> None:
    """Allow as many file descriptors as the system lets this process have, up to what its connections need."""
    soft, hard = system.resource.getrlimit(system.resource.RLIMIT_NOFILE)
    enough = DESCRIPTORS_EACH * MOST_CONNECTIONS + 100
    if soft != system.resource.RLIM_INFINITY and soft < enough:
        system.resource.setrlimit(
            system.resource.RLIMIT_NOFILE,
            (enough if hard == system.resource.RLIM_INFINITY else min(enough, hard), hard),
        )


def most_connections() -> int:
    """Return how many connections are taken: fewer than there are file descriptors for."""
    soft, _ = system.resource.getrlimit(system.resource.RLIMIT_NOFILE)
    return (
        MOST_CONNECTIONS
        if soft == system.resource.RLIM_INFINITY
        else max(1, min(MOST_CONNECTIONS, soft // DESCRIPTORS_EACH))
    )


def _limited_protocol(seconds: float, most: int) -> type[H11Protocol]:
    """Return uvicorn's protocol with a timeout for the head of a request, and a limit of connections, over which new ones are closed."""
    warned = -math.inf

    class LimitedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            nonlocal warned
            super().connection_made(transport)
            if len(self.connections) > most:
                # Without the wait of a close, which would hold its descriptor.
                transport.abort()
                if time.monotonic() - warned > WARNING_S:
                    warned = time.monotonic()
                    _log.warning("more than %d connections: new ones are closed", most)
                return
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _start_timer(self) -> None:
            """Start the timer of a head; the guard limits the time of a body."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_timer()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.close)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return LimitedProtocol


class _Server(uvicorn.Server):
    """A uvicorn server with callbacks for listening and stopping."""

    def __init__(
        self, config: uvicorn.Config, grace_s: float, stopping: Callable[[], object], listening: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self._grace_s, self._stopping, self._listening = grace_s, stopping, listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening and report it."""
        # Asyncio tells of every connection that no descriptor is left for, hundreds of times a second.
        asyncio.get_running_loop().set_exception_handler(_quiet_handler())
        await super().startup(sockets)
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start a graceful shutdown; a second Ctrl-C ends it at once."""
        self._stopping()
        # A thread that computes cannot be ended; what was acknowledged is stored.
        watch = threading.Timer(self._grace_s + END_S, os._exit, [0])
        watch.daemon = True
        watch.start()
        super().handle_exit(sig, frame)
        if sig == signal.SIGTERM:
            # Uvicorn would raise SIGTERM again; exit with code 0.
            self._captured_signals.clear()


def listen(settings: ServiceSettings) -> socket.socket:
    """Open a listening socket.

    Raises:
        UsageError: the address is in use, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host.strip("[]"), settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        msg = f"expected an address that is free, got {settings.host}:{settings.port} ({error.strerror or error}). Choose another with `port`; 0 takes any."
        raise UsageError(msg, param="port") from error
