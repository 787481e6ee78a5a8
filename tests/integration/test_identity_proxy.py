"""People whom a proxy signs in: what its headers may do, from where, and what is written down."""

import contextlib
import json
import re
import shutil
import socket
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

import httpx
from servers import running
from starlette.testclient import TestClient

from warmstart.history_store.errors import DataError, UsageError
from warmstart.service.app import create_app
from warmstart.service.auth import add_token, read_tokens, remove_token
from warmstart.service.settings import ServiceSettings

SPACE = {"x": [0.0, 1.0]}
USER, GROUPS = "X-Forwarded-Email", "X-Forwarded-Groups"


class Behind:
    """A server behind a proxy, called from any address."""

    def __init__(self, folder, networks):
        self.tokens, self.log = folder / "tokens", folder / "audit.jsonl"
        for name, scope in (
            ("user:ann@example.org", "vision=run"),
            ("user:eve+1@example.org", "read"),
            ("group:/teams/audio", "audio=admin"),
            ("group:operators", "admin"),
        ):
            assert add_token(self.tokens, name, scope) == ""
        self.secret = add_token(self.tokens, "script", "run")
        self.app = create_app(
            ServiceSettings(
                storage=folder / "s.db",
                token_file=self.tokens,
                audit_log=self.log,
                trust_proxy=networks,
                proxy_header=USER,
                proxy_groups_header=GROUPS,
            )
        )

    def get(self, headers, *, address="10.0.0.7", path="/v1/studies", body=None):
        client = TestClient(self.app, base_url="http://127.0.0.1:8383", client=(address, 50000))
        return client.request("GET" if body is None else "POST", path, json=body, headers=headers)

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def behind(tmp_path):
    return Behind(tmp_path, ("10.0.0.7", "192.168.0.0/24,::1", "::ffff:172.16.0.0/108"))


def begin(name):
    return {"name": name, "space": SPACE}


def test_users_and_groups_have_the_rights_of_their_lines(behind):
    ann = {USER: "ann@example.org"}
    assert behind.get(ann, body=begin("vision:a")).status_code == 201
    assert behind.get(ann, body=begin("audio:a")).status_code == 403
    both = {**ann, GROUPS: "everybody, /teams/audio"}
    assert behind.get(both, body=begin("audio:a")).status_code == 201
    assert behind.get(both, body=begin("vision:b")).status_code == 201
    assert behind.get(both, body=begin("plain")).status_code == 403
    assert behind.get(both, path="/v1/metrics").status_code == 403
    assert behind.get({USER: "joe", GROUPS: "operators"}, path="/v1/metrics").status_code == 200
    assert behind.get({USER: "eve+1@example.org"}, body=begin("plain")).status_code == 403
    refused = behind.get({USER: "joe"})
    assert refused.status_code == 403
    assert "expected a user or a group of the token file, got 'joe'" in refused.json()["detail"]
    # Neither a token's name nor a group's is a user.
    for name in ("script", "operators", "user:ann@example.org"):
        assert behind.get({USER: name}).status_code == 403, name
    told = [(line["who"], line["study"], line["outcome"]) for line in behind.lines()]
    assert told == [
        ("user:ann@example.org", "vision:a", "accepted"),
        ("user:ann@example.org", "audio:a", "refused"),
        ("user:ann@example.org", "audio:a", "accepted"),
        ("user:ann@example.org", "vision:b", "accepted"),
        ("user:ann@example.org", "plain", "refused"),
        ("user:eve+1@example.org", "plain", "refused"),
    ]


def test_a_trial_is_for_who_asked_and_a_revoked_user_is_refused(behind):
    same_name = add_token(behind.tokens, "ann@example.org", "run")
    ann, joe = {USER: "ann@example.org"}, {USER: "joe", GROUPS: "operators"}
    behind.get(ann, body=begin("vision:a"))
    assert behind.get(ann, path="/v1/studies/vision:a/trials:ask", body={"client": "w"}).status_code == 200
    tell = {"path": "/v1/studies/vision:a/trials/0:tell", "body": {"client": "w", "error": 0.5}}
    assert behind.get({"authorization": f"Bearer {same_name}"}, **tell).status_code == 403
    assert "user:ann@example.org" in behind.get(joe, path="/studies").text
    assert behind.get(ann, **tell).status_code == 200
    remove_token(behind.tokens, "user:ann@example.org")
    assert behind.get(ann).status_code == 403


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "::ffff:10.0.0.7", "192.168.0.200", "::1", "0:0:0:0:0:0:0:1", "172.16.3.4"]
)
def test_headers_of_the_proxy_are_believed(behind, address):
    assert behind.get({USER.upper(): "ann@example.org"}, address=address).status_code == 200


