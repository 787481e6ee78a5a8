"""What a report of a trial costs: one worker, SQLite, as a trial sees it.

``python scripts/bench/reports.py --calls 3000 --out scripts/bench/results/reports.json``
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import warmstart

CALLS = "REPORTS_CALLS"
TIMES = "REPORTS_TIMES"


def objective(config: dict[str, float], report: object) -> float:  # noqa: ARG001
    """Report so many times, and write down how long each call took."""
    times = []
    for step in range(int(os.environ[CALLS])):
        started = time.perf_counter()
        report(step, 0.5)  # type: ignore[operator]
        times.append(time.perf_counter() - started)
    Path(os.environ[TIMES]).write_text(json.dumps(times), encoding="utf-8")
    return 0.5


def measure(calls: int) -> dict[str, object]:
    """Run one trial; gives milliseconds a call."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {CALLS: str(calls), TIMES: f"{folder}/times"}
        storage = f"{folder}/studies.db"
        warmstart.tune(objective=objective, space="compact", warm="none", trials=1, storage=storage)
        times = [1000 * seconds for seconds in json.loads(Path(folder, "times").read_text(encoding="utf-8"))]
    quarters = statistics.quantiles(times, n=100)
    return {
        "calls": calls,
        "median_ms": statistics.median(times),
        "p99_ms": quarters[98],
        "total_s": sum(times) / 1000,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = json.dumps(measure(options.calls), indent=1) + "\n"
    sys.stdout.write(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
