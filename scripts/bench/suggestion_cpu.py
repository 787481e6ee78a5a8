"""CPU seconds of a suggestion, by this code and by other checkouts of it, such as one of an earlier version.

Each search has 20 evaluations a dimension and a process of its own; the checkouts take turns. A line of --runs is a search; the same
command goes on where it was stopped. Ratios are those of the first checkout to each other one.

    OMP_NUM_THREADS=1 python scripts/bench/suggestion_cpu.py --runs runs.jsonl --checkouts . ../warmstart-0.1 [--functions levy5 ...] [--seeds 500 503] [--evaluations N] [--out FILE.json]
"""

import argparse
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from landscapes import LANDSCAPES
from runs import Job, resume, search, write_report

FUNCTIONS = ("branin", "hartmann3", "hartmann6", "levy5", "rosenbrock4", "shekel4", "ellipsoid5", "ackley4")
HALF = 0.5


def run_here(function: str, seed: int, t: int | None) -> None:
    """Search a function by the code on the path, and print CPU seconds of the asks, all and of the first half, and the regret."""
    problem = LANDSCAPES[function]()
    t = t or 20 * len(problem.space)
    trace = search(problem.space, problem.value, t, seed=seed)
    early = trace.asks[: int(HALF * t)]
    print(f"{np.mean(trace.asks)} {np.mean(early)} {min(trace.errors) - problem.minimum}")


def run(folders: dict[str, Path], *, checkout: str, function: str, seed: int, t: int | None = None) -> dict[str, Any]:
    """Search a function by the code of a checkout, in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--here", function, str(seed), *([str(t)] if t else [])]
    environment = {**os.environ, "PYTHONPATH": str(folders[checkout].resolve())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        msg = f"{checkout}: {function} with seed {seed} ended with {done.returncode}: {done.stderr}"
        raise RuntimeError(msg)
    cpu, early, regret = map(float, done.stdout.split())
    return {"cpu": cpu, "cpu early": early, "regret": regret}


def summarise(rows: list[dict[str, Any]], checkouts: list[str]) -> dict[str, Any]:
    """Return mean CPU seconds a suggestion by function and checkout, and geometric means of ratios."""
    report: dict[str, Any] = {}
    for function in dict.fromkeys(row["job"]["function"] for row in rows):
        here = [row for row in rows if row["job"]["function"] == function]
        figures: dict[str, Any] = {}
        for checkout in checkouts:
            own = [row for row in here if row["job"]["checkout"] == checkout]
            figures[checkout] = {key: float(np.mean([row[key] for row in own])) for key in ("cpu", "cpu early")}
            figures[checkout]["median regret"] = float(np.median([row["regret"] for row in own]))
        for other in checkouts[1:]:
            for key in ("cpu", "cpu early"):
                figures[f"{key} over {other}"] = figures[checkouts[0]][key] / figures[other][key]
        report[function] = figures
    means: dict[str, float] = {}
    for other in checkouts[1:]:
        for key in ("cpu", "cpu early"):
            ratios = [figures[f"{key} over {other}"] for figures in report.values()]
            means[f"{key} over {other}, geometric mean"] = float(np.exp(np.mean(np.log(ratios))))
    return {**report, **means}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        run_here(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else None)
        raise SystemExit
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--checkouts", nargs="+", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--functions", nargs="+", choices=list(LANDSCAPES), default=FUNCTIONS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(500, 503))
    parser.add_argument("--evaluations", type=int, help="evaluations of a search [20 a dimension]")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    folders = {each.resolve().name: each for each in asked.checkouts}
    jobs: list[Job] = [
        {
            "checkout": name,
            "function": function,
            "seed": seed,
            **({"t": asked.evaluations} if asked.evaluations else {}),
        }
        for seed in range(*asked.seeds)
        for function in asked.functions
        for name in folders
    ]
    write_report(summarise(resume(asked.runs, jobs, partial(run, folders)), list(folders)), asked.out)
