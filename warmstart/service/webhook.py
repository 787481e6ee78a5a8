"""Notifications: a POST to a URL of the operator when a study ends, from a thread of its own."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted, in_short
from warmstart.service.logs import FIELDS

if TYPE_CHECKING:
    from warmstart.studies.results.study_record import StudyRecord
    from warmstart.studies.state.storage import Store

NOTIFIED = "warmstart:notified"
"""System attribute of a study: the id of its last notification that arrived."""
TIMEOUT_S = 10.0
WAITS_S = (1.0, 5.0, 25.0)
"""Seconds before each repetition."""
MOST_WAITING = 1000
"""Studies whose notification waits, at most."""
END_S = 2.0
"""Seconds for those that wait when the server stops."""
_RETRIED = (408, 429, 500, 502, 503, 504)
_log = logging.getLogger("warmstart.service")


@dataclass(slots=True)
class Webhook:
    """Notifications of ended studies; nothing here delays or fails a request.

    Attributes:
        url: of the receiver, which may be a secret: no log names more than its host.
        read: reads a study; raises for one that is gone.
        storage: opens the storage.
    """

    url: str
    read: Callable[[str], StudyRecord]
    storage: Callable[[], contextlib.AbstractContextManager[Store]]
    _waiting: Queue[str] = field(default_factory=lambda: Queue(MOST_WAITING))
    _stopped: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        """Start the thread that sends."""
        self._thread = Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what waits, each once, for at most `END_S` seconds."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(END_S)
        with contextlib.suppress(Empty):
            while True:
                self._waiting.get_nowait()

    def notify(self, names: Iterable[str]) -> None:
        """Note studies that have ended, to be sent unless that was done at the same number of trials."""
        for name in names:
            try:
                self._waiting.put_nowait(name)
            except Full:
                _log.warning("too many notifications wait", extra={FIELDS: {"study": name}})

    def _run(self) -> None:
        while not (self._stopped.is_set() and self._waiting.empty()):
            with contextlib.suppress(Empty):
                name = self._waiting.get(timeout=0.2)
                try:
                    self._notify(name)
                except Exception:  # noqa: BLE001  of a storage or a deleted study: the next notification is another's
                    _log.warning("not notified", exc_info=True, extra={FIELDS: {"study": name}})

    def _notify(self, name: str) -> None:
        body = notification(self.read(name))
        with self.storage() as store:
            number = store.optuna.get_study_id_from_name(name)
            if store.optuna.get_study_system_attrs(number).get(NOTIFIED) == body["id"]:
                return
        if self._send(json.dumps(body).encode(), name):
            with self.storage() as store:
                store.optuna.set_study_system_attr(number, NOTIFIED, body["id"])

    def _send(self, body: bytes, name: str) -> bool:
        """Send a body, again after a failure that may pass; return whether it arrived."""
        opener = build_opener(_NoRedirect)
        reason, may_pass = "", True
        for wait_s in (0.0, *WAITS_S):
            if wait_s and self._stopped.wait(wait_s):
                break
            try:
                request = Request(self.url, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310  checked
                with opener.open(request, timeout=TIMEOUT_S):
                    return True
            except HTTPError as error:
                error.close()
                reason, may_pass = f"status {error.code}", error.code in _RETRIED
            except (OSError, HTTPException) as error:
                reason = str(error.reason) if isinstance(error, URLError) else type(error).__name__
            if not may_pass:
                break
        host = urlsplit(self.url).hostname
        _log.warning("webhook failed", extra={FIELDS: {"host": host, "reason": reason, "study": name}})
        return False


class _NoRedirect(HTTPRedirectHandler):
    """A handler that follows no redirect: what is told is for the URL that was given."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse a redirect, whose status is an error then."""


def check_webhook(url: str) -> None:
    """Check the URL of a webhook.

    Raises:
        UsageError: none of http or https, or one with a user, spaces or an invalid port.
    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        is_usable = is_usable and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        is_usable = False
    if not is_usable:
        # Not the URL itself, which may be a secret.
        msg = "expected a URL like https://example.org/hook, got another text. Give it with http or https, and without a user."
        raise UsageError(msg, param="webhook")


def notification(record: StudyRecord) -> dict[str, Any]:
    """Return the body for a study whose trials have ended: it failed if none has a result."""
    best, metric = record.best, record.shown_metric
    is_failed = best is None or best.error is None
    value = None if best is None or best.error is None else metric.to_value(best.error)
    result = "no trial has a result" if value is None else f"best {metric.name} {in_short(value)}"
    return {
        "id": f"{record.name}:{len(record.trials)}:{record.updated}",
        "event": "study.failed" if is_failed else "study.ended",
        "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "study": record.name,
        "owner": record.owner,
        "trials": len(record.trials),
        "without_result": sum(trial.error is None for trial in record.trials),
        "metric": metric.name,
        "maximize": metric.maximize,
        "best": None
        if best is None or value is None
        else {"trial": best.number, "value": value, "config": dict(best.config)},
        "text": f"{record.name}: {result} after {counted(len(record.trials), 'trial')}.",
    }
