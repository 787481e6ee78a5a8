"""Several people on one server: what they may, and what is written down."""

import json
import socket
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import monotonic, sleep
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from servers import running
from starlette.testclient import TestClient

from warmstart.client import Client
from warmstart.history_store.errors import UsageError
from warmstart.service import events, studies, study_pages, webhook
from warmstart.service.app import create_app
from warmstart.service.audit import AuditLog
from warmstart.service.auth import add_token
from warmstart.service.settings import ServiceSettings

SQUARES = {"name": "squares", "space": {"x": [0.0, 1.0]}}


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def opened(tmp_path):
    file = tmp_path / "tokens"
    secrets = {name: add_token(file, name, scope) for name, scope in (("ann", "run"), ("eve", "read"))}
    app = create_app(
        ServiceSettings(storage=tmp_path / "s.db", token_file=file, audit_log=tmp_path / "audit.jsonl", most_bytes=5000)
    )
    with TestClient(app, base_url="http://127.0.0.1:8383") as client:

        def post(path, body, name):
            token = secrets.get(name, "wrong")
            return client.post(f"/v1/studies{path}", json=body, headers={"authorization": f"Bearer {token}"})

        yield post, secrets


def test_the_audit_log_tells_who_wrote_what_and_who_was_refused(opened, tmp_path):
    post, secrets = opened
    assert post("", SQUARES, "ann").status_code == 201
    assert post("", SQUARES, "ann").status_code == 200  # the same again is no write
    assert post("/squares/trials:ask", {"client": "w"}, "ann").status_code == 200
    told = "/squares/trials/0:tell"
    assert post(told, {"client": "w", "error": 0.5}, "eve").status_code == 403
    assert post(told, {"client": "w", "error": 0.5}, "stranger").status_code == 401
    assert post(told, {"client": "w", "error": "much"}, "ann").status_code == 422
    assert post(told, {"client": "w", "error": 0.5}, "ann").status_code == 200
    assert post(told, {"client": "w", "error": 0.6}, "ann").status_code == 409
    file = tmp_path / "audit.jsonl"
    names = ("who", "action", "study", "outcome", "status")
    assert [tuple(line.get(name) for name in names) for line in lines_of(file)] == [
        ("ann", "studies.begin", "squares", "accepted", 201),
        ("ann", "trials.ask", "squares", "accepted", 200),
        ("eve", "trials.tell", "squares", "refused", 403),
        ("unknown", None, None, "refused", 401),
        ("ann", "trials.tell", "squares", "accepted", 200),
        ("ann", "trials.tell", "squares", "conflict", 409),
    ]
    assert lines_of(file)[3]["path"] == "/v1/studies/squares/trials/0:tell"
    assert not any(secret in file.read_text() for secret in (*secrets.values(), "wrong"))
    assert file.stat().st_mode & 0o777 == 0o600
    file.unlink()
    file.mkdir()  # it cannot be written any more: the results still are
    post("/squares/trials:ask", {"client": "w"}, "ann")
    assert post("/squares/trials/1:tell", {"client": "w", "error": 0.5}, "ann").status_code == 200
    with pytest.raises(UsageError, match="audit_log: expected a file to append to"):
        ServiceSettings(audit_log=file)


def _write_lines(path, number):
    for i in range(300):
        AuditLog(path).write({"who": f"p{number}", "i": i, "text": "long" * 500})


def test_lines_of_several_processes_do_not_mix(tmp_path):
    file = tmp_path / "audit.jsonl"
    with ProcessPoolExecutor(3) as pool:
        list(pool.map(_write_lines, [file] * 3, range(3)))
    assert sorted((line["who"], line["i"]) for line in lines_of(file)) == [
        (f"p{k}", i) for k in range(3) for i in range(300)
    ]


def test_tokens_are_made_listed_and_revoked_while_the_server_runs(tmp_path, cli):
    file = str(tmp_path / "tokens")
    secret = cli("serve", "--new-token", "ann", "--scope", "read", "--token-file", file).out.strip()
    cli("serve", "--new-token", "bob", "--token-file", file)
    tokens = json.loads(cli("serve", "--list-tokens", "--token-file", file, "--format", "json").out)["tokens"]
    assert tokens == [{"name": "ann", "scope": "read"}, {"name": "bob", "scope": "run"}]
    with running(storage=tmp_path / "s.db", token_file=tmp_path / "tokens") as url:
        study = Client(url, token=add_token(tmp_path / "tokens", "eve", "run")).begin_study(
            "squares", space=SQUARES["space"]
        )
        study.ask()
        request = Request(f"{url}/v1/studies/squares/events", headers={"authorization": f"Bearer {secret}"})
        with urlopen(request, timeout=20) as events:
            assert b"retry" in events.readline()
            assert cli("serve", "--revoke-token", "ann", "--token-file", file).code == 0
            events.read()  # to its end
        with pytest.raises(HTTPError, match="401"):
            urlopen(request, timeout=20)