@pytest.mark.parametrize(
    "address", ["10.0.0.8", "::ffff:10.0.0.8", "192.168.1.1", "fe80::1", "::2", "172.32.0.1", "unix", "", "testclient"]
)
def test_headers_of_others_are_not(behind, address):
    """Refused with a sentence and a line; a token counts, whatever the headers say."""
    admin = {USER: "joe", GROUPS: "operators"}
    for headers in (admin, {GROUPS: "operators"}, {**admin, "authorization": "Bearer wrong"}):
        refused = behind.get(headers, address=address)
        assert refused.status_code == 401
        assert "a header of the proxy from an address that is not trusted" in refused.json()["detail"]
    assert behind.get({}, address=address).status_code == 401
    lines = behind.lines()
    assert [(line["who"], line["from"], line["untrusted_proxy_header"]) for line in lines] == [
        ("unknown", address, True)
    ] * 3
    token = {"authorization": f"Bearer {behind.secret}"}
    assert behind.get({**token, **admin}, address=address, body=begin("plain")).status_code == 201
    assert behind.get({**token, **admin}, address=address, path="/v1/metrics").status_code == 403
    line = behind.lines()[-1]
    assert (line["who"], line["untrusted_proxy_header"]) == ("script", True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"client": None}, "from an address that is not trusted"),  # of a Unix socket
        ({"headers": [(b"host", b"127.0.0.1"), (USER.lower().encode(), b"ann\xff")]}, "in UTF-8, got other bytes"),
    ],
)
def test_what_no_client_of_tests_sends(behind, change, sentence):
    async def changed(scope, receive, send):
        await behind.app({**scope, **change}, receive, send)

    client = TestClient(changed, base_url="http://127.0.0.1:8383", client=("10.0.0.7", 50000))
    refused = client.get("/v1/studies", headers={USER: "ann@example.org"})
    assert refused.status_code == 401
    assert sentence in refused.json()["detail"]


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        (
            [(USER, "ann@example.org"), (USER.lower(), "joe")],
            "expected the header x-forwarded-email once, got it 2 times",
        ),
        ([(USER, "joe"), (GROUPS, "a"), (GROUPS, "operators")], "x-forwarded-groups once"),
        ([(USER, "ann@example.org, joe")], "as a name without spaces and commas"),
        ([(USER, "a" * 200)], "as a name without spaces and commas"),
        ([(GROUPS, "operators")], "got no token"),
        ([(USER, ""), (GROUPS, "operators")], "got no token"),
        ([(USER.replace("-", "_"), "ann@example.org")], "got no token"),
        ([(f"{USER}-2", "ann@example.org")], "got no token"),
    ],
)
def test_odd_headers_of_the_proxy_let_nobody_in(behind, headers, sentence):
    refused = behind.get(headers)
    assert refused.status_code == 401
    assert sentence in refused.json()["detail"]


def test_a_token_works_through_the_proxy(behind):
    token = {"authorization": f"Bearer {behind.secret}"}
    assert behind.get(token, body=begin("plain")).status_code == 201
    # Who is signed in is not somebody else by a token of the identity provider.
    assert behind.get({USER: "ann@example.org", "authorization": "Bearer eyJ"}).status_code == 200


def test_without_a_proxy_its_headers_mean_nothing(behind):
    app = create_app(ServiceSettings(token_file=behind.tokens, storage=behind.tokens.with_name("s.db")))
    client = TestClient(app, base_url="http://127.0.0.1:8383", client=("127.0.0.1", 50000))
    assert client.get("/v1/studies", headers={USER: "joe", GROUPS: "operators"}).status_code == 401


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"trust_proxy": ("10.0.0.7",)}, "trust_proxy needs `proxy_header`"),
        ({"trust_proxy": ("10.0.0.7",), "proxy_header": USER, "token_file": None}, "trust_proxy needs `token_file`"),
        ({"proxy_header": USER}, "proxy_header needs `trust_proxy`"),
        ({"proxy_groups_header": USER}, "proxy_groups_header needs `trust_proxy`"),
        ({"trust_proxy": ("10.0.0.7",), "proxy_header": "X Email"}, "proxy_header: expected the name of a header"),
        (
            {"trust_proxy": ("10.0.0.7",), "proxy_header": USER, "proxy_groups_header": USER.upper()},
            "proxy_groups_header: expected another header",
        ),
        *(
            ({"trust_proxy": (text,), "proxy_header": USER}, "trust_proxy: expected an address")
            for text in ("proxy", "10.0.0.7/8", "0.0.0.0/0", "::/0", "::ffff:0:0/96", "10.0.0.7,", "10.0.0.7:80", "")
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, options, sentence):
    add_token(tmp_path / "tokens", "user:ann", "run")
    with pytest.raises(UsageError, match=sentence):
        ServiceSettings(**{"token_file": tmp_path / "tokens", **options})


