"""Batches on Hartmann-6: how evenly the first one of a new run lies, and what batches of 64 find beside Optuna's GPSampler.

`gp` draws its first batch at random, `same` is GPSampler after our first batch. Discrepancies are of one ask(q), centred (lower is more even), beside a plain Sobol sequence of q points. A search asks for a whole batch, then
tells all of it. Each run is one line of --runs; the same command goes on where it was stopped.

    OMP_NUM_THREADS=1 python scripts/bench/first_batch.py --runs runs.jsonl [--seeds 10] [--batches 3] [--out FILE.json]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from functions import hartmann6
from runs import resume, write_report
from scipy.stats import qmc

from warmstart.bo import Optimizer

Q = 64
SIZES = (16, 64)
NAMES = ("ours", "gp", "same")


def run(sampler: str, seed: int, batches: int) -> dict[str, Any]:
    """Search in batches."""
    problem, start = hartmann6(), time.process_time()
    if sampler == "ours":
        errors = ours(problem, seed, batches)
    else:
        errors = theirs(
            problem, seed, batches, first=Optimizer(problem.space, seed=seed).ask(Q) if sampler == "same" else ()
        )
    best = np.minimum.accumulate(errors)[Q - 1 :: Q] - problem.minimum
    return {"best": best.tolist(), "cpu": time.process_time() - start}


def ours(problem: Any, seed: int, batches: int) -> list[float]:
    """Search by our optimiser."""
    optimizer, errors = Optimizer(problem.space, seed=seed), []
    for _ in range(batches):
        for config in optimizer.ask(Q):
            errors.append(problem.value(config))
            optimizer.tell(config, errors[-1])
    return errors


def theirs(problem: Any, seed: int, batches: int, first: Sequence[Any]) -> list[float]:
    """Search by Optuna's sampler, asked for a batch before it is told any of it; the first one may be given."""
    study, errors = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed)), []
    for config in first:
        errors.append(problem.value(config))
        box = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in config}
        study.add_trial(optuna.trial.create_trial(params=dict(config), distributions=box, value=errors[-1]))
    for _ in range(batches - bool(first)):
        asked = []
        for _ in range(Q):
            trial = study.ask()
            asked.append((trial, {f"x{i}": trial.suggest_float(f"x{i}", 0.0, 1.0) for i in range(1, 7)}))
        for trial, config in asked:
            errors.append(problem.value(config))
            study.tell(trial, errors[-1])
    return errors


def discrepancies(seeds: int) -> dict[str, list[float]]:
    """Return the mean centred discrepancy of a first batch of q, and that of a Sobol sequence."""
    space, found = hartmann6().space, {}
    for q in SIZES:
        first = [np.array([list(c.values()) for c in Optimizer(space, seed=s).ask(q)]) for s in range(seeds)]
        plain = [qmc.Sobol(6, rng=s).random(q) for s in range(seeds)]
        found[str(q)] = [float(np.mean([qmc.discrepancy(points) for points in each])) for each in (first, plain)]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    jobs = [{"sampler": n, "seed": s, "batches": asked.batches} for s in range(asked.seeds) for n in NAMES]
    rows = resume(asked.runs, jobs, run)
    curves = {n: np.array([row["best"] for row in rows if row["job"]["sampler"] == n]) for n in NAMES}
    found = {n: np.log10(np.maximum(curve, 1e-6)) for n, curve in curves.items()}
    logs = {n: found["ours"] - found[n] for n in NAMES[1:]}
    report = {
        "discrepancy, ours and Sobol": discrepancies(asked.seeds),
        "mean": {n: curve.mean(axis=0).tolist() for n, curve in curves.items()},
        "median": {n: np.median(curve, axis=0).tolist() for n, curve in curves.items()},
        "log10, ours less theirs": {
            n: [each.mean(axis=0).tolist(), (each.std(axis=0, ddof=1) / len(each) ** 0.5).tolist()]
            for n, each in logs.items()
        },
        "cpu": {n: float(np.mean([r["cpu"] for r in rows if r["job"]["sampler"] == n])) for n in curves},
    }
    write_report(report, asked.out)
