"""What `warp_errors=True` changes: searches of functions whose values go over orders of magnitude, and of others.

Differences are of log10 regrets (at least 1e-9), with the option less without, paired by seed, ± half a 95 % interval. Each run is one line of
--runs; the same command goes on where it was stopped.

    OMP_NUM_THREADS=1 python scripts/bench/warped_errors.py --runs runs.jsonl [--problems rosenbrock4 ...] [--seeds 0 10] [--out FILE.json]
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from landscapes import LANDSCAPES
from runs import resume, write_report
from scipy.stats import t as student

from bo import Optimizer

SHOWN = (20, 40, 80)
LEAST = 1e-9


def run(problem: str, seed: int, warp: bool) -> dict[str, Any]:  # noqa: FBT001  a field of a job
    """Search one function."""
    built, start = LANDSCAPES[problem](), time.process_time()
    optimizer = Optimizer(built.space, seed=seed, warp_errors=warp)
    errors: list[float] = []
    for _ in range(SHOWN[-1]):
        config = optimizer.ask()[0]
        errors.append(built.value(config))
        optimizer.tell(config, errors[-1])
    best = np.minimum.accumulate(errors) - built.minimum
    return {"best": [float(best[t - 1]) for t in SHOWN], "cpu": time.process_time() - start}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--problems", nargs="+", choices=LANDSCAPES, default=list(LANDSCAPES))
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    jobs = [
        {"problem": p, "seed": s, "warp": w} for s in range(*asked.seeds) for p in asked.problems for w in (False, True)
    ]
    rows = resume(asked.runs, jobs, run)
    report = {}
    for p in asked.problems:
        plain, warped = (
            np.array([r["best"] for r in rows if r["job"]["problem"] == p and r["job"]["warp"] is w]) for w in (False, True)
        )  # fmt: skip
        logs = np.log10(np.maximum(warped, LEAST)) - np.log10(np.maximum(plain, LEAST))
        half = student.ppf(0.975, len(logs) - 1) * logs.std(axis=0, ddof=1) / len(logs) ** 0.5
        report[p] = {
            "median": np.median(plain, axis=0).tolist(),
            "median, warped": np.median(warped, axis=0).tolist(),
            "log10": [logs.mean(axis=0).tolist(), half.tolist()],
            "cpu": [
                float(np.mean([r["cpu"] for r in rows if r["job"]["problem"] == p and r["job"]["warp"] is w]))
                for w in (False, True)
            ],
        }
    write_report({"evaluations": SHOWN, **report}, asked.out)
