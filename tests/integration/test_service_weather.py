"""A server in bad weather: slow clients, uploads that stop, a full disk, a history that goes and comes back, kills."""

import importlib.util
import json
import shutil
import socket
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from stripes import pictures

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from database_servers import Postgres
from servers import running
from service_weather import Setting, run
from sqlalchemy import event
from starlette.testclient import TestClient

from warmstart.client import Client
from warmstart.history_store.errors import StorageError
from warmstart.history_store.history import History
from warmstart.service.app import create_app
from warmstart.service.settings import ServiceSettings
from warmstart.suggestions.advisor import Advisor

FAST = {"space": {"x": [0.0, 1.0], "n": {"int": [1, 4]}}, "surrogate": "gp-map", "startup": 20}
POST = b"POST /v1/studies HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"


@contextmanager
def wire(url, sent):
    """Send bytes to a server, and nothing more."""
    host, _, port = url.partition("//")[2].partition(":")
    with socket.create_connection((host, int(port)), timeout=200) as made:
        made.sendall(sent)
        yield made


def test_who_sends_too_slowly_is_let_go(tmp_path):
    with running(storage=tmp_path / "s.db", body_timeout_s=1.0) as url:
        with wire(url, POST + b"\r\n{") as slow:
            answer = b"".join(iter(lambda: slow.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"expected the whole body within 1 s, got a part" in answer
        with wire(url, POST) as slow:
            while slow.recv(65536):
                pass  # until the server closes it
        with urllib.request.urlopen(f"{url}/v1/healthz") as answer:
            assert answer.status == 200


def test_an_upload_that_stops_leaves_nothing(tiny, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    head = (
        b"POST /v1/descriptors:upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/zip\r\n"
        b"Content-Length: 1000000\r\n\r\n"
    )
    with running(history=tiny.history, model=tiny.model, body_timeout_s=3.0) as url:
        with wire(url, head + b"PK" * 1000):
            until = time.monotonic() + 200
            while not list(tmp_path.iterdir()) and time.monotonic() < until:
                time.sleep(0.01)
        with wire(url, head + b"PK" * 1000) as waiting:
            assert waiting.recv(100).startswith(b"HTTP/1.1 408 ")
        until = time.monotonic() + 200
        while list(tmp_path.iterdir()) and time.monotonic() < until:
            time.sleep(0.01)
        assert list(tmp_path.iterdir()) == []
    assert not [record.message for record in caplog.records if record.levelname == "ERROR"]


def test_a_full_disk_loses_nothing_told(tmp_path, monkeypatch):
    app = create_app(ServiceSettings(storage=tmp_path / "s.db"))
    with TestClient(app, base_url="http://127.0.0.1:8383") as client:
        assert client.post("/v1/studies", json={"name": "a", **FAST}).status_code == 201
        trial = client.post("/v1/studies/a/trials:ask", json={"client": "w"}).json()["trials"][0]["number"]
        with app.service.studies.store() as store:

            @event.listens_for(store.optuna._backend.engine, "checkout")
            def _fill(connection, _record, _proxy):
                connection.execute("PRAGMA max_page_count = 1")  # SQLite takes that for "no more than it has"

        told = {"client": "w", "error": 0.5, "note": "n" * 1000, "curve": [[i, 0.5] for i in range(5000)]}
        path = f"/v1/studies/a/trials/{trial}:tell"
        refused = client.post(path, json=told)
        assert (refused.status_code, refused.json()["title"]) == (507, "StorageFullError")
        assert "expected room on the disk" in refused.json()["detail"]
        assert client.post(path, json=told).json()["error"] == 0.5  # opened anew: there is room again
        monkeypatch.setattr("pathlib.Path.open", _full)
        upload = client.post("/v1/descriptors:upload", content=b"PK", headers={"content-type": "application/zip"})
        assert (upload.status_code, upload.json()["title"]) == (507, "StorageFullError")


def _full(*_given, **_more):
    raise OSError(28, "No space left on device")


def test_a_history_replaced_under_way(tiny, tmp_path):
    path, other = tmp_path / "h.h5", tmp_path / "other.h5"
    for place in (path, other):
        shutil.copy(tiny.history, place)
    with History.open(other, write=True) as history:
        history.append(replace(next(iter(history.evaluations("stripes0"))), seed=9))
    counts = []
    for place in (path, other):
        with History.open(place) as history:
            counts.append(history.n_evaluations)
    told, over, answers = Advisor(tiny.history, tiny.model, cache=False).describe(pictures(1)), threading.Event(), []
    with running(history=path, model=tiny.model) as url:

        def ask():
            with Client(url, advisor=Advisor(model=tiny.model, cache=False), retries=0) as client:
                while not over.is_set():
                    near = client.neighbours(told.descriptor, 1).neighbours[0].name
                    answers.append((near, client.transport.get("/history")["n_evaluations"]))

        thread = threading.Thread(target=ask)
        thread.start()
        for i in range(20):
            shutil.copy((other, tiny.history)[i % 2], tmp_path / "new.h5")
            (tmp_path / "new.h5").replace(path)
            time.sleep(0.05)
        until = time.monotonic() + 200
        while len(answers) < 3 and time.monotonic() < until and thread.is_alive():
            time.sleep(0.01)
        over.set()
        thread.join()
        assert {near for near, _ in answers} == {"stripes1"}
        assert {count for _, count in answers} <= set(counts)
        path.unlink()
        with Client(url, retries=0) as client:
            with pytest.raises(StorageError, match="history"):
                client.transport.get("/readyz")
            shutil.copy(other, path)
            assert client.transport.get("/readyz") == {"status": "ready"}
            assert client.transport.get("/history")["n_evaluations"] == counts[1]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("storage", ["sqlite", "postgresql"])
def test_kills_with_a_write_open(storage):
    if storage == "postgresql" and (reason := Postgres.missing()) is not None:
        pytest.skip(reason)
    if importlib.util.find_spec("fcntl") is None or shutil.which("taskset") is None:
        pytest.skip("taskset is not installed")
    setting = Setting(
        storage=storage, studies=3, clients=6, trials=6, kills=3, servers=2, surrogate="random", seed=0
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="weather") as place:
        folder = Path(place)
        folder.chmod(0o755)  # the database is another user's
        found = run(setting, folder / "work")
        assert (found["faults"], found["first faults"]) == (0, [])
        assert found["kills with a write open"] == 3
        assert found["answers"]["tell"] == 18
        again = run(setting, folder / "work")  # there is nothing left to do
        assert (again["faults"], again["answers"]["tell"]) == (0, 18)
        json.dumps(again)
