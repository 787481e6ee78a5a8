"""Connections to a server: kept, opened anew, and never shared with a forked child."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from warmstart.history_store.errors import StorageError
from warmstart.service.transport import Transport

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


@contextlib.contextmanager
def answering(*answers: int, first: bytes = ANSWER) -> Iterator[tuple[str, list[int]]]:
    """Serve on a free port: of each connection in turn, answer so many requests, then close it.

    The answers of the first connection may be others.

    Gives the URL, and the number of requests that each connection got.
    """
    got: list[int] = []

    def serve(listening: socket.socket) -> None:
        for number in answers:
            answer = ANSWER if got else first
            connection, _ = listening.accept()
            got.append(0)
            with connection:
                connection.settimeout(200)
                while got[-1] < number and connection.recv(65536):
                    got[-1] += 1
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(200)
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", got
        thread.join(200)


def test_a_connection_that_the_server_has_closed_is_opened_again() -> None:
    slept: list[float] = []
    with answering(2, 1, 1) as (url, got):
        client = Transport(url, retries=0, sleep=slept.append)
        assert [client.get("/a"), client.get("/a"), client.get("/a"), client.post("/a", {})] == [{}] * 4
        client.close()
    assert (got, slept) == ([2, 1, 1], [])


@pytest.mark.parametrize("n_bytes", [1, 2])
def test_an_answer_without_its_end_is_asked_for_again(n_bytes: int) -> None:
    with answering(1, 1, first=ANSWER[:-n_bytes]) as (url, got):
        client = Transport(url, retries=1, sleep=lambda _: None)
        assert client.post("/a", {}) == {}
        client.close()
    assert got == [1, 1]


def test_it_is_opened_again_once() -> None:
    with answering(1, 0) as (url, got):
        client = Transport(url, retries=0)
        client.get("/a")
        with pytest.raises(StorageError, match="expected a server that answers"):
            client.get("/a")
    assert got == [1, 0]


def test_a_forked_child_opens_a_connection_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(3, 1) as (url, got):
        client = Transport(url, retries=0)
        client.get("/a")
        client.get("/a")
        monkeypatch.setattr(os, "getpid", lambda: -1)
        client.get("/a")
        client.close()
    assert got == [2, 1]
