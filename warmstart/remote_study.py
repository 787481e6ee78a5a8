"""Client of a study on a server of `warmstart serve`: ask, report, tell, from any machine."""

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
from typing import TYPE_CHECKING, Any, Literal, overload

from warmstart.history_store.errors import DataError, LeaseLostError, StorageError, UsageError, WarmstartError
from warmstart.history_store.numbering import to_unit
from warmstart.history_store.records import Value
from warmstart.service.shapes import OFFERED, REPORTED, STUDY, TRIAL
from warmstart.service.transport import Transport, segment
from warmstart.studies.objectives.metric import plain_number
from warmstart.studies.objectives.result import one_line

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

WAIT_S = 1.5
"""Seconds between two asks while the last trials run elsewhere: an ask costs the server about as much as a trial."""
LEASE_S = 60.0
BEATS = 4
"""Heartbeats per lease: three may be lost."""
_MAX_ASKS = 3
"""Asks for a trial at most, if answers arrive after the end of their leases."""


@dataclass(slots=True)
class RemoteTrial:
    """A trial that a server leased to this worker.

    Attributes:
        study: of the trial.
        number: in the study.
        config: hyperparameter values by name.
        seed: of everything random in it.
        budget: of the trial, in the objective's unit; None = full.
    """

    study: RemoteStudy
    number: int
    config: Mapping[str, Value]
    seed: int
    budget: float | None = None

    def report(self, step: float, error: float | None = None, *, value: float | None = None) -> bool:
        """Report the error so far, or the study's metric as value; return whether to stop the trial.

        A number that is not finite only renews the lease.

        Raises:
            LeaseLostError: the lease ended: another worker may have the trial.
            UsageError: no number.
            WarmstartError: as `Transport.post`.
        """
        if not (_is_finite(error, "an error") and _is_finite(value, "a value")):
            self.heartbeat()
            return False
        number = int(step) if isinstance(step, float) and step.is_integer() else step
        body = {"step": number, "error": error, "value": value, "lease_s": self.study.lease_s}
        return bool(self._post("report", body, shape=REPORTED)["stop"])

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
        """Send the result of the trial; it is in the server's storage when this returns.

        As in `warmstart.tune`, an error or a constraint that is not finite is a failure; points of the curve and
        metrics that are not finite are left out.

        Args:
            error: to minimise; None without one.
            value: instead, the study's metric.
            status: ok, diverged, failed, crashed, timeout, oom, killed or pruned.
            duration: seconds.
            note: on the failure; stored as one line of limited length.
            curve: pairs (step, error); the reports when left out.
            metrics: other numbers.
            constraints: by name; met if true, or a number ≤ 0.

        Raises:
            LeaseLostError: the lease ended; the result is stored as an extra trial.
            UsageError: no number.
            WarmstartError: as `Transport.post`.
        """
        bounds = {name: _bound(number) for name, number in (constraints or {}).items()}
        numbers = {
            "an error": error,
            "a value": value,
            **{f"a constraint {n!r}": number for n, number in bounds.items()},
        }
        invalid = next((label for label, number in numbers.items() if not _is_finite(number, label)), None)
        if invalid is not None:
            note = note or f"expected {invalid} that is one finite number, got {numbers[invalid]}"
            status = "failed" if status in (None, "ok", "diverged") else status
            error = value = None
        body = {
            "error": error,
            "value": value,
            "status": status,
            "duration": None if duration is None else seconds_or_none(duration),
            "note": one_line(note),
            "curve": [list(point) for point in curve if all(_is_finite(number, "a curve") for number in point)],
            "metrics": {
                name: number for name, number in (metrics or {}).items() if _is_finite(number, f"a metric {name!r}")
            },
            "constraints": {name: number for name, number in bounds.items() if _is_finite(number, name)},
        }
        return self._post("tell", body)

    def release(self) -> bool:
        """Release the trial without a result: the server offers it again at once, and this offer does not count.

        Returns: whether it was released; False if the lease was lost or the server is too old.

        Raises:
            StorageError: no server, or one that cannot answer.
        """
        try:
            self._post("release", {}, retries=1)  # a worker that ends must not wait long
        except UsageError:
            return False
        return True

    @contextlib.contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Send heartbeats in a thread while the block runs; a lost lease shows at the next report or result.

        Ctrl-C or `sys.exit` in the block releases the trial.
        """
        is_over = threading.Event()
        is_left = False

        def beat() -> None:
            while not is_over.wait(self.study.lease_s / BEATS):
                try:
                    self.heartbeat()
                except LeaseLostError:
                    break
                except WarmstartError:
                    continue  # the server may be back before the lease ends
            self.study.transport.close_thread()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            is_left = True
            raise
        finally:
            is_over.set()
            thread.join(self.study.transport.timeout)
            if is_left:
                with contextlib.suppress(WarmstartError):  # the lease ends by itself
                    self.release()

    def _post(
        self, action: str, body: Mapping[str, Any], *, shape: Any = dict, retries: int | None = None
    ) -> dict[str, Any]:
        path = f"{self.study.path}/trials/{self.number}:{action}"
        return self.study.transport.post(path, {"client": self.study.client, **body}, shape=shape, retries=retries)


@dataclass(slots=True)
class RemoteStudy:
    """A study on a server, for one worker.

    Attributes:
        transport: to the server.
        name: of the study.
        client: unique name of this worker; a generated one is replaced in a forked child.
        lease_s: seconds of a lease.
        space: of the configurations, which each one that arrives must fit; None = any.
    """

    transport: Transport
    name: str
    client: str = ""
    lease_s: float = LEASE_S
    space: ConfigurationSpace | None = field(default=None, repr=False, compare=False)
    _made_in: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Generate the name of the worker, unless it is set."""
        if not self.client:
            self._name_worker()

    def _name_worker(self) -> None:
        self.client, self._made_in = worker_name(), os.getpid()

    @property
    def path(self) -> str:
        """Return the path of the study below ``/v1``."""
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
            trials: number of trials of the study, or of all that are tuned together; unlimited when left out.
            key: the same key again gets the same trial; generated when left out.
            wait: keep asking while the last trials run elsewhere.

        Returns: a trial, maybe of another study that is tuned together; None if the study has all its trials; "wait" if
            the last ones run elsewhere and `wait` is false.

        Raises:
            WarmstartError: as `Transport.post`.
        """
        if self._made_in not in (0, os.getpid()):
            self._name_worker()
        body = {"client": self.client, "lease_s": self.lease_s, "trials": trials}
        while (answer := self._ask_once(body, key))["state"] == "wait":
            if not wait:
                return "wait"
            time.sleep(WAIT_S)
        if answer["state"] != "offered":
            return None
        (offer,) = answer["trials"]
        self._check_config(offer["config"])
        study = replace(self, name=offer["study"])
        return RemoteTrial(study, offer["number"], offer["config"], offer["seed"], offer["budget"])

    def _check_config(self, config: Mapping[str, Value]) -> None:
        """Check that a configuration that arrived is one of the space; raises `StorageError`."""
        if self.space is None:
            return
        try:
            to_unit(self.space, [config])
        except DataError as error:
            msg = f"{self.transport.url}: {error.message} The server's study is another, or its answer was altered."
            raise StorageError(msg) from error

    def _ask_once(self, body: Mapping[str, object], key: str | None) -> dict[str, Any]:
        """Ask for a trial; if the answer came after the end of its lease, ask with another key, unless `key` is set."""
        for _ in range(_MAX_ASKS - 1):
            try:
                return self.transport.post(f"{self.path}/trials:ask", body, shape=OFFERED, key=key)
            except LeaseLostError:
                if key is not None:
                    raise
        return self.transport.post(f"{self.path}/trials:ask", body, shape=OFFERED, key=key)

    def trial(self, number: int) -> RemoteTrial:
        """Return a trial that this worker was offered earlier."""
        return RemoteTrial(self, number, {}, 0)

    def show(self) -> dict[str, Any]:
        """Return the study's options, progress and best trial."""
        return self.transport.get(self.path, shape=STUDY)

    def trials(self) -> list[dict[str, Any]]:
        """Return all trials of the study, in order of their numbers."""
        return self.transport.list_all(f"{self.path}/trials", shape=TRIAL)


def worker_name() -> str:
    """Return a unique name of this worker: machine, process, random letters."""
    host = re.sub(r"[^\w.-]+", "-", socket.gethostname())[:40] or "host"
    return f"{host}:{os.getpid()}:{secrets.token_hex(3)}"


def _is_finite(value: object, label: str) -> bool:
    """Tell whether a value is None or a finite number.

    Raises:
        UsageError: it is no number.
    """
    number = 0.0 if value is None else plain_number(value)
    if number is None:
        msg = f"expected {label} that is one number, got {value!r}. Give a float."
        raise UsageError(msg)
    return math.isfinite(number)


def _bound(value: float) -> float:
    """Return a constraint as a number that is met if ≤ 0."""
    truth = getattr(value, "item", lambda: value)()
    return float(not truth) if isinstance(truth, bool) else value


def seconds_or_none(seconds: float) -> float | None:
    """Return seconds for JSON; None if they are unknown."""
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
