"""Studies of many clients over HTTP while `warmstart serve` is killed, each time with a write open: what is lost, what is doubled.

Clients ask, report, tell and now and then repeat a request or go silent; the server gets SIGKILL in the middle of a
transaction and is started again. The server has the first core, the clients the others. Configurations are quasi-random, so
that the service is measured and not a surrogate; `--surrogate gp` has asks by the number of trials.

    python scripts/bench/service_weather.py --storage sqlite                      # the whole: 32 x 400 trials, 100 kills
    python scripts/bench/service_weather.py --studies 4 --clients 8 --trials 20 --kills 5 --work weather   # a minute

Every answer that a client had is a line in the folder --work; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from database_servers import Postgres, own
from open_writes import DatabaseWrites, FileWrites, OpenWrites

from warmstart.history_store.errors import LeaseLostError
from warmstart.remote_study import RemoteStudy, RemoteTrial
from warmstart.service.transport import Transport
from warmstart.studies.state.attributes import EXTRA, LEASE, OUTCOME
from warmstart.studies.state.lease import TOKEN_END
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.trial_queue import open_queue

RESULTS = Path(__file__).parent / "results" / "service_weather.json"
SPACE = {"x": [0.0, 1.0], "lr": {"log": [1e-5, 1.0]}, "n": {"int": [1, 4]}, "kind": ["a", "b", "c"]}
LONG_S, SHORT_S = 900.0, 2.0
"""Leases: of who works, and of who goes silent."""
SILENT, LATE, REPEATED, REPORTED = 0.05, 0.5, 0.1, 0.2
"""Shares of trials: whose client goes silent, and of these that tell late; that are asked for twice; that report."""
BUCKET = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is run.

    Attributes:
        storage: sqlite or postgresql.
        studies: how many, of `trials` each.
        clients: that share them.
        kills: of servers.
        servers: processes over the one storage.
        surrogate: `random`, or one of `warmstart tune`.
    """

    storage: str
    studies: int
    clients: int
    trials: int
    kills: int
    servers: int
    surrogate: str
    seed: int

    @property
    def name(self) -> str:
        """Name it in the results."""
        return f"{self.storage}, {self.servers} server{'s'[: self.servers > 1]}, {self.surrogate}"

    @property
    def options(self) -> dict[str, Any]:
        """Return how its studies are begun."""
        search = (
            {"surrogate": "gp-map", "startup": self.trials}
            if self.surrogate == "random"
            else {"surrogate": self.surrogate}
        )
        return {"space": SPACE, "seed": self.seed, **search}


