"""Latency of suggestions from a descriptor over a simulated history of many datasets, beside a bare FastAPI echo.

The server runs on one core, the load on another where there are two.

    python scripts/bench/service_latency.py                                                 # the whole, ten minutes
    python scripts/bench/service_latency.py --datasets 300 --requests 300 --out latency.json   # a minute
    python scripts/bench/service_latency.py --history FILE.h5 --clients 16 --rate 2 --writes 1 --requests 240 --out FILE.json

With `--history` of a file that exists (`scripts/bench/size.py` makes very large ones), and `--writes` a second recorded by a
writer beside.
"""

import argparse
import contextlib
import itertools
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path

import numpy as np

from warmstart.descriptor import Descriptor
from warmstart.history_store.history import History
from warmstart.history_store.quick_append import append_quickly
from warmstart.history_store.records import DatasetInfo, Evaluation
from warmstart.locations import model_path, shipped_history
from warmstart.metafeat.model_file import read_header
from warmstart.metafeat.sample_statistics import ClassSignal, SampleStatistics
from warmstart.suggestions.references import References, read_references, store_references

ECHO = """
import sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
app = FastAPI()
class Body(BaseModel):
    descriptor: dict
@app.post("/v1/suggestions")
def echo(body: Body) -> dict:
    return {"n": len(body.descriptor["vector"])}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


def simulated(path: Path, m: int, model_hash: str) -> None:
    """Write a history of m datasets in m / 2 groups over the shipped configurations; embeddings and statistics are near the shipped ones."""
    rng = np.random.default_rng(0)
    with History.open(shipped_history()) as shipped:
        configs, space, errors = [dict(config) for config in shipped.configs], shipped.space_json, shipped.errors
        known = np.stack(list(shipped.embeddings(model_hash).values()))
        about = read_references(shipped, model_hash)
    assert about is not None, "the shipped history holds the statistics of its datasets"
    usual = np.nanmean(errors, axis=0)
    infos = [DatasetInfo(f"d{i}", f"g{i // 2}", 100, 30, 30, 5) for i in range(m)]
    runs = [
        Evaluation(f"d{i}", config, float(np.clip(error, 0, 1)), seed=0)
        for i in range(m)
        for config, error in zip(configs, usual + rng.normal(0, 0.1, len(configs)), strict=True)
    ]
    like = rng.integers(0, len(about.names), m)
    names = tuple(f"d{i}" for i in range(m))
    effects = np.abs(about.effects[like] + rng.normal(0, 0.05, m))
    pixels = about.pixels[like] + rng.normal(0, 0.02, (m, about.pixels.shape[1]))
    vectors = known[rng.integers(0, len(known), m)] + rng.normal(0, 0.01, (m, known.shape[1])).astype(np.float32)
    with History.create(path, space, configs=configs) as history:
        history.extend(runs, datasets=infos)
        history.set_embeddings(model_hash, {f"d{i}": vectors[i].astype(np.float32) for i in range(m)})
        store_references(history, References(names, effects, pixels, about.sizes, about.movements), model_hash)


def descriptors(n: int) -> list[bytes]:
    """Make bodies of requests: descriptors near those of the shipped datasets, with statistics of their pictures."""
    header, rng = read_header(model_path()), np.random.default_rng(1)
    with History.open(shipped_history()) as shipped:
        known = np.stack(list(shipped.embeddings(header.hash).values()))
        about = read_references(shipped, header.hash)
    assert about is not None
    bodies = []
    for _ in range(n):
        vector = (known[rng.integers(len(known))] + rng.normal(0, 0.01, known.shape[1])).astype(np.float32)
        pixels = about.pixels[rng.integers(len(about.names))] + rng.normal(0, 0.02, about.pixels.shape[1])
        sample = SampleStatistics(100, 1.0, 1.0, ClassSignal(float(rng.uniform(5, 50)), 20.0), pixels)
        told = Descriptor(header.hash, vector, 100, 2, (50, 50), sample)
        bodies.append(json.dumps({"descriptor": told.to_dict()}).encode())
    return bodies


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def load(port: int, bodies: list[bytes], rate: float, warm: int, clients: int = 8) -> list[float]:
    """Send requests at a rate over some connections, whoever is slow; returns seconds from when each was due."""
    took, lock, start = [0.0] * len(bodies), threading.Lock(), time.perf_counter() + 0.5
    following = iter(range(len(bodies)))

    def send() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        while True:
            with lock:
                i = next(following, None)
            if i is None:
                return
            due = start + i / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.request("POST", "/v1/suggestions", bodies[i], {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            assert response.status == 200, response.status
            took[i] = time.perf_counter() - due

    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(send) for _ in range(clients)]:
            done.result()
    return took[warm:]


def record(path: Path, rate: float, took: list[float], stop: threading.Event) -> None:
    """Record runs in a history at a rate until told to stop, and note the seconds that each takes."""
    with History.open(path) as history:
        names, configs = history.names, history.configs
    started = time.time_ns()
    for number in itertools.count():
        if stop.wait(1 / rate):
            return
        run = Evaluation(names[number * 9973 % len(names)], configs[number % len(configs)], 0.5, seed=started + number)
        began = time.perf_counter()
        if append_quickly(path, run) is None:
            with History.open(path, write=True) as history:
                history.append(run)
        took.append(time.perf_counter() - began)


def measured(
    command: list[str],
    port: int,
    bodies: list[bytes],
    rate: float,
    warm: int,
    *,
    clients: int = 8,
    writes: tuple[Path, float] | None = None,
) -> dict[str, float]:
    """Serve and ask; returns milliseconds, and what the server used."""
    cores = sorted(os.sched_getaffinity(0))
    server = subprocess.Popen(["taskset", "-c", str(cores[0]), *command])
    os.sched_setaffinity(0, cores[1:] or cores)
    try:
        began = time.perf_counter()
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        load(port, bodies[:1], 1000, 0)
        first = time.perf_counter() - began
        used, stop, recorded = cpu_seconds(server.pid), threading.Event(), list[float]()
        writer = None if writes is None else threading.Thread(target=record, args=(*writes, recorded, stop))
        if writer is not None:
            writer.start()
        took = np.array(load(port, bodies, rate, warm, clients)) * 1000
        stop.set()
        if writer is not None:
            writer.join()
        used = cpu_seconds(server.pid) - used
        status = Path(f"/proc/{server.pid}/status").read_text()
        peak = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
        p50, p99 = np.percentile(took, [50, 99])
        return {
            "p50_ms": float(p50),
            "p99_ms": float(p99),
            "max_ms": float(took.max()),
            "cpu_ms_a_request": 1000 * used / len(bodies),
            "recorded": len(recorded),
            "record_p50_ms": 1000 * float(np.median(recorded)) if recorded else float("nan"),
            "first_s": first,
            "peak_mib": peak,
        }
    finally:
        server.terminate()
        server.wait()
        os.sched_setaffinity(0, cores)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--history", type=Path)
    parser.add_argument("--writes", type=float, default=0.0, metavar="A_SECOND")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "service_latency.json")
    given = parser.parse_args()
    warm = min(200, given.requests // 10)
    bodies = descriptors(given.requests + warm)
    with tempfile.TemporaryDirectory() as folder:
        path, port = given.history or Path(folder) / "many.h5", free_port()
        if given.history is None:
            simulated(path, given.datasets, read_header(model_path()).hash)
        with History.open(path, write=given.writes > 0) as history:
            n_datasets = len(history.names)
            if given.writes:  # the first write makes the backup and the index of runs
                history.append(Evaluation(history.names[0], history.configs[0], 0.5, seed=time.time_ns()))
        ours = [sys.executable, "-m", "warmstart", "serve", "--port", str(port), "--history", str(path), "-q"]
        report = {
            "datasets": n_datasets,
            "requests": given.requests,
            "rate": given.rate,
            "clients": given.clients,
            "writes a second": given.writes,
            "warmstart": measured(
                ours,
                port,
                bodies,
                given.rate,
                warm,
                clients=given.clients,
                writes=(path, given.writes) if given.writes else None,
            ),
        }
        port = free_port()
        report["echo"] = measured([sys.executable, "-c", ECHO, str(port)], port, bodies, given.rate, warm)
    report |= {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("warmstart", "fastapi", "uvicorn", "numpy")},
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "self_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