class Receiver(BaseHTTPRequestHandler):
    """A receiver of webhooks that answers with the statuses of its server, one after another, then with 200."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.received.append((self.path, body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("location", f"http://localhost:{self.server.server_port}/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.received, server.statuses = [], []
        Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


def arrived(receiver, number):
    until = monotonic() + 20
    while len(receiver.received) < number and monotonic() < until:
        sleep(0.05)
    return receiver.received


def test_a_webhook_is_told_once_when_a_study_ends_or_fails(receiver, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(webhook, "WAITS_S", (0.1, 0.1))
    receiver.statuses = [503]
    url = f"http://127.0.0.1:{receiver.server_port}/secret"
    with running(storage=tmp_path / "s.db", webhook=url) as server:
        client = Client(server)
        good = client.begin_study("good", space=SQUARES["space"])
        while (trial := good.ask(trials=2)) is not None:
            trial.tell(0.5 + trial.number)
        for _ in range(2):
            assert good.ask(trials=2) is None  # as other workers do
        (_, first), (path, again) = arrived(receiver, 2)
        assert (path, again) == ("/secret", first)
        assert {name: again[name] for name in ("event", "study", "trials")} == {
            "event": "study.ended",
            "study": "good",
            "trials": 2,
        }
        assert (again["best"]["trial"], again["best"]["value"]) == (0, 0.5)
        receiver.statuses = [307]
        bad = client.begin_study("bad", space=SQUARES["space"])
        while (trial := bad.ask(trials=1)) is not None:
            trial.tell(status="failed")
        assert [body["event"] for _, body in arrived(receiver, 3)][2:] == ["study.failed"]
    assert [path for path, _ in receiver.received] == ["/secret"] * 3  # no redirect is followed
    assert "secret" not in caplog.text


def _run_all(client, name, total):
    """Ask for the trials of a new study, and tell each, with no further request."""
    study = client.begin_study(name, space=SQUARES["space"])
    for number in range(total):
        study.ask(trials=total).tell(0.5 + number)


def _names(receiver):
    return [body["study"] for _, body in receiver.received]


def test_a_webhook_is_told_of_the_last_result_though_nobody_asks_again(receiver, tmp_path, monkeypatch):
    monkeypatch.setattr(webhook, "LOOK_S", 0.05)
    options = {"storage": tmp_path / "s.db", "webhook": f"http://127.0.0.1:{receiver.server_port}/"}
    with running(**options) as server:
        client = Client(server)
        study = client.begin_study("begun", space=SQUARES["space"])
        first, second = study.ask(trials=2), study.ask(trials=2)
        first.tell(0.5)
        _run_all(client, "short", 3)
        assert [body["trials"] for _, body in arrived(receiver, 1)] == [3]
        second.tell(0.5)
        arrived(receiver, 2)
        assert study.ask(trials=2) is None  # the same end
        study.ask(trials=3).tell(0.5)  # another one
        arrived(receiver, 3)
        study.ask().tell(0.5)  # of as many as there may be
    assert _names(receiver) == ["short", "begun", "begun"]


def test_a_webhook_is_told_of_studies_that_were_tuned_together(receiver, tmp_path, monkeypatch):
    monkeypatch.setattr(webhook, "LOOK_S", 0.05)
    names = ("left", "right")
    with running(storage=tmp_path / "s.db", webhook=f"http://127.0.0.1:{receiver.server_port}/") as server:
        both = [Client(server).begin_study(name, space=SQUARES["space"], members=names) for name in names]
        for _ in range(4):
            trial = both[0].ask(trials=4)
            assert receiver.received == []
            trial.tell(0.5)
        arrived(receiver, 2)
    assert sorted(_names(receiver)) == ["left", "right"]


def test_a_webhook_is_told_once_though_the_server_was_killed_before(receiver, tmp_path, monkeypatch):
    with running(storage=tmp_path / "s.db") as server:
        _run_all(Client(server), "left", 2)
        Client(server).begin_study("open", space=SQUARES["space"]).ask(trials=1)
    options = {"storage": tmp_path / "s.db", "webhook": f"http://127.0.0.1:{receiver.server_port}/"}
    for _ in range(2):
        with running(**options):
            arrived(receiver, 1)
            sleep(0.5)
    assert _names(receiver) == ["left"]
    receiver.received.clear()
    monkeypatch.setattr(webhook, "MISSED", timedelta(0))  # it ended long ago
    with running(storage=tmp_path / "s.db") as server:
        _run_all(Client(server), "old", 1)
    with running(**options):
        sleep(0.5)
    assert receiver.received == []


def test_a_webhook_that_hangs_delays_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(webhook, "TIMEOUT_S", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with running(storage=tmp_path / "s.db", webhook=url) as server:
            study = Client(server).begin_study("squares", space=SQUARES["space"])
            for total in (1, 2, 3):
                while (trial := study.ask(trials=total)) is not None:
                    trial.tell(0.5)
            assert study.show()["n_trials"] == 3
    with pytest.raises(UsageError, match="webhook: expected a URL"):
        ServiceSettings(webhook="file:///etc/passwd")


def test_a_token_for_projects_reaches_no_other_study(tmp_path):
    file = tmp_path / "tokens"
    boss = add_token(file, "boss", "admin")
    ann = add_token(file, "ann", "vision=admin,audio=read")
    with pytest.raises(UsageError, match="scope: expected one of read, run, admin, or PROJECT=SCOPE"):
        add_token(file, "bob", "vision=write")
    app = create_app(ServiceSettings(storage=tmp_path / "s.db", token_file=file))
    with TestClient(app, base_url="http://127.0.0.1:8383") as client:

        def status(method, path, secret, body=None):
            return client.request(
                method, path, json=body, headers={"authorization": f"Bearer {secret}"}, follow_redirects=False
            ).status_code

        for name in ("vision:a", "audio:a", "plain", "visions:a", "vision"):
            assert status("POST", "/v1/studies", boss, {**SQUARES, "name": name}) == 201
        assert status("POST", "/v1/studies", ann, {**SQUARES, "name": "vision:b"}) == 201
        for name in ("audio:b", "c", ":c"):
            assert status("POST", "/v1/studies", ann, {**SQUARES, "name": name}) == 403
        together = {**SQUARES, "name": "vision:c", "members": ["vision:c", "plain"]}
        assert status("POST", "/v1/studies", ann, together) == 403
        for name in ("vision:d", "other"):
            body = {**together, "name": name, "members": ["vision:d", "other"]}
            assert status("POST", "/v1/studies", boss, body) == 201
        assert status("POST", "/v1/studies/vision:d/trials:ask", ann, {"client": "w"}) == 403  # may be one of the other
        headers = {"authorization": f"Bearer {ann}"}
        names = [item["name"] for item in client.get("/v1/studies", headers=headers).json()["items"]]
        assert names == ["vision:a", "audio:a", "vision:b", "vision:d"]
        page = client.get("/studies", headers=headers).text
        assert ("vision:a" in page, "visions:a" in page, "plain" in page) == (True, False, False)
        # Every route of a study, those of pages too, is closed for other projects.
        routes = {
            (method, prefix + route.path)
            for part, prefix in ((studies, "/v1"), (events, "/v1"), (study_pages, ""))
            for route in part.router.routes
            if "/studies/{name}" in route.path
            for method in route.methods
        }
        assert len(routes) > 15
        for method, path in routes:
            for name in ("plain", "visions:a", "vision", "unknown:a"):
                filled = path.replace("{name}", name).replace("{number}", "0").replace("{picture}", "history")
                assert status(method, filled, ann, {} if method == "POST" else None) == 403, (method, path)
        assert status("GET", "/v1/studies/audio:a", ann) == 200
        assert status("POST", "/v1/studies/audio:a/trials:ask", ann, {"client": "w"}) == 403
        assert status("POST", "/v1/studies/vision:a/trials:ask", ann, {"client": "w"}) == 200
        assert status("DELETE", "/v1/studies/vision:b", ann) == 204
        for method, path in (("GET", "/v1/metrics"), ("POST", "/v1/history/runs")):
            assert status(method, path, ann, {} if method == "POST" else None) == 403