@dataclass
class Log:
    """Answers that clients had, one a line of a file; read again by whoever goes on."""

    path: Path
    lines: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Read what was written, but for a line that was cut short."""
        if self.path.exists():
            whole = self.path.read_bytes().rpartition(b"\n")[0]
            self.lines = [json.loads(line) for line in whole.splitlines()]
            self.path.write_bytes(whole + b"\n" * bool(whole))
        self.counts.update(line["kind"] for line in self.lines)

    def add(self, kind: str, **what: Any) -> None:
        """Write one line."""
        line = {"kind": kind, **what}
        with self._lock:
            self.lines.append(line)
            self.counts[kind] += 1
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


@dataclass
class Server:
    """One process of `warmstart serve`, always on the same port."""

    number: int
    storage: str
    folder: Path
    core: int | str
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    starts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose a port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        began = time.monotonic()
        words = [sys.executable, "-m", "warmstart", "serve", "--port", str(self.port), "--storage", self.storage, "-q"]
        environment = {**os.environ, "PGAPPNAME": f"weather-{self.number}", "OMP_NUM_THREADS": "1"}
        with (self.folder / f"server-{self.number}.log").open("ab") as said:
            self.process = subprocess.Popen(
                ["taskset", "-c", str(self.core), *words], env=environment, stdout=said, stderr=said
            )
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                break
            assert self.process.poll() is None, f"the server ended: see {said.name}"
            time.sleep(0.05)
        self.starts.append(time.monotonic() - began)

    def signal(self, which: signal.Signals) -> None:
        """Send a signal."""
        assert self.process is not None
        os.kill(self.process.pid, which)

    def stop(self) -> None:
        """End it, in whatever state it is."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Campaign:
    """One run of a setting."""

    def __init__(self, setting: Setting, log: Log, servers: Sequence[Server], writes: OpenWrites) -> None:
        self.setting, self.log, self.servers, self._writes = setting, log, servers, writes
        self._over, self._failures = threading.Event(), list[BaseException]()

    def run(self) -> None:
        """Let the clients work and kill servers, evenly spread over the trials; raises what a client raised."""
        for server in self.servers:
            server.start()
        threads = [threading.Thread(target=self._guarded, args=(i,), daemon=True) for i in range(self.setting.clients)]
        for thread in threads:
            thread.start()
        done = self.log.counts["kill"]
        total = self.setting.studies * self.setting.trials
        shown = time.monotonic()
        while any(thread.is_alive() for thread in threads) and not self._failures:
            if done < self.setting.kills and self.log.counts["tell"] >= (done + 0.5) * total / (self.setting.kills + 1):
                self._kill(self.servers[done % len(self.servers)])
                done += 1
            if time.monotonic() > shown + 10:
                shown = time.monotonic()
                print(f"{self.log.counts['tell']}/{total} told, {done}/{self.setting.kills} kills", file=sys.stderr)
            time.sleep(0.02)
        self._over.set()
        if self._failures:
            raise self._failures[0]

    def _kill(self, server: Server) -> None:
        """Stop a server again and again until that finds a write open, then kill it."""
        tries, until, pause = 0, time.monotonic() + 300, 0.02
        while time.monotonic() < until and not self._over.is_set():
            time.sleep(random.uniform(0.0, pause))
            began = time.monotonic()
            server.signal(signal.SIGSTOP)
            tries += 1
            if self._writes.is_open(server.number, server.process.pid):  # type: ignore[union-attr]  # it runs
                server.stop()
                self.log.add("kill", server=server.number, tries=tries, at=time.time())
                server.start()
                return
            server.signal(signal.SIGCONT)
            # On a busy machine a look takes long: the server runs for longer than it is held.
            pause = max(0.02, 4 * (time.monotonic() - began))
        msg = f"no write was open in 300 s and {tries} looks"
        raise TimeoutError(msg)

    def _guarded(self, which: int) -> None:
        try:
            self._work(which)
        except BaseException as error:  # noqa: BLE001  the campaign ends with it
            self._failures.append(error)

    def _work(self, which: int) -> None:
        """Be one client: one study after another, its own first."""
        rng, setting = random.Random(self.setting.seed * 1000 + which), self.setting
        transport = Transport(self.servers[which % len(self.servers)].url, timeout=120, retries=10_000)
        transport.sleep = lambda seconds: time.sleep(min(seconds, 0.5))
        client = f"w{which}-{secrets.token_hex(2)}"
        left = deque(f"s{(which + i) % setting.studies}" for i in range(setting.studies))
        while left and not self._over.is_set():
            _send(transport, "/studies", {"name": left[0], **setting.options})
            study = RemoteStudy(transport, left[0], client, LONG_S)
            while not self._over.is_set():
                study.lease_s = SHORT_S if rng.random() < SILENT else LONG_S
                trial, key = self._asked(study)
                if not isinstance(trial, RemoteTrial):
                    break
                self._tell(study, trial, key, rng)
            if trial is None:
                left.popleft()
            else:  # the last ones run elsewhere
                left.rotate(-1)
                time.sleep(2.0)

    def _asked(self, study: RemoteStudy) -> tuple[RemoteTrial | str | None, str]:
        """Ask for a trial, and note the answer."""
        key, began = secrets.token_hex(8), time.monotonic()
        body = {"client": study.client, "lease_s": study.lease_s, "trials": self.setting.trials}
        try:
            found = _send(study.transport, f"{study.path}/trials:ask", body, key=key)
        except LeaseLostError:  # the answer came too late for a short lease
            self.log.counts["lost"] += 1
            return self._asked(study)
        if found["state"] != "offered":
            return ("wait" if found["state"] == "wait" else None), key
        (one,) = found["trials"]
        about = {"study": study.name, "client": study.client, "number": one["number"], "key": key}
        more = {"config": one["config"], "until": one["lease_until"], "lease_s": study.lease_s}
        self.log.add("ask", **about, **more, at=time.time(), seconds=time.monotonic() - began)
        return RemoteTrial(study, one["number"], one["config"], one["seed"]), key

    def _tell(self, study: RemoteStudy, trial: RemoteTrial, key: str, rng: random.Random) -> None:
        """Work on a trial: ask for it again, report, tell; or go silent."""
        about = {"study": study.name, "client": study.client, "number": trial.number}
        if study.lease_s == LONG_S and rng.random() < REPEATED:
            again = study.ask(trials=self.setting.trials, key=key)
            assert isinstance(again, RemoteTrial)
            self.log.add("again", **about, key=key, same=(again.number, again.config) == (trial.number, trial.config))
        error = float(trial.config["x"])
        if study.lease_s == SHORT_S:
            if rng.random() < LATE:
                time.sleep(SHORT_S + 1.0)
                self._tell_late(trial, error, about)
            return
        if rng.random() < REPORTED:
            trial.report(1, error + 1)
            self.log.add("report", **about, step=1, error=error + 1)
        began = time.monotonic()
        trial.tell(error, duration=1.0)
        self.log.add("tell", **about, error=error, at=time.time(), seconds=time.monotonic() - began)

    def _tell_late(self, trial: RemoteTrial, error: float, about: dict[str, Any]) -> None:
        """Tell after the lease: refused, and kept beside the study's trials."""
        try:
            trial.tell(error)
        except LeaseLostError:
            self.log.add("late", **about, error=error)
        else:
            self.log.add("tell in spite of its lease", **about, error=error)


