"""Whether searches of 200 evaluations end in the best basin, and what restarts cost where there is none better.

A line of --runs is a run: its errors in order, and the evaluations before which it counted as converged, or restarted. The same command
goes on where it was stopped. A run that never restarted is the same without restarts, and is not run again. Differences are of log10 regrets (at least
1e-9), with restarts less without, paired by seed; `upper` is the upper end of their 95 % interval.

    OMP_NUM_THREADS=1 python scripts/bench/basins.py --runs runs.jsonl [--problems hartmann6 ...] [--seeds 100 130] [--out FILE.json]
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from landscapes import LANDSCAPES
from runs import resume, write_report
from scipy.stats import t as student

from warmstart.bo import Optimizer

T = 200
SHOWN = (40, 80, 200)
TRAPPED = 0.01
LEAST = 1e-9
DEFAULT = ("hartmann6", "levy5", "rosenbrock4", "shekel4", "ellipsoid5", "branin", "ackley4", "griewank-rosenbrock4")


def run(problem: str, seed: int, restarts: bool) -> dict[str, Any]:  # noqa: FBT001  a field of a job
    """Search one function."""
    built, start = LANDSCAPES[problem](), time.process_time()
    optimizer = Optimizer(built.space, seed=seed, restarts=restarts)
    errors: list[float] = []
    converged: list[int] = []
    restarting: list[int] = []
    for t in range(T):
        if optimizer.converged:
            (restarting if "restarting" in optimizer.converged else converged).append(t)
        config = optimizer.ask()[0]
        errors.append(built.value(config))
        optimizer.tell(config, errors[-1])
    return {"errors": errors, "converged": converged, "restarting": restarting, "cpu": time.process_time() - start}


def summarise(problem: str, rows: list[dict[str, Any]], without: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Count the runs that are trapped at the end, and compare with those without restarts."""
    least = LANDSCAPES[problem]().minimum
    best, other = (
        np.array([np.minimum.accumulate(row["errors"]) for row in each]) - least
        for each in (rows, [without.get(row["job"]["seed"], row) for row in rows])
    )
    logs = np.log10(np.maximum(best, LEAST)) - np.log10(np.maximum(other, LEAST))
    half = student.ppf(0.975, len(rows) - 1) * logs.std(axis=0, ddof=1) / len(rows) ** 0.5
    return {
        "runs": len(rows),
        "converged": sum(bool(row["converged"] + row["restarting"]) for row in rows),
        "restarted": sum(bool(row["restarting"]) for row in rows),
        "trapped": int((best[:, -1] > TRAPPED).sum()),
        "trapped without": int((other[:, -1] > TRAPPED).sum()),
        "mean": float(best[:, -1].mean() + least),
        "mean without": float(other[:, -1].mean() + least),
        "cpu": float(np.mean([row["cpu"] for row in rows])),
        **{f"log10@{t}": float(logs[:, t - 1].mean()) for t in SHOWN},
        **{f"upper@{t}": float((logs.mean(axis=0) + half)[t - 1]) for t in SHOWN},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--problems", nargs="+", choices=LANDSCAPES, default=DEFAULT)
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 130))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    jobs = [{"problem": p, "seed": s, "restarts": True} for s in range(*asked.seeds) for p in asked.problems]
    rows = resume(asked.runs, jobs, run)
    again = [{**row["job"], "restarts": False} for row in rows if row["restarting"]]
    others = resume(asked.runs, again, run)
    report = {}
    for p in asked.problems:
        without = {row["job"]["seed"]: row for row in others if row["job"]["problem"] == p}
        report[p] = summarise(p, [row for row in rows if row["job"]["problem"] == p], without)
    write_report(report, asked.out)
