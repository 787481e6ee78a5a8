"""HTTP client of a server: retries where that is safe, no proxy, no redirect."""

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
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from importlib.metadata import version
from typing import Any
from urllib.parse import quote, urlsplit

from warmstart.history_store import errors
from warmstart.history_store.errors import DataError, StorageError, UsageError, WarmstartError
from warmstart.history_store.json_text import parse_strict_json
from warmstart.service.shapes import LIST, check_shape

TOKEN_VARIABLE = "WARMSTART_TOKEN"  # noqa: S105  the name of the variable, not its value
RETRIED = (408, 423, 429, 502, 503, 504)
"""Statuses after which the same request may succeed."""
LONGEST_WAIT_S = 10.0
PART = 1000
"""Items per page of a list."""
MOST_ANSWER_BYTES = 200_000_000


@dataclass(slots=True, weakref_slot=True)
class Transport:
    """Connections to one server, one per thread and process; closed with the object or at exit.

    Attributes:
        url: ``http://HOST:PORT`` or ``https://...``, with the prefix of a proxy, if any.
        token: for the server; None = none.
        timeout: seconds without a response.
        retries: most repeats of a request.
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
            UsageError: not a URL of http or https.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            msg = f"expected a URL like http://127.0.0.1:8383, got {self.url!r}. `warmstart serve` shows its own."
            raise UsageError(msg, param="server")
        self.url = self.url.rstrip("/")
        if self.token is None:
            self.token = os.environ.get(TOKEN_VARIABLE) or None
        weakref.finalize(self, _close, self._open)

    def get(self, path: str, query: Mapping[str, object] | None = None, *, shape: Any = dict) -> dict[str, Any]:
        """Send a GET request; raises as `post`."""
        pairs = [f"{quote(name)}={quote(str(value))}" for name, value in (query or {}).items() if value is not None]
        answer = self._request("GET", path + ("?" + "&".join(pairs) if pairs else ""), None, None)
        return self._checked(answer, shape)

    def list_all(self, path: str, *, shape: Any = dict) -> list[dict[str, Any]]:
        """Return all items of a list, each of a shape, page by page; raises as `post`."""
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            part = self.get(path, {"limit": PART, "cursor": cursor}, shape={**LIST, "items": [shape]})
            items += part["items"]
            if (cursor := part["next"]) is None:
                return items

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        shape: Any = dict,
        key: str | None = None,
        retries: int | None = None,
    ) -> dict[str, Any]:
        """Send a POST request, repeated under the same key until there is a response or no retry is left.

        Args:
            path: below ``/v1``, e.g. ``/suggestions``.
            body: JSON types, or numbers of numpy and torch.
            shape: of the answer, as in `check_shape`.
            key: idempotency key; random when left out.
            retries: instead of those of the connection.

        Raises:
            UsageError: a body that is not JSON, a refused call or token, a conflict with the present state.
            DataError: a body that cannot be used.
            StorageError: no server, one that fails, or one that answers otherwise.
        """
        return self._checked(self._request("POST", path, _json(body), key or uuid.uuid4().hex, retries), shape)

    def _checked(self, answer: Any, shape: Any) -> dict[str, Any]:
        """Return an answer that has a shape; raises `StorageError` for another."""
        try:
            check_shape(answer, shape)
        except ValueError as error:
            msg = f"{self.url}: expected an answer of `warmstart serve`, got another ({error}). Upgrade the older side."
            raise StorageError(msg) from error
        return answer  # type: ignore[no-any-return]  # every shape is an object's

    def _request(self, method: str, path: str, body: bytes | None, key: str | None, retries: int | None = None) -> Any:
        failure: WarmstartError | None = None
        retries = self.retries if retries is None else retries
        for attempt in range(retries + 1):
            try:
                response, content = self._send_with_reconnect(method, path, body, key)
            except (OSError, HTTPException) as error:
                self._drop_connection()
                if isinstance(error, ssl.SSLCertVerificationError):
                    msg = f"{self.url}: expected a certificate that is trusted, got: {error.verify_message}. Name its authority with `ca_file`, or the file in $SSL_CERT_FILE."
                    raise StorageError(msg) from error
                reason = str(error) or type(error).__name__
                failure = StorageError(
                    f"{self.url}: expected a server that answers, got: {reason}. Check the URL, and that `warmstart serve` runs there."
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
                # Jitter keeps many workers from retrying in step.
                backoff = 0.2 * 2**attempt * (0.5 + random.random())  # noqa: S311  spread, no secret
                self.sleep(min(LONGEST_WAIT_S, max(wait, backoff)))
        assert failure is not None  # noqa: S101  no attempt went well
        raise failure

    def _send_with_reconnect(
        self, method: str, path: str, body: bytes | None, key: str | None
    ) -> tuple[HTTPResponse, bytes]:
        """Send a request; once more on a new connection if the server had closed an idle one."""
        is_reused = self._connection().sock is not None
        try:
            return self._exchange(method, path, body, key)
        except (ConnectionError, HTTPException):
            if not is_reused:
                raise
            self._drop_connection()
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
        if response.length and len(content) < MOST_ANSWER_BYTES:
            # With a limit, `read` does not say that the server was gone before the end.
            raise IncompleteRead(content, response.length)
        if response.will_close:
            self._drop_connection()
        return response, content

    def _connection(self) -> HTTPConnection:
        # After a fork the connection is the parent's.
        if getattr(self._local, "pid", None) != os.getpid():
            self._drop_connection()
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            parts = urlsplit(self.url)
            host = parts.hostname or ""
            if parts.scheme == "https":
                context = ssl.create_default_context(cafile=self.ca_file)
                connection = HTTPSConnection(host, parts.port, timeout=self.timeout, context=context)
            else:
                connection = HTTPConnection(host, parts.port, timeout=self.timeout)
            self._local.connection, self._local.pid = connection, os.getpid()
            self._open.add(connection)
        return connection

    def _drop_connection(self) -> None:
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()
            self._open.discard(connection)

    def close_thread(self) -> None:
        """Close this thread's connection."""
        self._drop_connection()

    def close(self) -> None:
        """Close the connections of all threads; a later request opens a new one."""
        _close(self._open)
        self._local = threading.local()


