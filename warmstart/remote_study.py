"""A study on a server of `warmstart serve`: ask, report, tell, from any machine."""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, overload

from warmstart.history_store.errors import LeaseLostError, UsageError, WarmstartError
from warmstart.history_store.records import Value
from warmstart.service.transport import Transport, segment
from warmstart.studies.objectives.result import one_line, plain_number

WAIT_S = 1.5
"""Seconds before a server is asked again while the last trials run elsewhere: asking costs it about as much as a trial."""
LEASE_S = 60.0
BEATS = 4
"""Heartbeats a lease: three may be lost."""
PART = 1000
_ASKS = 3
"""Times that a trial is asked for, where the answers come later than their leases last."""


@dataclass(slots=True)
class RemoteTrial:
    """A trial that a server offered.

    Attributes:
        study: whose it is.
        number: in the study.
        config: hyperparameter values by name.
        seed: of everything random in it.
        budget: that it may spend, in the objective's own unit; None = all.
    """

    study: RemoteStudy
    number: int
    config: Mapping[str, Value]
    seed: int
    budget: float | None = None

    def report(self, step: float, error: float | None = None, *, value: float | None = None) -> bool:
        """Report the error so far, or the study's metric as value; tells whether to stop here.

        A number that is not finite is a sign of life alone.

        Raises:
            LeaseLostError: the lease ended: another worker has the trial.
            UsageError: no number.
            WarmstartError: as `Transport.post`.
        """
        if not (_is_finite(error, "an error") and _is_finite(value, "a value")):
            self.heartbeat()
            return False
        whole = int(step) if isinstance(step, float) and step.is_integer() else step
        body = {"step": whole, "error": error, "value": value, "lease_s": self.study.lease_s}
        return bool(self._post("report", body)["stop"])

    def heartbeat(self) -> None:
        """Renew the lease; raises as `report`."""
        self._post("heartbeat", {"lease_s": self.study.lease_s})

    def tell(
        self,
        error: float | None = None,
        *,
        value: float | None = None,
        status: str | None = None,
        duration: float | None = None,
        note: str = "",
        curve: Sequence[Sequence[float]] = (),
        metrics: Mapping[str, float] | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        """Tell what came of the trial; it is in the server's storage when this returns.

        As in `warmstart.tune`, an error or a constraint that is not finite is a failure, and points of the curve and
        metrics that are not finite are left out.

        Args:
            error: what is minimised; None where the trial gave none.
            value: instead, the study's metric.
            status: ok, diverged, failed, crashed, timeout, oom, killed or pruned.
            duration: seconds.
            note: on what went wrong; kept as one line, cut as `warmstart.tune` does.
            curve: pairs (step, error); what was reported when left out.
            metrics: other numbers.
            constraints: by name; met where true, or a number ≤ 0.

        Raises:
            LeaseLostError: the lease ended; the result is kept as an extra trial.
            UsageError: no number.
            WarmstartError: as `Transport.post`.
        """
        bounds = {name: _bound(each) for name, each in (constraints or {}).items()}
        given = {"an error": error, "a value": value, **{f"a constraint {n!r}": each for n, each in bounds.items()}}
        wrong = next((what for what, each in given.items() if not _is_finite(each, what)), None)
        if wrong is not None:
            note = note or f"expected {wrong} that is one finite number, got {given[wrong]}"
            status = "failed" if status in (None, "ok", "diverged") else status
            error = value = None
        body = {
            "error": error,
            "value": value,
            "status": status,
            "duration": None if duration is None else seconds_or_none(duration),
            "note": one_line(note),
            "curve": [list(point) for point in curve if all(_is_finite(each, "a curve") for each in point)],
            "metrics": {name: each for name, each in (metrics or {}).items() if _is_finite(each, f"a metric {name!r}")},
            "constraints": {name: each for name, each in bounds.items() if _is_finite(each, name)},
        }
        return self._post("tell", body)

    def release(self) -> bool:
        """Give the trial back without a result: the server offers it again at once, and this offer does not count.

        Returns: whether it was taken back; not where the lease was lost, or the server is too old to know of this.

        Raises:
            StorageError: no server there, or one that cannot answer.
        """
        try:
            self._post("release", {}, retries=1)  # who ends does not wait for long
        except UsageError:
            return False
        return True

    @contextlib.contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Send heartbeats in a thread while the block runs; a lease that is lost all the same is told of at the end.

        A block that is left with Ctrl-C or `sys.exit` releases the trial.
        """
        over = threading.Event()
        is_left = False

        def beat() -> None:
            while not over.wait(self.study.lease_s / BEATS):
                try:
                    self.heartbeat()
                except LeaseLostError:
                    break
                except WarmstartError:
                    continue  # the server may come back while the lease lasts
            self.study.transport.close_thread()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            is_left = True
            raise
        finally:
            over.set()
            thread.join(self.study.transport.timeout)
            if is_left:
                with contextlib.suppress(WarmstartError):  # the lease ends by itself
                    self.release()

    def _post(self, action: str, body: Mapping[str, Any], *, retries: int | None = None) -> dict[str, Any]:
        path = f"{self.study.path}/trials/{self.number}:{action}"
        return self.study.transport.post(path, {"client": self.study.client, **body}, retries=retries)


@dataclass(slots=True)
class RemoteStudy:
    """A study on a server, for one worker.

    Attributes:
        transport: to the server.
        name: of the study.
        client: names this worker; its own for each worker. One that was made here is made anew in a forked child, where it
            asks.
        lease_s: seconds in which a trial is heard of again.
    """

    transport: Transport
    name: str
    client: str = ""
    lease_s: float = LEASE_S
    _made_in: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Name the worker."""
        if not self.client:
            self._name_worker()

    def _name_worker(self) -> None:
        self.client, self._made_in = worker_name(), os.getpid()

    @property
    def path(self) -> str:
        """Return where it lies below ``/v1``."""
        return f"/studies/{segment(self.name)}"

    @overload
    def ask(
        self, *, trials: int | None = None, key: str | None = None, wait: Literal[True] = True
    ) -> RemoteTrial | None: ...
    @overload
    def ask(
        self, *, trials: int | None = None, key: str | None = None, wait: Literal[False]
    ) -> RemoteTrial | Literal["wait"] | None: ...
    def ask(
        self, *, trials: int | None = None, key: str | None = None, wait: bool = True
    ) -> RemoteTrial | Literal["wait"] | None:
        """Ask for a trial.

        Args:
            trials: that the study shall have in the end, or all that are tuned together; any when left out.
            key: the same key again gets the same trial; made when left out.
            wait: go on asking while the last ones run elsewhere.

        Returns: a trial, of another study where several are tuned together; None where the study has all that it shall
            have; "wait" where the last ones run elsewhere and this shall not wait for them.

        Raises:
            WarmstartError: as `Transport.post`.
        """
        if self._made_in not in (0, os.getpid()):
            self._name_worker()
        body = {"client": self.client, "lease_s": self.lease_s, "trials": trials}
        while (found := self._asked(body, key))["state"] == "wait":
            if not wait:
                return "wait"
            time.sleep(WAIT_S)
        if found["state"] != "offered":
            return None
        (one,) = found["trials"]
        whose = replace(self, name=one["study"])
        return RemoteTrial(whose, one["number"], one["config"], one["seed"], one["budget"])

    def _asked(self, body: Mapping[str, object], key: str | None) -> dict[str, Any]:
        """Ask once; where the answer came so late that the trial went elsewhere, and no key was given, with another key."""
        for _ in range(_ASKS - 1):
            try:
                return self.transport.post(f"{self.path}/trials:ask", body, key=key)
            except LeaseLostError:
                if key is not None:
                    raise
        return self.transport.post(f"{self.path}/trials:ask", body, key=key)

    def trial(self, number: int) -> RemoteTrial:
        """Return a trial that this worker was offered before."""
        return RemoteTrial(self, number, {}, 0)

    def show(self) -> dict[str, Any]:
        """Return the study's options, how far it is, and its best trial."""
        return self.transport.get(self.path)

    def trials(self) -> list[dict[str, Any]]:
        """Return all its trials, in order of their numbers."""
        return self.transport.list_all(f"{self.path}/trials")


def worker_name() -> str:
    """Name this worker: its machine, its process, and some letters that no other has."""
    host = re.sub(r"[^\w.-]+", "-", socket.gethostname())[:40] or "host"
    return f"{host}:{os.getpid()}:{secrets.token_hex(3)}"


def _is_finite(given: object, what: str) -> bool:
    """Tell whether a number is finite, or there is none.

    Raises:
        UsageError: it is no number.
    """
    number = 0.0 if given is None else plain_number(given)
    if number is None:
        msg = f"expected {what} that is one number, got {given!r}. Give a float."
        raise UsageError(msg)
    return math.isfinite(number)


def _bound(given: float) -> float:
    """Return a constraint as a number that is met where ≤ 0."""
    truth = getattr(given, "item", lambda: given)()
    return float(not truth) if isinstance(truth, bool) else given


def seconds_or_none(seconds: float) -> float | None:
    """Return seconds as JSON has them; None where they are unknown."""
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