def _send(transport: Transport, path: str, body: dict[str, Any], *, key: str | None = None) -> dict[str, Any]:
    return transport.post(path, body, key=key)


def list_faults(log: Iterable[dict[str, Any]], storage: str, setting: Setting) -> list[str]:
    """Compare what clients were answered with what the storage has."""
    by_study: dict[str, list[dict[str, Any]]] = defaultdict(list)
    found = []
    for line in log:
        if "study" in line:
            by_study[line["study"]].append(line)
    store = open_store(storage)
    for i in range(setting.studies):
        with open_queue(store, f"s{i}") as queue:
            trials = queue.trials()
        found += [f"s{i}: {fault}" for fault in _faults(by_study[f"s{i}"], trials, setting.trials)]
    return found


def _faults(lines: Sequence[dict[str, Any]], trials: Sequence[Any], wanted: int) -> Iterator[str]:
    """Find what one study should not have."""
    own, extras = [t for t in trials if EXTRA not in t.user_attrs], [t for t in trials if EXTRA in t.user_attrs]
    by_number = {trial.number: trial for trial in own}
    if len(own) != wanted:
        yield f"{wanted} trials were wanted, {len(own)} are there"
    yield from (f"trial {t.number} has no end" for t in own if not t.state.is_finished())
    keys = Counter(key for trial in own for key in trial.user_attrs.get(LEASE, {}).get("keys", ()))
    yield from (f"key {key} has {count} trials" for key, count in keys.items() if count > 1)
    for line in lines:
        kind, number = line["kind"], line["number"]
        trial = by_number.get(number)
        if trial is None:
            yield f"trial {number} was answered ({kind}) and is not there"
        elif kind == "tell" and trial.value != line["error"]:
            yield f"trial {number}: {line['error']} was acknowledged, {trial.value} is stored"
        elif kind == "report" and trial.intermediate_values.get(line["step"]) != line["error"]:
            yield f"trial {number}: an acknowledged report is not stored"
        elif kind == "ask" and not any(
            key.startswith(f"{line['client']}:") and key.endswith(f"{TOKEN_END}{line['key']}.0")
            for key in trial.user_attrs[LEASE]["keys"]
        ):
            yield f"trial {number}: its storage does not know the key of {line['client']}"
        elif kind == "ask" and trial.params != line["config"]:
            yield f"trial {number}: {line['config']} was offered, {trial.params} is stored"
        elif kind == "again" and not line["same"]:
            yield f"trial {number}: the same key got another trial"
        elif kind == "tell in spite of its lease":
            yield f"trial {number}: a result after its lease was taken as one in time"
        elif (
            kind == "late"
            and not any(e.user_attrs[EXTRA] == {"of": number, "client": line["client"]} for e in extras)
            and (trial.user_attrs.get(OUTCOME) or {}).get("error") != line["error"]
        ):
            yield f"trial {number}: a late result is not kept"
    yield from _given_twice(lines)