def segment(name: str) -> str:
    """Quote a name as one segment of a path."""
    return quote(name, safe="")


def _close(connections: set[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, default=_python_number).encode()
    except (TypeError, ValueError) as error:
        msg = f"expected texts, truth values and finite numbers, which JSON has, got others ({error}). Correct what is sent."
        raise UsageError(msg) from error


def _python_number(value: object) -> object:
    """Convert a number of numpy or torch to Python's; raises as `json.dumps` for anything else."""
    item = getattr(value, "item", None)
    if item is None:
        msg = f"{type(value).__name__} is not JSON serializable"
        raise TypeError(msg)
    return item()


def _document(content: bytes, url: str) -> Any:
    try:
        return parse_strict_json(content)
    except ValueError as error:
        msg = f"{url}: expected JSON from `warmstart serve`, got something else. Check the URL."
        raise StorageError(msg) from error


def _failure(status: int, content: bytes, url: str) -> WarmstartError:
    """Return the error of a problem, of the same class as on the server if it is one of warmstart's."""
    try:
        problem = parse_strict_json(content)
        detail, title, pointer = str(problem["detail"]), str(problem["title"]), problem.get("pointer")
    except (ValueError, KeyError, TypeError):
        detail, title, pointer = f"expected an answer, got status {status}. Is that `warmstart serve`?", "", None
    params = (str(pointer).strip("/"),) if pointer else ()
    error_class = getattr(errors, title, None)
    if (
        isinstance(error_class, type)
        and issubclass(error_class, WarmstartError)
        and error_class is not errors.BrokenImagesError
    ):
        return error_class(detail, param=params)
    if title == "Another study":
        return errors.OtherStudyError(f"{url}: {detail}")
    if title == "UnknownExtractorError":
        return DataError(f"{url}: {detail}")
    if status in (401, 403):
        return UsageError(f"{url}: {detail} The client reads it from ${TOKEN_VARIABLE}, or takes `token`.")
    kind = DataError if status == 422 else UsageError if status < 500 and status not in RETRIED else StorageError
    return kind(f"{url}: {detail}", param=params if kind is UsageError else ())


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() else 0.0