def test_lines_of_users_are_made_checked_and_listed_by_commands(tmp_path, cli):
    file = tmp_path / "tokens"
    at = ("--token-file", str(file))
    assert cli("serve", "--new-token", "group:operators", "--scope", "admin", *at).out == ""
    assert cli("serve", "--new-token", "user:ann@example.org", "--scope", "vision=run", *at).code == 0
    assert file.read_text().splitlines()[1:] == ["group:operators admin proxy", "user:ann@example.org vision=run proxy"]
    check = ("serve", "--check-config", "--storage", str(tmp_path / "s.db"), "--proxy-header", USER, *at)
    parts = json.loads(cli(*check, "--trust-proxy", "127.0.0.1", "--format", "json").out)
    assert parts["proxy"] == "127.0.0.1: 2 lines of users and groups"
    assert cli(*check, "--trust-proxy", "proxy").code == 2
    assert cli("serve", "--revoke-token", "group:operators", *at).code == 0
    assert [token.name for token in read_tokens(file)] == ["user:ann@example.org"]
    for name in ("user:", "user:a b", "role:a", "user:" + "a" * 129):
        with pytest.raises(UsageError, match="new_token: expected a name"):
            add_token(file, name, "run")
    for line in ("ann run proxy", "user:ann run", f"user:ann run sha256:{'0' * 64}", "user:ann all proxy"):
        file.write_text(line)
        with pytest.raises(DataError, match="or user:NAME SCOPE proxy, got another text"):
            read_tokens(file)


class SignIn(BaseHTTPRequestHandler):
    """As oauth2-proxy answers nginx: who has a session is named, others are asked to sign in."""

    def do_GET(self):
        user = re.search(r"session=(\S+)", self.headers.get("cookie", ""))
        self.send_response(200 if self.path == "/oauth2/sign_in" else 202 if user else 401)
        if user:
            self.send_header("X-Auth-Request-Email", user[1])
            self.send_header("X-Auth-Request-Groups", "everybody,vision")
        self.end_headers()
        self.wfile.write(b"sign in" if self.path == "/oauth2/sign_in" else b"")

    def log_message(self, *_):
        pass


@pytest.fixture
def behind_nginx(tmp_path):
    """A server behind nginx with the file of deploy/; gives its URL."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/opt/homebrew/bin")
    if program is None:
        pytest.skip("nginx is not installed here")
    tokens = tmp_path / "tokens"
    add_token(tokens, "group:vision", "vision=run")
    proxy = {"trust_proxy": ("127.0.0.1",), "proxy_header": USER, "proxy_groups_header": GROUPS}
    hosts = ("warmstart.example.org",)
    with (
        socket.create_server(("127.0.0.1", 0)) as free,
        ThreadingHTTPServer(("127.0.0.1", 0), SignIn) as sign_in,
        running(storage=tmp_path / "s.db", token_file=tokens, allowed_hosts=hosts, **proxy) as server,
    ):
        Thread(target=sign_in.serve_forever, daemon=True).start()
        port = free.getsockname()[1]
        free.close()
        text = (Path(__file__).parents[2] / "deploy" / "nginx.conf").read_text()
        text = re.sub(r"    ssl_.*\n", "", text).replace("443 ssl", f"127.0.0.1:{port}")
        text = text.replace("127.0.0.1:4180", f"127.0.0.1:{sign_in.server_port}").replace(
            "http://127.0.0.1:8383", server
        )
        file = tmp_path / "nginx.conf"
        paths = " ".join(
            f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        file.write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}\n"
            f"http {{ access_log off; {paths}\n{text} }}"
        )
        nginx = subprocess.Popen([program, "-p", str(tmp_path), "-c", str(file)], stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert nginx.poll() is None, (tmp_path / "log").read_text()
                sleep(0.1)
            yield f"http://127.0.0.1:{port}", add_token(tokens, "script", "admin")
        finally:
            nginx.terminate()
            nginx.wait()
            sign_in.shutdown()


def test_the_file_for_nginx_lets_people_and_tokens_in(behind_nginx):
    url, secret = behind_nginx
    forged = {"host": "warmstart.example.org", USER: "joe", GROUPS: "operators"}
    session, token = {"cookie": "session=ann@example.org"}, {"authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=url, headers={"host": "warmstart.example.org"}) as client:
        assert client.get("/studies").text == "sign in"
        assert client.get("/oauth2/auth").status_code == 404  # nginx's own
        assert client.post("/v1/studies", json=begin("vision:a"), headers=session).status_code == 201
        assert client.post("/v1/studies", json=begin("plain"), headers={**forged, **session}).status_code == 403
        assert "user:ann@example.org" in client.get("/studies", headers={**forged, **session}).text
        assert client.get("/studies", headers=forged).text == "sign in"
        assert client.get("/v1/studies", headers={**forged, "authorization": "Bearer wrong"}).status_code == 401
        assert client.post("/v1/studies", json=begin("plain"), headers={**forged, **token}).status_code == 201
