"""Whether searches of 200 evaluations end in the best basin, and what restarts cost where there is none better.

A line of --runs is a run: its errors in order, what each suggestion promised, and the evaluations at which the search counted
as converged. The same command goes on where it was stopped. `restarts` off is the search as it was before there were any;
a run that never converged is the same without them, and is not run again.

    OMP_NUM_THREADS=1 python scripts/bench/basins.py --runs runs.jsonl [--problems hartmann6 ...] [--seeds 100 130] [--out FILE.json]
"""

import argparse
import time
from pathlib import Path
from typing import Any

from landscapes import LANDSCAPES
from runs import resume

from bo import Optimizer

T = 200
SHOWN = (40, 80, 200)


def run(problem: str, seed: int, restarts: bool) -> dict[str, Any]:  # noqa: FBT001  a field of a job
    """Search one function."""
    built = LANDSCAPES[problem]()
    optimizer = Optimizer(built.space, seed=seed, restarts=restarts)
    errors, converged = [], []
    start = time.process_time()
    for t in range(T):
        config = optimizer.ask()[0]
        if optimizer.converged:
            converged.append(t)
        errors.append(built.value(config))
        optimizer.tell(config, errors[-1])
    return {"errors": errors, "converged": converged, "cpu": time.process_time() - start}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--problems", nargs="+", choices=LANDSCAPES, default=["hartmann6"])
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 130))
    asked = parser.parse_args()
    jobs = [{"problem": p, "seed": s, "restarts": False} for s in range(*asked.seeds) for p in asked.problems]
    resume(asked.runs, jobs, run)
