"""The server process: a socket, uvicorn, and an end that lets requests under way finish."""

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
    """Serve until a signal ends it.

    Args:
        settings: of the server.
        on_message: called with the URL once it listens.

    Raises:
        UsageError: an address that cannot be listened on.
        WarmstartError: a token file that is none.
    """
    with listen(settings) as listening:
        make_server(settings, listening, on_message=on_message).run(sockets=[listening])


def make_server(
    settings: ServiceSettings, listening: socket.socket, *, on_message: Callable[[str], object] = lambda _: None
) -> uvicorn.Server:
    """Make the server of a socket that listens; it ends when its `should_exit` is true."""
    app = create_app(settings)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    kind = "http" if settings.tls_cert is None else "https"
    config = uvicorn.Config(
        app,
        http=_patience(settings.body_timeout_s),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who asks is who connects; a proxy's word is not taken
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(settings.grace_s)),
        ws="none",
        lifespan="on",
    )
    return _Server(config, app.stop, lambda: on_message(f"{kind}://{shown}:{port}{settings.root_path}"))


def _patience(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's protocol with an end to it where the head of a request does not arrive in time."""

    class Patience(H11Protocol):
        _impatience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Wait for a head from its first byte on; its body is the app's to wait for."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._unwatch()
            elif self._impatience is None:
                self._impatience = self.loop.call_later(seconds, self.transport.close)

        def _unwatch(self) -> None:
            if self._impatience is not None:
                self._impatience.cancel()
                self._impatience = None

    return Patience


class _Server(uvicorn.Server):
    """Tells when it listens, and that it stops."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], object], listening: Callable[[], object]) -> None:
        super().__init__(config)
        self._stopping, self._listening = stopping, listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop: what is under way is finished, a second Ctrl-C ends it at once."""
        self._stopping()
        super().handle_exit(sig, frame)
        if sig == signal.SIGTERM:
            self._captured_signals.clear()  # a wanted end: exit code 0


def listen(settings: ServiceSettings) -> socket.socket:
    """Take the address.

    Raises:
        UsageError: it is not free, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host.strip("[]"), settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        msg = f"expected an address that is free, got {settings.host}:{settings.port} ({error.strerror or error}). Choose another with `port`; 0 takes any."
        raise UsageError(msg, param="port") from error
