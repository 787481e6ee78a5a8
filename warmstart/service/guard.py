"""ASGI middleware: checks of host, origin, token, rate and body; security headers; request log."""

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warmstart.history_store.errors import DataError
from warmstart.service.audit import CONFLICT, REFUSED, AuditLog, outcome
from warmstart.service.auth import LOOPBACK_TOKEN, UNKNOWN_TOKEN, Token, bearer, cookie, cookie_name
from warmstart.service.core import Service
from warmstart.service.frame import sign_in_page
from warmstart.service.identity_proxy import IdentityProxy
from warmstart.service.logs import FIELDS
from warmstart.service.problems import MEDIA_TYPE, ProblemError, problem_body
from warmstart.service.settings import LOOPBACK_NAMES, PICTURES, UPLOADS

TOKEN_PATHS = ("/v1", "/metrics", "/session", "/studies", "/tables")
PAGE_PATHS = ("/studies", "/tables")
"""Pages that need a token: a browser without one is asked for it."""
OPEN_PATHS = ("/v1/healthz", "/v1/readyz", "/healthz", "/readyz")
"""Paths that need no token: they show only whether the server works."""
WRITES = ("POST", "PUT", "PATCH", "DELETE")
UPLOAD_PATH, PREDICTIONS_PATH = "/v1/descriptors:upload", "/v1/predictions"
_BODIES = {
    UPLOAD_PATH: (tuple(UPLOADS), "Pack the folder as ZIP, and send its bytes as they are"),
    PREDICTIONS_PATH: (PICTURES, "Send the bytes of the picture's file as they are"),
}
"""Content types of bodies that are not JSON, and what to do instead of others."""
_log = logging.getLogger("warmstart.service")
_ID = re.compile(r"[\w.-]{1,64}")
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"
_PAGE_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


