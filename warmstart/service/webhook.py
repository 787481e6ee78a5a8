"""Notifications: a POST to a URL of the operator when a study ends, from a thread of its own."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted, in_short
from warmstart.service.logs import FIELDS
from warmstart.studies.state.attributes import PLAN

if TYPE_CHECKING:
    from warmstart.service.study_book import StudyBook
    from warmstart.studies.results.study_record import StudyRecord

NOTIFIED = "warmstart:notified"
"""System attribute of a study: the id of its last notification that arrived."""
TIMEOUT_S = 10.0
WAITS_S = (1.0, 5.0, 25.0)
"""Seconds before each repetition."""
MOST_WAITING = 1000
"""Studies whose notification waits, at most."""
LOOK_S = 1.0
"""Between two looks at studies of which a trial ended."""
MISSED = timedelta(hours=1)
"""Before a start: a study that ended since is looked at, which a server may have left without its notification."""
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
        studies: of the server.
    """

    url: str
    read: Callable[[str], StudyRecord]
    studies: StudyBook
    _waiting: dict[str, bool] = field(default_factory=dict)
    _changed: Condition = field(default_factory=Condition)
    _stopped: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        """Start the thread that sends."""
        self._thread = Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what waits, each once, for at most `END_S` seconds."""
        self._stopped.set()
        with self._changed:
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(END_S)

    def notify(self, names: Iterable[str]) -> None:
        """Note studies that have ended, to be sent unless that was done at the same number of trials."""
        for name in names:
            self._add(name, has_ended=True)

    def look_at(self, name: str) -> None:
        """Note a study of which a trial ended, to be sent if it was the last one."""
        self._add(name, has_ended=False)

    def _add(self, name: str, *, has_ended: bool) -> None:
        with self._changed:
            if len(self._waiting) >= MOST_WAITING and name not in self._waiting:
                _log.warning("too many notifications wait", extra={FIELDS: {"study": name}})
                return
            self._waiting[name] = has_ended or self._waiting.get(name, False)
            self._changed.notify()

    def _run(self) -> None:
        with self._logged(""):
            self._look_back()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped.is_set())
                waiting, self._waiting = self._waiting, {}
            if not waiting:
                return
            for name, has_ended in waiting.items():
                with self._logged(name):
                    for ended in (name,) if has_ended else self._ended_with(name):
                        self._notify(ended)
            # Trials end faster than it takes to look at a study: the next look is at all that ended since.
            self._stopped.wait(LOOK_S)

    @contextlib.contextmanager
    def _logged(self, name: str) -> Iterator[None]:
        """Log an error of a storage or a deleted study: the next notification is another's."""
        try:
            yield
        except Exception:  # noqa: BLE001  nothing here fails a request
            _log.warning("not notified", exc_info=True, extra={FIELDS: {"study": name}})

    def _look_back(self) -> None:
        """Look at the studies that ended shortly before the start."""
        if self.studies.is_empty:
            return
        since = datetime.now() - MISSED  # Optuna's times have no zone
        with self.studies.store() as store:
            for study in store.optuna.get_all_studies():
                trials = store.optuna.get_all_trials(study._study_id, deepcopy=False)  # noqa: SLF001
                ends = [trial.datetime_complete for trial in trials if trial.datetime_complete is not None]
                if PLAN in study.user_attrs and len(ends) == len(trials) and max(ends, default=since) > since:
                    self.look_at(study.study_name)

    def _ended_with(self, name: str) -> list[str]:
        """List the study and those that are tuned together with it, if they have ended."""
        with self.studies.group(name) as group:
            return [queue.name for queue in group.queues] if group.has_ended() else []

    def _notify(self, name: str) -> None:
        body = notification(self.read(name))
        with self.studies.store() as store:
            number = store.optuna.get_study_id_from_name(name)
            if store.optuna.get_study_system_attrs(number).get(NOTIFIED) == body["id"]:
                return
        if self._send(json.dumps(body).encode(), name):
            with self.studies.store() as store:
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
