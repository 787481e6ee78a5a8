"""500 workers on one server of `warmstart serve`: what is lost or doubled, how long a worker waits, what a request costs.

The workers are simulated: each asks, sleeps as long as a trial takes, reports once, sends heartbeats as the client of
`warmstart tune --server` does, tells, and asks again until the study has all its trials. Some go silent with a trial, which
another one has to get. Server, database and workers share the machine.

    python scripts/bench/five_hundred_workers.py                   # one study, PostgreSQL if it is installed, else SQLite
    python scripts/bench/five_hundred_workers.py --studies 10 --surrogate gp --work folder
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import secrets
import ssl
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from database_servers import Postgres
from service_weather import Log, Server, Setting, list_faults

from warmstart.remote_study import BEATS, LEASE_S, WAIT_S
from warmstart.service.transport import LONGEST_WAIT_S, RETRIED

RESULTS = Path(__file__).parent / "results" / "five_hundred_workers.json"
SILENT = 0.02
"""Share of trials whose worker goes silent; a new worker takes its place."""
LOST = 409
"""Status of who holds the trial no longer."""
START_S = 10.0
"""Seconds within which the workers begin."""


@dataclass
class Workers:
    """The simulated workers of one run.

    Attributes:
        url: of the server.
        setting: studies, workers and trials.
        trial_s: seconds of a trial, on average; each takes half to one and a half of it.
        log: answers that they had.
    """

    url: str
    setting: Setting
    trial_s: float
    log: Log
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: Counter[str] = field(default_factory=Counter)
    _no_tls: ssl.SSLContext = field(default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    async def run(self) -> None:
        """Begin the studies, and let the workers work until all have their trials."""
        async with self._client() as client:
            for i in range(self.setting.studies):
                await self._post(client, "begin", "/studies", {"name": f"s{i}", **self.setting.options})
        shown = asyncio.create_task(self._show())
        async with asyncio.TaskGroup() as group:
            for i in range(self.setting.clients):
                group.create_task(self._be_worker(i))
        shown.cancel()

    def _client(self) -> httpx.AsyncClient:
        """Return the connections of one worker: those of 500 in one pool take longer to find than a request."""
        return httpx.AsyncClient(base_url=f"{self.url}/v1", timeout=60.0, trust_env=False, verify=self._no_tls)

    async def _be_worker(self, which: int) -> None:
        async with self._client() as client:
            await self._work(client, which)

    async def _show(self) -> None:
        while True:
            print(f"{self.log.counts['tell']} told, {dict(self.statuses)}", file=sys.stderr)
            await asyncio.sleep(10)

    async def _work(self, client: httpx.AsyncClient, which: int) -> None:
        rng = random.Random(f"{self.setting.seed}:{which}")
        study, worker = f"s{which % self.setting.studies}", f"w{which}"
        await asyncio.sleep(rng.uniform(0, START_S))
        for turn in range(10**9):
            key = secrets.token_hex(8)
            body = {"client": worker, "trials": self.setting.trials, "lease_s": LEASE_S}
            try:
                answer, seconds = await self._post(client, "ask", f"/studies/{study}/trials:ask", body, key)
            except LookupError:  # the answer came after the end of its lease
                continue
            if answer["state"] == "done":
                return
            if answer["state"] == "wait":
                await asyncio.sleep(WAIT_S)
                continue
            (trial,) = answer["trials"]
            about = {"study": study, "client": worker, "number": trial["number"]}
            until = trial["lease_until"]
            self.log.add("ask", **about, key=key, config=trial["config"], until=until, lease_s=LEASE_S, seconds=seconds)
            if rng.random() < SILENT:
                self.log.add("silent", **about)
                worker = f"w{which}.{turn}"
                await asyncio.sleep(self.trial_s * rng.uniform(0.5, 1.5))
                continue
            lasts = self.trial_s * rng.uniform(0.5, 1.5)
            with contextlib.suppress(LookupError):  # its lease ended: another one has the trial
                await self._run_trial(client, about, float(trial["config"]["x"]), lasts)

    async def _run_trial(self, client: httpx.AsyncClient, about: dict[str, Any], error: float, lasts: float) -> None:
        """Work on a trial: heartbeats all along, a report in the middle, and the result."""
        path, body = f"/studies/{about['study']}/trials/{about['number']}", {"client": about["client"]}

        async def beat() -> None:
            with contextlib.suppress(LookupError):
                while True:
                    await asyncio.sleep(LEASE_S / BEATS)
                    await self._post(client, "heartbeat", f"{path}:heartbeat", {**body, "lease_s": LEASE_S})

        beats = asyncio.create_task(beat())
        try:
            await asyncio.sleep(lasts / 2)
            report = {**body, "step": 1, "error": error + 1, "lease_s": LEASE_S}
            await self._post(client, "report", f"{path}:report", report)
            self.log.add("report", **about, step=1, error=error + 1)
            await asyncio.sleep(lasts / 2)
        finally:
            beats.cancel()
        _, seconds = await self._post(client, "tell", f"{path}:tell", {**body, "error": error, "duration": lasts})
        self.log.add("tell", **about, error=error, seconds=seconds)

    async def _post(
        self, client: httpx.AsyncClient, kind: str, path: str, body: dict[str, Any], key: str | None = None
    ) -> tuple[dict[str, Any], float]:
        """Send a request as the client does, again after a failure that may pass; return answer and seconds of all tries.

        Raises:
            LookupError: the lease of its trial ended.
        """
        headers = {"Idempotency-Key": key or secrets.token_hex(8)}
        began = time.monotonic()
        for attempt in range(6):
            try:
                response = await client.post(path, json=body, headers=headers)
            except httpx.TransportError as error:
                self.statuses[f"{kind}: {type(error).__name__}"] += 1
            else:
                self.statuses[f"{kind}: {response.status_code}"] += 1
                if response.is_success:
                    answer = response.json()
                    seconds = time.monotonic() - began
                    self.seconds[f"{kind}, {answer['state']}" if kind == "ask" else kind].append(seconds)
                    return answer, seconds
                if response.status_code == LOST:
                    raise LookupError
                if response.status_code not in RETRIED:
                    break
            await asyncio.sleep(min(LONGEST_WAIT_S, 0.2 * 2**attempt * random.uniform(0.5, 1.5)))
        msg = f"{kind} of {path} was refused: {response.text}"
        raise RuntimeError(msg)


@contextlib.contextmanager
def storage_of(kind: str, folder: Path) -> Iterator[tuple[str, list[psutil.Process]]]:
    """Give a new storage, and the processes of its database."""
    if kind == "sqlite":
        yield str(folder / "studies.db"), []
        return
    if (reason := Postgres.missing()) is not None:
        sys.exit(reason)
    with Postgres.started() as database:
        main = int((database.folder / "data" / "postmaster.pid").read_text().split()[0])
        yield database.url, [psutil.Process(main)]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds of processes and all that they started."""
    total = 0.0
    for process in processes:
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                total += times.user + times.system
        ended = process.cpu_times()
        total += ended.children_user + ended.children_system
    return total