class Guard:
    """ASGI middleware that checks, counts and logs requests.

    Attributes:
        app: the wrapped application.
        service: state of the server.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        settings = service.settings
        self.app, self.service, self._settings = app, service, settings
        self._audit_log, self._proxy = AuditLog(settings.audit_log), IdentityProxy.of(settings)
        self._rate = None if settings.rate is None else RateLimit(settings.rate)
        names = (*LOOPBACK_NAMES, settings.host) if settings.is_loopback else ()
        self._hosts = frozenset(name.lower() for name in (*names, *settings.allowed_hosts))

    def stop(self) -> None:
        """Mark the server as stopping, so that event streams end."""
        self.service.is_stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        if scope["type"] != "http":
            # Websockets are not served.
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if scope["method"] == "HEAD":
            scope, send = _as_get(scope, send)
        client_id = headers.get(b"x-request-id", b"").decode("latin-1")
        request_id = client_id if _ID.fullmatch(client_id) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"], state["token"] = request_id, UNKNOWN_TOKEN
        path, started, status = _route_path(scope, self._settings.root_path), time.monotonic(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # Before the answer, so that a kill leaves no acknowledged write without its line.
                self._audit(scope, path, status)
                message["headers"] = [*message.get("headers", ()), *self._headers(path, message, request_id)]
            await send(message)

        try:
            state["token"] = self._check_request(scope, headers, path)
            await self.app(scope, self._limit_body(receive, headers), answer)
        except ProblemError as problem:
            if not status:
                is_page = path.startswith(PAGE_PATHS) and b"text/html" in headers.get(b"accept", b"")
                if problem.status_code == 401 and is_page:
                    await _send(answer, 401, "text/html; charset=utf-8", sign_in_page(path))
                else:
                    body = problem_body(problem.status_code, problem.title, problem.detail, request_id=request_id)
                    await _send(answer, problem.status_code, MEDIA_TYPE, json.dumps(body), problem.headers)
        except Exception:
            status = status or 500
            raise
        finally:
            self._log_request(scope, path, status, time.monotonic() - started)

    def _check_request(self, scope: Scope, headers: Mapping[bytes, bytes], path: str) -> Token:
        """Check host, origin, token, rate and body, and return the token; raises `ProblemError`."""
        if path in OPEN_PATHS:
            self._check_host(headers)
            _check_origin(headers, path)
            token = LOOPBACK_TOKEN
        else:
            token = self._check_rate(scope, headers, path)
        # Only POST routes take a body.
        if scope["method"] == "POST":
            self._check_body(headers, path)
        return token

    def _check_rate(self, scope: Scope, headers: Mapping[bytes, bytes], path: str) -> Token:
        """Check host, origin and token, and count the request: a refused one for its address, another for its token."""
        address = str((scope.get("client") or ("",))[0])
        try:
            self._check_host(headers)
            _check_origin(headers, path)
            token = self._check_token(scope, headers, path)
        except ProblemError:
            self._count(address)
            raise
        self._count(address if token is LOOPBACK_TOKEN else token.name)
        return token

    def _count(self, client: str) -> None:
        """Take a request from a client's rate; raises `ProblemError` where none is left."""
        wait = 0.0 if self._rate is None else self._rate.take(client)
        if wait > 0:
            detail = f"expected at most {self._settings.rate:g} requests a second, got more. Ask again in {wait:.1f} s."
            raise ProblemError(429, "Too many requests", detail, headers={"retry-after": str(int(wait) + 1)})

    def _check_host(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse unknown host names, against DNS rebinding: a web page whose name points here sends its own host."""
        # On an open address without --allow-host any name is served.
        if not self._hosts:
            return
        host = headers.get(b"host", b"").decode("latin-1")
        name = (urlsplit(f"//{host}").hostname or "") if _is_host(host) else ""
        if name.lower() not in self._hosts:
            detail = f"expected one of {', '.join(sorted(self._hosts))} as the host, got {host[:80]!r}. Call it by one of these, or start it with --allow-host."
            raise ProblemError(403, "Unknown host", detail)

    def _check_token(self, scope: Scope, headers: Mapping[bytes, bytes], path: str) -> Token:
        """Return the token of a request, or who was signed in by the proxy; raises `ProblemError`."""
        if self.service.tokens is None or not path.startswith(TOKEN_PATHS):
            return LOOPBACK_TOKEN
        try:
            if self._proxy is not None and self._proxy.is_trusted(scope):
                if (signed_in := self._proxy.signed_in(scope)) is not None:
                    return self._check_signed_in(scope, *signed_in)
            elif self._proxy is not None and self._proxy.is_named(scope):
                scope["state"]["untrusted"] = True
            secret = bearer(headers) or cookie(headers, cookie_name(self._settings.port))
            token = None if secret is None else self.service.tokens.find(secret)
        except DataError as error:
            _log.exception("token file")
            detail = "expected a token file that can be read, got another. The server's log says more."
            raise ProblemError(503, "No tokens", detail) from error
        if token is None:
            got = "one that is not known" if secret is not None else "no token"
            if "untrusted" in scope["state"]:
                got += ", and a header of the proxy from an address that is not trusted"
            detail = f"expected a token in the header Authorization: Bearer TOKEN, got {got}. Ask who runs the server for one."
            raise ProblemError(401, "Not known", detail, headers={"www-authenticate": "Bearer"})
        return token

    def _check_signed_in(self, scope: Scope, user: str, groups: Sequence[str]) -> Token:
        """Return what a user may; raises `ProblemError` for one without a line in the token file, and `DataError`."""
        assert self.service.tokens is not None  # noqa: S101  the settings ask for it
        token = self.service.tokens.of_signed_in(user, groups)
        if token is None:
            scope["state"]["token"] = replace(UNKNOWN_TOKEN, name=f"user:{user}")
            detail = f"expected a user or a group of the token file, got {user!r}. Ask who runs the server."
            raise ProblemError(403, "Not allowed", detail)
        return token

    def _check_body(self, headers: Mapping[bytes, bytes], path: str) -> None:
        """Refuse bodies of another content type, which web pages can send anywhere, and of too large a stated length."""
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        allowed, step = _BODIES.get(path, (("application/json",), "Send it as JSON"))
        if kind not in allowed:
            detail = (
                f"expected the content type {' or '.join(allowed)}, got {repr(kind[:80]) if kind else 'none'}. {step}."
            )
            raise ProblemError(415, "Unsupported content type", detail, headers={"accept-post": ", ".join(allowed)})
        coding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
        if coding not in ("", "identity"):
            detail = f"expected a body that is not compressed, got Content-Encoding {coding[:40]!r}. Send it as it is."
            raise ProblemError(415, "Unsupported content encoding", detail, headers={"accept-encoding": "identity"})
        length = headers.get(b"content-length", b"0").decode("latin-1")
        if not length.isdecimal() or int(length) > self._max_bytes(kind):
            raise _too_large(self._max_bytes(kind))

    def _max_bytes(self, kind: str) -> int:
        if kind in PICTURES:
            return self._settings.most_picture_bytes
        return self._settings.most_upload_bytes if kind in UPLOADS else self._settings.most_bytes

    def _limit_body(self, receive: Receive, headers: Mapping[bytes, bytes]) -> Receive:
        """Wrap `receive` with limits on the bytes and the seconds of a body."""
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        most, n_bytes, complete = self._max_bytes(kind), 0, False
        until = time.monotonic() + self._settings.body_timeout_s

        async def limited() -> Message:
            nonlocal n_bytes, complete
            # After the body only a disconnect can come, at any time.
            if complete:
                return await receive()
            try:
                # A timeout of 0 would refuse even a body that has arrived.
                message = await asyncio.wait_for(receive(), max(until - time.monotonic(), 0.001))
            except TimeoutError:
                detail = (
                    f"expected the whole body within {self._settings.body_timeout_s:g} s, got a part. Send it again."
                )
                raise ProblemError(408, "Request timeout", detail, headers={"connection": "close"}) from None
            if message["type"] == "http.request":
                n_bytes += len(message.get("body", b""))
                complete = not message.get("more_body", False)
                if n_bytes > most:
                    raise _too_large(most)
            return message

        return limited

    def _headers(self, path: str, message: Message, request_id: str) -> list[tuple[bytes, bytes]]:
        """Return the security headers of a response."""
        is_page = not path.startswith("/v1")
        present = {name.lower() for name, _ in message.get("headers", ())}
        headers = {
            "x-request-id": request_id,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "content-security-policy": _PAGE_POLICY if is_page else _API_POLICY,
            "cache-control": "no-cache" if is_page or b"etag" in present else "no-store",
        }
        if self._settings.tls_cert is not None:
            headers["strict-transport-security"] = "max-age=31536000"
        return [(name.encode(), value.encode()) for name, value in headers.items() if name.encode() not in present]

    def _log_request(self, scope: Scope, path: str, status: int, seconds: float) -> None:
        """Count and log a request."""
        route = getattr(scope.get("route"), "path_format", None)
        route = "other" if route is None else "/v1" + route.removeprefix("/v1")
        method = scope["method"]
        self.service.metrics.count(
            method if method in (*WRITES, "GET", "HEAD", "OPTIONS") else "OTHER", route, status, seconds
        )
        fields = {**_about(scope, path, status), "ms": round(1000 * seconds, 1)}
        _log.info("request", extra={FIELDS: fields})

    def _audit(self, scope: Scope, path: str, status: int) -> None:
        """Write the audit line of a write that is done, or refused for lack of rights."""
        state = scope["state"]
        line: Mapping[str, Any] | None = state.get("audit") if status < 400 or status == CONFLICT else None
        if status in REFUSED and (scope["method"] in WRITES or "untrusted" in state):
            line = state.get("write", {})
        if line is not None:
            self._audit_log.write({**_about(scope, path, status), "outcome": outcome(status), **line})


def _about(scope: Scope, path: str, status: int) -> dict[str, Any]:
    """Return what the log tells of a request."""
    aside = {"untrusted_proxy_header": True} if "untrusted" in scope["state"] else {}
    return {
        "request_id": scope["state"]["request_id"],
        "method": scope["method"],
        "path": path[:200],
        "status": status,
        "who": scope["state"]["token"].name,
        "from": (scope.get("client") or ("",))[0],
        **aside,
    }


def _as_get(scope: Scope, send: Send) -> tuple[Scope, Send]:
    """Turn HEAD into GET without the body; not for event streams, which never end."""
    if scope["path"].endswith("/events"):
        return scope, send

    async def without_body(message: Message) -> None:
        await send(message if message["type"] != "http.response.body" else {**message, "body": b""})

    return {**scope, "method": "GET"}, without_body


def _route_path(scope: Scope, root_path: str) -> str:
    """Return the path without a proxy's prefix, and set the prefix for the app."""
    scope["root_path"] = root_path
    path: str = scope["path"]
    if root_path and (path == root_path or path.startswith(root_path + "/")):
        return path[len(root_path) :] or "/"
    # The proxy removed the prefix.
    if root_path:
        scope["path"] = root_path + path
    return path


def _is_host(host: str) -> bool:
    return re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?", host) is not None


def _check_origin(headers: Mapping[bytes, bytes], path: str) -> None:
    """Refuse requests from web pages of another origin, which browsers name; programs name none."""
    origin = headers.get(b"origin")
    site = headers.get(b"sec-fetch-site", b"none")
    # Others may link to a page, not load a part of one: a picture takes seconds to draw.
    is_link = headers.get(b"sec-fetch-dest", b"document") == b"document" and not path.startswith("/v1")
    crossing = site not in (b"none", b"same-origin") and not is_link
    if origin is not None:
        named, host = origin.decode("latin-1"), headers.get(b"host", b"").decode("latin-1")
        parts = named.partition("://")
        crossing = crossing or parts[0] not in ("http", "https") or parts[2].lower() != host.lower()
    if crossing:
        got = repr((origin or site).decode("latin-1")[:80])
        detail = f"expected no request from a page of another origin, got one from {got}. Use a program, or the server's own page."
        raise ProblemError(403, "Other origin", detail)


def _too_large(most: int) -> ProblemError:
    detail = f"expected a body of at most {most:,} bytes, got a larger one. Send less."
    return ProblemError(413, "Too large", detail, headers={"connection": "close"})


async def _send(send: Send, status: int, media_type: str, text: str, further: Mapping[str, str] | None = None) -> None:
    """Send a text as the response, outside of the app."""
    body = text.encode()
    headers = {"content-type": media_type, "content-length": str(len(body)), **(further or {})}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


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
