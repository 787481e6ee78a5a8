"""Requests to a server, repeated where that is safe; no web framework, no proxy, no redirect."""

import json
import os
import random
import ssl
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from importlib.metadata import version
from typing import Any
from urllib.parse import quote, urlsplit

from warmstart.history_store import errors
from warmstart.history_store.errors import DataError, StorageError, UsageError, WarmstartError
from warmstart.history_store.json_text import parse_json

TOKEN_VARIABLE = "WARMSTART_TOKEN"  # noqa: S105  the name of the variable, not its value
RETRIED = (408, 423, 429, 502, 503, 504)
"""Statuses after which the same request may go well."""
LONGEST_WAIT_S = 10.0
PART = 1000
"""Items of a list that are asked for at a time."""
MOST_ANSWER_BYTES = 200_000_000


@dataclass(slots=True, weakref_slot=True)
class Transport:
    """A connection to one server for each thread of each process that asks; closed once nobody uses it, or Python ends.

    Attributes:
        url: ``http://HOST:PORT`` or ``https://...``, with the prefix of a proxy where there is one.
        token: that the server asks for; None = none.
        timeout: seconds without an answer.
        retries: how often a request is repeated.
        ca_file: PEM file of the authority to trust instead of the system's.
    """

    url: str
    token: str | None = None
    timeout: float = 60.0
    retries: int = 5
    ca_file: str | None = None
    sleep: Callable[[float], object] = time.sleep
    _local: threading.local = field(default_factory=threading.local)
    _open: set[HTTPConnection] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Check the URL.

        Raises:
            UsageError: it is none of http or https.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            msg = f"expected a URL like http://127.0.0.1:8383, got {self.url!r}. `warmstart serve` shows its own."
            raise UsageError(msg, param="server")
        self.url = self.url.rstrip("/")
        if self.token is None:
            self.token = os.environ.get(TOKEN_VARIABLE) or None
        weakref.finalize(self, _close, self._open)

    def get(self, path: str, query: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Ask for what is there; raises as `post`."""
        pairs = [f"{quote(name)}={quote(str(value))}" for name, value in (query or {}).items() if value is not None]
        return self._request("GET", path + ("?" + "&".join(pairs) if pairs else ""), None, None)

    def list_all(self, path: str) -> list[dict[str, Any]]:
        """Ask for all items of a list, part by part; raises as `post`."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            part = self.get(path, {"limit": PART, "cursor": cursor})
            found += part["items"]
            if (cursor := part["next"]) is None:
                return found

    def post(
        self, path: str, body: Mapping[str, Any], *, key: str | None = None, retries: int | None = None
    ) -> dict[str, Any]:
        """Send a body, again under the same key until there is an answer or the retries are spent.

        Args:
            path: below ``/v1``, e.g. ``/suggestions``.
            body: JSON types, or numbers of numpy and torch.
            key: by which the server knows the request again; made when left out.
            retries: instead of those of the connection.

        Raises:
            UsageError: a body that JSON cannot hold, a refused call or token, a state that it does not fit.
            DataError: a body that cannot be used.
            StorageError: no server there, or one that cannot answer.
        """
        return self._request("POST", path, _json(body), key or uuid.uuid4().hex, retries)

    def _request(
        self, method: str, path: str, body: bytes | None, key: str | None, retries: int | None = None
    ) -> dict[str, Any]:
        failure: WarmstartError | None = None
        retries = self.retries if retries is None else retries
        for attempt in range(retries + 1):
            try:
                response, content = self._once(method, path, body, key)
            except (OSError, HTTPException) as error:
                self._forget()
                if isinstance(error, ssl.SSLCertVerificationError):
                    msg = f"{self.url}: expected a certificate that is trusted, got: {error.verify_message}. Name its authority with `ca_file`, or the file in $SSL_CERT_FILE."
                    raise StorageError(msg) from error
                said = str(error) or type(error).__name__
                failure = StorageError(
                    f"{self.url}: expected a server that answers, got: {said}. Check the URL, and that `warmstart serve` runs there."
                )
                wait = 0.0
            else:
                if response.status < 300:
                    return _document(content, self.url)
                failure = _failure(response.status, content, self.url)
                if response.status not in RETRIED:
                    raise failure
                wait = _seconds(response.getheader("retry-after"))
            if attempt < retries:
                backoff = 0.2 * 2**attempt * (0.5 + random.random())  # noqa: S311  spread, no secret
                self.sleep(min(LONGEST_WAIT_S, max(wait, backoff)))
        assert failure is not None  # noqa: S101  no attempt went well
        raise failure

    def _once(self, method: str, path: str, body: bytes | None, key: str | None) -> tuple[HTTPResponse, bytes]:
        """Send a request; again on a new connection where the server has closed the one that was open, which is no failure."""
        is_kept = self._connection().sock is not None
        try:
            return self._exchange(method, path, body, key)
        except (ConnectionError, HTTPException):
            if not is_kept:
                raise
            self._forget()
            return self._exchange(method, path, body, key)

    def _exchange(self, method: str, path: str, body: bytes | None, key: str | None) -> tuple[HTTPResponse, bytes]:
        connection = self._connection()
        headers = {"Accept": "application/json", "User-Agent": f"warmstart/{version('warmstart')}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        connection.request(method, urlsplit(self.url).path + "/v1" + path, body, headers)
        response = connection.getresponse()
        content = response.read(MOST_ANSWER_BYTES)
        if response.will_close:
            self._forget()
        return response, content

    def _connection(self) -> HTTPConnection:
        if getattr(self._local, "pid", None) != os.getpid():  # after a fork the connection is the parent's
            self._forget()
        found: HTTPConnection | None = getattr(self._local, "connection", None)
        if found is None:
            parts = urlsplit(self.url)
            host = parts.hostname or ""
            if parts.scheme == "https":
                context = ssl.create_default_context(cafile=self.ca_file)
                found = HTTPSConnection(host, parts.port, timeout=self.timeout, context=context)
            else:
                found = HTTPConnection(host, parts.port, timeout=self.timeout)
            self._local.connection, self._local.pid = found, os.getpid()
            self._open.add(found)
        return found

    def _forget(self) -> None:
        found: HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if found is not None:
            found.close()
            self._open.discard(found)

    def close_own(self) -> None:
        """Close the connection of this thread, which is about to end."""
        self._forget()

    def close(self) -> None:
        """Close the connections of all threads; a later request opens another."""
        _close(self._open)
        self._local = threading.local()


def segment(name: str) -> str:
    """Write a name as one segment of a path."""
    return quote(name, safe="")


def _close(connections: set[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError) as error:
        msg = f"expected texts, truth values and finite numbers, which JSON has, got others ({error}). Correct what is sent."
        raise UsageError(msg) from error


def _plain(value: object) -> object:
    """Return a number of numpy or torch as Python has it; raises as `json.dumps` for whatever is none."""
    item = getattr(value, "item", None)
    if item is None:
        msg = f"{type(value).__name__} is not JSON serializable"
        raise TypeError(msg)
    return item()


def _document(content: bytes, url: str) -> dict[str, Any]:
    try:
        found = parse_json(content)
    except ValueError as error:
        msg = f"{url}: expected JSON from `warmstart serve`, got something else. Check the URL."
        raise StorageError(msg) from error
    return found if isinstance(found, dict) else {"items": found}


def _failure(status: int, content: bytes, url: str) -> WarmstartError:
    """Make the error that a problem tells of: the same class as on the server, where that is one of ours."""
    try:
        problem = parse_json(content)
        detail, title, pointer = str(problem["detail"]), str(problem["title"]), problem.get("pointer")
    except (ValueError, KeyError, TypeError):
        detail, title, pointer = f"expected an answer, got status {status}. Is that `warmstart serve`?", "", None
    params = (str(pointer).strip("/"),) if pointer else ()
    named = getattr(errors, title, None)
    if isinstance(named, type) and issubclass(named, WarmstartError) and named is not errors.BrokenImagesError:
        return named(detail, param=params)
    if title == "UnknownExtractorError":
        return DataError(f"{url}: {detail}")
    if status in (401, 403):
        return UsageError(f"{url}: {detail} The client reads it from ${TOKEN_VARIABLE}, or takes `token`.")
    kind = DataError if status == 422 else UsageError if status < 500 and status not in RETRIED else StorageError
    return kind(f"{url}: {detail}", param=params if kind is UsageError else ())


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() else 0.0