def milliseconds(seconds: list[float]) -> dict[str, float]:
    """Return the number, the median, the 99th percentile and the greatest."""
    p50, p99, most = np.percentile(seconds, [50, 99, 100]) * 1000
    return {"n": len(seconds), "p50": round(p50, 1), "p99": round(p99, 1), "max": round(most, 1)}


def taken_over(lines: list[dict[str, Any]]) -> int:
    """Count the trials of silent workers that another one told."""
    silent = {(line["study"], line["number"]) for line in lines if line["kind"] == "silent"}
    return len(silent & {(line["study"], line["number"]) for line in lines if line["kind"] == "tell"})


def run(setting: Setting, trial_s: float, folder: Path) -> dict[str, Any]:
    """Run the workers; gives what came of it."""
    before = os.getloadavg()[0]
    log = Log(folder / "answers.jsonl")
    with storage_of(setting.storage, folder) as (storage, databases):
        server = Server(0, storage, folder, ",".join(map(str, os.sched_getaffinity(0))))
        server.start()
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        workers = Workers(server.url, setting, trial_s, log)
        cpu, cpu_database = cpu_seconds([process]), cpu_seconds(databases)
        began = time.monotonic()
        try:
            asyncio.run(workers.run())
            took = time.monotonic() - began
            cpu, cpu_database = cpu_seconds([process]) - cpu, cpu_seconds(databases) - cpu_database
            memory = process.memory_info().rss
        finally:
            server.stop()
        faults = list_faults(log.lines, storage, setting)
    requests = sum(workers.statuses.values())
    told = Counter((line["study"], line["number"]) for line in log.lines if line["kind"] == "tell")
    own = psutil.Process().cpu_times()
    return {
        "workers": setting.clients,
        "studies": setting.studies,
        "trials a study": setting.trials,
        "seconds a trial": trial_s,
        "seconds": round(took, 1),
        "answers": dict(sorted(workers.statuses.items())),
        "answers 5xx": sum(n for status, n in workers.statuses.items() if ": 5" in status),
        "results acknowledged": log.counts["tell"],
        "told twice": sum(count - 1 for count in told.values()),
        "workers gone silent": log.counts["silent"],
        "their trials told by others": taken_over(log.lines),
        "leases lost by a living worker": sum(n for status, n in workers.statuses.items() if f": {LOST}" in status),
        "faults": len(faults),
        "first faults": faults[:20],
        "milliseconds": {kind: milliseconds(each) for kind, each in sorted(workers.seconds.items())},
        "requests a second": round(requests / took, 1),
        "CPU ms a request, server": round(1000 * cpu / requests, 2),
        "CPU ms a request, database": round(1000 * cpu_database / requests, 2),
        "CPU seconds of the workers": round(own.user + own.system, 1),
        "MB of the server": round(memory / 1e6),
        "cores": len(os.sched_getaffinity(0)),
        "load average before": round(before, 1),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("warmstart", "fastapi", "uvicorn", "optuna", "sqlalchemy")},
    }


def main() -> int:
    """Run one setting, print it and put it among the results; gives 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = "sqlite" if Postgres.missing() else "postgresql"
    parser.add_argument("--storage", choices=["sqlite", "postgresql"], default=usual)
    parser.add_argument("--workers", type=int, default=500)
    parser.add_argument("--studies", type=int, default=1)
    parser.add_argument("--trials", type=int, default=2000, help="of all studies together")
    parser.add_argument("--trial-s", type=float, default=40.0, help="seconds of a trial, on average")
    parser.add_argument("--surrogate", default="random", help="random, or one of `warmstart tune`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="empty folder for the answers and the server's log")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    setting = Setting(
        storage=given.storage,
        studies=given.studies,
        clients=given.workers,
        trials=given.trials // given.studies,
        kills=0,
        servers=1,
        surrogate=given.surrogate,
        seed=given.seed,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = run(setting, given.trial_s, folder)
    name = f"{given.storage}, {given.workers} workers, {counted_studies(given.studies)}, {given.surrogate}"
    known = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    given.out.write_text(json.dumps(known | {name: found}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: found}, indent=1))
    return int(found["faults"] > 0 or found["answers 5xx"] > 0)


def counted_studies(n: int) -> str:
    """Return the number of studies with its noun."""
    return f"{n} stud{'y' if n == 1 else 'ies'}"


if __name__ == "__main__":
    sys.exit(main())
