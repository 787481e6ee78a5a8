"""The server process: socket, uvicorn, and a graceful shutdown."""

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from warmstart.history_store.errors import UsageError
from warmstart.service.app import create_app
from warmstart.service.settings import ServiceSettings

BACKLOG = 512
KEEP_ALIVE_S = 20
MOST_CONNECTIONS = 1000


def run_server(settings: ServiceSettings, *, on_message: Callable[[str], object] = lambda _: None) -> None:
    """Serve until a signal.

    Args:
        settings: of the server.
        on_message: called with the URL once it listens.

    Raises:
        UsageError: an address that cannot be used.
        WarmstartError: an invalid token file.
    """
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
        http=_head_timeout_protocol(settings.body_timeout_s),
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
    return _Server(config, app.stop, lambda: on_message(f"{kind}://{host_in_url}:{port}{settings.root_path}"))


def _head_timeout_protocol(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's protocol with a timeout for the head of a request."""

    class HeadTimeoutProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
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

    return HeadTimeoutProtocol


class _Server(uvicorn.Server):
    """A uvicorn server with callbacks for listening and stopping."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], object], listening: Callable[[], object]) -> None:
        super().__init__(config)
        self._stopping, self._listening = stopping, listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening and report it."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start a graceful shutdown; a second Ctrl-C ends it at once."""
        self._stopping()
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