def _given_twice(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Find trials that were given to a second client while the first one's lease held."""
    grants: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["kind"] == "ask":
            grants[line["number"]].append(line)
    for number, each in grants.items():
        each.sort(key=lambda line: line["until"] - line["lease_s"])
        for one, other in itertools.pairwise(each):
            if one["client"] != other["client"] and other["until"] - other["lease_s"] < one["until"]:
                yield f"trial {number}: {one['client']} held it until {one['until']:.2f}, {other['client']} got it before"


def latency(lines: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return milliseconds of asks by how many trials there were, and of tells; repeated requests count with their waits."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        if line["kind"] == "ask":
            seconds[f"ask, trials {line['number'] // BUCKET * BUCKET} on"].append(line["seconds"])
        elif line["kind"] == "tell":
            seconds["tell"].append(line["seconds"])
    names = sorted(seconds, key=lambda name: (name == "tell", len(name), name))
    return {
        name: {"n": len(seconds[name]), "p50": _ms(seconds[name], 50), "p99": _ms(seconds[name], 99)} for name in names
    }


def _ms(seconds: Sequence[float], percent: float) -> float:
    return round(1000 * float(np.percentile(seconds, percent)), 1)


@contextlib.contextmanager
def storage_of(setting: Setting, work: Path) -> Iterator[tuple[str, OpenWrites]]:
    """Give the studies' storage, kept in the folder of the work; the database runs as long as it is used."""
    if setting.storage == "sqlite":
        path = work / "studies.db"
        yield str(path), FileWrites(path)
        return
    if (reason := Postgres.missing()) is not None:
        sys.exit(reason)
    folder = work / "postgresql"
    with socket.create_server(("127.0.0.1", 0)) as free:
        database = Postgres(folder, free.getsockname()[1])
    if not folder.exists():
        folder.mkdir()
        own(folder)
        database.prepare()
    database.start()
    try:
        yield database.url, DatabaseWrites(database.url, "weather-{}")
    finally:
        database.stop()


def run(setting: Setting, work: Path) -> dict[str, Any]:
    """Run a setting, or go on with it; gives what it came to."""
    work.mkdir(parents=True, exist_ok=True)
    log, began = Log(work / "answers.jsonl"), time.monotonic()
    cores = sorted(os.sched_getaffinity(0))
    with storage_of(setting, work) as (storage, writes):
        servers = [Server(i, storage, work, cores[0]) for i in range(setting.servers)]
        os.sched_setaffinity(0, cores[1:] or cores)
        try:
            Campaign(setting, log, servers, writes).run()
        finally:
            for server in servers:
                server.stop()
        faults = list_faults(log.lines, storage, setting)
    starts = [seconds for server in servers for seconds in server.starts]
    log.add("ran", seconds=time.monotonic() - began)
    return {
        "studies": setting.studies,
        "clients": setting.clients,
        "trials a study": setting.trials,
        "kills with a write open": log.counts["kill"],
        "looks a kill": round(
            float(np.mean([line["tries"] for line in log.lines if line["kind"] == "kill"] or [0])), 1
        ),
        "answers": {kind: log.counts[kind] for kind in ("ask", "again", "report", "tell", "late")},
        "faults": len(faults),
        "first faults": faults[:20],
        "milliseconds": latency(log.lines),
        "seconds": round(sum(line["seconds"] for line in log.lines if line["kind"] == "ran"), 1),
        "seconds to start": round(float(np.median(starts)), 2),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("warmstart", "fastapi", "uvicorn", "optuna", "sqlalchemy")},
        "cores": len(cores),
        "load average": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    """Run one setting, print it and put it among the results; gives 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storage", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--studies", type=int, default=32)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--trials", type=int, default=400, help="of each study; at most 1000 with random")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--servers", type=int, default=1, help="processes over the one storage")
    parser.add_argument("--surrogate", default="random", help="random, or one of `warmstart tune`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--work", type=Path, help="folder to go on in; service_weather-NAME in the working folder if left out"
    )
    parser.add_argument("--again", action="store_true", help="begin anew")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = vars(parser.parse_args())
    work, again, out = given.pop("work"), given.pop("again"), given.pop("out")
    setting = Setting(**given)
    work = work or Path("service_weather-" + setting.name.replace(", ", "-").replace(" ", ""))
    if again and work.exists():
        shutil.rmtree(work)
    found = run(setting, work.absolute())
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    out.write_text(json.dumps(known | {setting.name: found}, indent=1) + "\n", encoding="utf-8")
    print(setting.name)
    for name, value in found.items():
        print(f"  {name:25} {json.dumps(value) if not isinstance(value, dict) else ''}")
        if isinstance(value, dict):
            for key, each in value.items():
                print(f"    {key:23} {each}")
    return int(found["faults"] > 0)


if __name__ == "__main__":
    sys.exit(main())
