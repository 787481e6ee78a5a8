"""Servers of `warmstart serve` for tests, in a thread, and a wire between that remembers what was sent."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@contextlib.contextmanager
def running(**settings: Any) -> Iterator[str]:
    """Serve on a free port of this machine; gives the URL."""
    from warmstart.service.server import listen, make_server
    from warmstart.service.settings import ServiceSettings

    known = ServiceSettings(**{"port": 0, "grace_s": 1.0, **settings})
    with listen(known) as listening:
        server = make_server(known, listening)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            kind = "http" if known.tls_cert is None else "https"
            yield f"{kind}://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(200)


@dataclass
class Wire:
    """A relay to a server; all that clients sent is in `sent`."""

    target: int
    sent: bytearray = field(default_factory=bytearray)

    @contextlib.contextmanager
    def open(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(0.1)
            over = threading.Event()
            thread = threading.Thread(target=self._accept, args=(listening, over))
            thread.start()
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                over.set()
                thread.join(200)

    def _accept(self, listening: socket.socket, over: threading.Event) -> None:
        threads = []
        while not over.is_set():
            try:
                client, _ = listening.accept()
            except TimeoutError:
                continue
            server = socket.create_connection(("127.0.0.1", self.target))
            for source, sink, kept in ((client, server, self.sent), (server, client, bytearray())):
                threads.append(threading.Thread(target=_relay, args=(source, sink, kept, over)))
                threads[-1].start()
        for thread in threads:
            thread.join(200)


def _relay(source: socket.socket, sink: socket.socket, kept: bytearray, over: threading.Event) -> None:
    source.settimeout(0.1)
    with source, contextlib.suppress(OSError):
        while not over.is_set():
            try:
                data = source.recv(65536)
            except TimeoutError:
                continue
            if not data:
                break
            kept += data
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
