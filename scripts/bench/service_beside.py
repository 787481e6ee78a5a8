"""What others wait while somebody sends slow uploads, large bodies or invalid ones: heartbeats and reads of a study.

``python scripts/bench/service_beside.py --seconds 20 --out scripts/bench/results/service-beside.json``

`warmstart serve` has the first core, the clients the others. Eight clients hold a trial each and beat twice a second; one
reads the study ten times a second. Beside them, in turn: nothing; 45 uploads of a megabyte that send a hundred bytes a
second; a client that sends bodies of a megabyte without a pause: descriptors, spaces, studies, texts that are no JSON. Printed: p50
and p99 in milliseconds, and how many heartbeats were refused. Asked: p99 at most 100 ms, none refused.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np
from service_latency import free_port

BEATERS, UPLOADS, SENDERS = 8, 45, 1
ASKED_MS = 100
MEGABYTE = 1_000_000
SPACE = {"x": [0.0, 1.0], "lr": {"log": [1e-5, 1.0]}}


def bodies() -> list[tuple[str, bytes]]:
    """Return paths and bodies of nearly a megabyte."""
    numbers = ",".join(["0.123456"] * (MEGABYTE // 9 - 1000))
    names = ",".join(f'"x{i}":[0,1]' for i in range(MEGABYTE // 14 - 1000))
    return [
        ("/v1/descriptors", f'{{"vector":[{numbers}]}}'.encode()),
        ("/v1/studies", f'{{"name":"big","space":{{{names}}}}}'.encode()),
        ("/v1/studies", b'{"name":"deep","space":' + b"[" * (MEGABYTE // 2) + b"]" * (MEGABYTE // 2 - 100) + b"}"),
        ("/v1/suggestions", b'{"descriptor":"' + b"a\\u0000" * (MEGABYTE // 7 - 100) + b'"}'),
        ("/v1/studies", b'{"name":' * (MEGABYTE // 8 - 10)),
    ]


class Load:
    """Requests in threads until it is closed."""

    def __init__(self, port: int) -> None:
        self.port, self.ends, self.threads = port, threading.Event(), list[threading.Thread]()

    def start(self, work: Callable[..., object], *arguments: object) -> None:
        """Do a piece of work again and again."""

        def run() -> None:
            while not self.ends.is_set():
                with contextlib.suppress(OSError, HTTPException):
                    work(*arguments)

        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def close(self) -> None:
        """End all threads."""
        self.ends.set()
        for thread in self.threads:
            thread.join(10)

    def slow_upload(self) -> None:
        """Send an upload by a hundred bytes a second."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            head = f"POST /v1/descriptors:upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/zip\r\nContent-Length: {MEGABYTE}\r\n\r\n"
            connection.sendall(head.encode())
            while not self.ends.wait(1):
                connection.sendall(b"P" * 100)

    def send(self, path: str, body: bytes) -> None:
        """Send a body and read the answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        connection.close()


def call(connection: HTTPConnection, method: str, path: str, body: object = None) -> tuple[int, bytes, float]:
    """Send a request; gives status, body and milliseconds."""
    started = time.perf_counter()
    text = None if body is None else json.dumps(body).encode()
    connection.request(method, path, text, {} if text is None else {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    return response.status, content, 1000 * (time.perf_counter() - started)


def watched(port: int, seconds: float) -> dict[str, float]:
    """Beat and read for some seconds; gives milliseconds, and what was refused."""
    took: dict[str, list[float]] = {"heartbeat": [], "read": []}
    refused, end = [0], time.perf_counter() + seconds

    def every(pause: float, kind: str, method: str, path: str, body: object) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        while time.perf_counter() < end:
            status, _, ms = call(connection, method, path, body)
            took[kind].append(ms)
            refused[0] += status >= 300
            time.sleep(pause)

    def client(number: int) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        name = f"client-{number}-{time.time_ns()}"
        status, content, _ = call(connection, "POST", "/v1/studies/s/trials:ask", {"client": name, "lease_s": 600})
        assert status == 200, content
        trial = json.loads(content)["trials"][0]["number"]
        path = f"/v1/studies/s/trials/{trial}:heartbeat"
        every(0.5, "heartbeat", "POST", path, {"client": name})

    work = [threading.Thread(target=client, args=(i,)) for i in range(BEATERS)]
    work.append(threading.Thread(target=every, args=(0.1, "read", "GET", "/v1/studies/s", None)))
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    figures = {"refused": float(refused[0])}
    for kind, times in took.items():
        p50, p99 = np.percentile(times, [50, 99])
        figures |= {f"{kind}_p50_ms": round(float(p50), 1), f"{kind}_p99_ms": round(float(p99), 1)}
    return figures


@contextlib.contextmanager
def served(folder: Path) -> Iterator[int]:
    """Start a server on the first core with a study of random configurations."""
    cores, port = sorted(os.sched_getaffinity(0)), free_port()
    command = [sys.executable, "-m", "warmstart", "serve", "--port", str(port), "--storage", f"sqlite:///{folder}/s.db"]
    log = (folder / "log").open("wb")
    server = subprocess.Popen(["taskset", "-c", str(cores[0]), *command], stdout=log, stderr=log, cwd=folder)
    os.sched_setaffinity(0, cores[1:] or cores)
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        begin = {"name": "s", "space": SPACE, "warm": "none", "startup": 500}
        status, content, _ = call(HTTPConnection("127.0.0.1", port, timeout=60), "POST", "/v1/studies", begin)
        assert status == 201, content
        yield port
    finally:
        server.terminate()
        server.wait(30)
        os.sched_setaffinity(0, cores)


def main() -> int:
    """Measure, print and write; gives 1 where others waited too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as port:
        watched(port, 2)
        for beside in ("nothing", "slow uploads", *(f"{path} of {len(body):,} bytes" for path, body in bodies())):
            load = Load(port)
            if beside == "slow uploads":
                for _ in range(UPLOADS):
                    load.start(load.slow_upload)
            elif beside != "nothing":
                path, body = bodies()[len(found) - 2]
                for _ in range(SENDERS):
                    load.start(load.send, path, body)
            time.sleep(1)
            found[f"{len(found)}: {beside}"] = watched(port, options.seconds)
            load.close()
            print(f"{beside:40} {found[f'{len(found) - 1}: {beside}']}", flush=True)
    if options.out:
        result = {"load": os.getloadavg(), "beside": found}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    worst = max(value for figures in found.values() for name, value in figures.items() if name.endswith("p99_ms"))
    return int(worst > ASKED_MS or any(figures["refused"] for figures in found.values()))


if __name__ == "__main__":
    sys.exit(main())
