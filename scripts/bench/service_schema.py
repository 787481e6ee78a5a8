"""Requests made from the OpenAPI document by schemathesis, with links from answer to request: no 5xx, no breach of the schema.

    pip install schemathesis
    python scripts/bench/service_schema.py                    # 10,000 requests or more
    python scripts/bench/service_schema.py --cases 500 --out schema.json

Rounds of other seeds follow each other until there were enough requests; the same command goes on where it was stopped. What
a server answers besides JSON, and answers without end, is left to the tests: uploads and events.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from warmstart.locations import shipped_history

RESULTS = Path(__file__).parent / "results" / "service_schema.json"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
LEFT_OUT = "events|upload"
DIGITS = re.compile(r"(\d[\d,]*) generated")


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a server over a history of its own and new studies; gives its URL."""
    history = folder / "history.h5"
    shutil.copy(shipped_history(), history)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--port", str(port), "--storage", str(folder / "studies.db"), "--history", str(history), "-q"]
    with (folder / "server.log").open("wb") as said:
        process = subprocess.Popen([sys.executable, "-m", "warmstart", "serve", *words], stdout=said, stderr=said)
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert process.poll() is None, (folder / "server.log").read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def one_round(seed: int, examples: int) -> dict[str, Any]:
    """Send one round of requests; gives how many, and what was wrong."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place, server(Path(place)) as url:
        options = ["--checks", ",".join(CHECKS), "--max-examples", str(examples), "--seed", str(seed)]
        more = ["--exclude-path-regex", LEFT_OUT, "--continue-on-failure", "--no-color", "--request-timeout", "120"]
        words = [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            f"{url}/v1/openapi.json",
            "--phases",
            "examples,coverage,fuzzing,stateful",
        ]
        done = subprocess.run([*words, *options, *more], cwd=place, capture_output=True, text=True, check=False)
        log = (Path(place) / "server.log").read_text()
    told = DIGITS.search(done.stdout)
    is_bad = done.returncode != 0
    return {
        "seed": seed,
        "examples": examples,
        "cases": int(told[1].replace(",", "")) if told else 0,
        "passed": not is_bad,
        "seconds": round(time.monotonic() - began, 1),
        **({"said": done.stdout[-20_000:] + done.stderr[-2000:], "log": log[-5000:]} if is_bad else {}),
    }


def main() -> int:
    """Send rounds until there were enough requests, and write after each; gives 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--examples", type=int, default=30, help="of each operation, a round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--again", action="store_true", help="begin anew")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if importlib.util.find_spec("schemathesis") is None:
        sys.exit("expected schemathesis, which is not installed: pip install schemathesis")
    is_known = given.out.exists() and not given.again
    rounds: list[dict[str, Any]] = json.loads(given.out.read_text(encoding="utf-8"))["rounds"] if is_known else []
    while sum(each["cases"] for each in rounds) < given.cases:
        rounds.append(one_round(given.seed + len(rounds), given.examples))
        report = {
            "cases": sum(each["cases"] for each in rounds),
            "failed rounds": sum(not each["passed"] for each in rounds),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in ("warmstart", "schemathesis", "fastapi", "pydantic")},
            "rounds": rounds,
        }
        given.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        last = rounds[-1]
        print(
            f"seed {last['seed']}: {last['cases']} requests, {'passed' if last['passed'] else last['said']}", flush=True
        )
        if not last["cases"]:
            return 1
    return int(any(not each["passed"] for each in rounds))


if __name__ == "__main__":
    sys.exit(main())
