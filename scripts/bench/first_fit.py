"""The first suggestion of a run that begins with many evaluations: ours beside Optuna's GPSampler, and beside a long chain.

CPU seconds of a fit and the first ask on the same random points of a function, one after the other in one process, and those of
the next ask. Held-out log densities are of the process after its first fit, and after a chain of --long sweeps, in nats a point.
Each run is one line of --runs; the same command goes on where it was stopped.

    OMP_NUM_THREADS=1 python scripts/bench/first_fit.py --runs runs.jsonl [--problems ...] [--sizes 30 100 300 1000] [--seeds 3] [--out FILE.json]
"""

import argparse
import resource
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from landscapes import LANDSCAPES
from runs import resume, write_report

from warmstart.bo import Optimizer
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates import GaussianProcess

SIZES = (30, 100, 300, 1000)
HELD_OUT = 500


def seconds() -> float:
    """Read the user CPU clock."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def run(problem: str, n: int, seed: int, long: int) -> dict[str, Any]:
    """Compare on one data set."""
    built = LANDSCAPES[problem]()
    rng, encoding = np.random.default_rng([seed, n]), Encoding(built.space)
    points = encoding.sample(n + HELD_OUT, design="uniform", rng=rng)
    configs, X = encoding.decode(points), encoding.columns(points)
    y = np.array([built.value(config) for config in configs])
    found = {**ours(built, configs[:n], y[:n], seed), **theirs(built, configs[:n], y[:n], seed)}
    first = GaussianProcess().fit(X[:n], y[:n], rng=np.random.default_rng(seed))
    found["density"] = density(first, X[n:], y[n:])
    if long:
        chain = GaussianProcess(burn_in=long // 2, sweeps=long).fit(X[:n], y[:n], rng=np.random.default_rng(seed))
        found["density, long chain"] = density(chain, X[n:], y[n:])
    return found


def ours(built: Any, configs: list[Any], y: Any, seed: int) -> dict[str, float]:
    """Time our first two suggestions."""
    optimizer = Optimizer(built.space, seed=seed)
    for config, error in zip(configs, y, strict=True):
        optimizer.tell(config, error)
    start = seconds()
    config = optimizer.ask()[0]
    end = seconds()
    optimizer.tell(config, built.value(config))
    optimizer.ask()
    return {"ours": end - start, "ours, next": seconds() - end}


def theirs(built: Any, configs: list[Any], y: Any, seed: int) -> dict[str, float]:
    """Time the first suggestion of Optuna's sampler."""
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed))
    bounds = {name: (each.lower, each.upper) for name, each in built.space.items()}
    spaces = {name: optuna.distributions.FloatDistribution(*box) for name, box in bounds.items()}
    for config, error in zip(configs, y, strict=True):
        study.add_trial(optuna.trial.create_trial(params=config, distributions=spaces, value=error))
    start = seconds()
    trial = study.ask()
    for name, box in bounds.items():
        trial.suggest_float(name, *box)
    return {"theirs": seconds() - start}


def density(model: GaussianProcess, X: Any, y: Any) -> float:
    """Compute the mean log density of held-out targets, in units of their standard deviation, under the mixture of all samples."""
    found = model.predict(X)
    var = found.var + found.noise[:, None]
    logs = -0.5 * ((y - found.mean) ** 2 / var + np.log(2.0 * np.pi * var))
    return float((np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))).mean() + np.log(y.std()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--problems", nargs="+", choices=LANDSCAPES, default=["hartmann6", "branin", "levy5"])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 3))
    parser.add_argument("--long", type=int, default=400)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    run("branin", 30, 0, 0)  # imports
    jobs = [
        {"problem": p, "n": n, "seed": s, "long": asked.long if n < 1000 else 0}
        for s in range(*asked.seeds)
        for n in asked.sizes
        for p in asked.problems
    ]
    rows = resume(asked.runs, jobs, run)
    report = {}
    for p in asked.problems:
        for n in asked.sizes:
            some = [row for row in rows if (row["job"]["problem"], row["job"]["n"]) == (p, n)]
            report[f"{p}, {n}"] = {
                "ours": float(np.median([row["ours"] for row in some])),
                "ours, next": float(np.median([row["ours, next"] for row in some])),
                "theirs": float(np.median([row["theirs"] for row in some])),
                "ours / theirs": float(np.median([row["ours"] / row["theirs"] for row in some])),
                "density": float(np.mean([row["density"] for row in some])),
                **(
                    {"less a long chain": [row["density"] - row["density, long chain"] for row in some]}
                    if "density, long chain" in some[0]
                    else {}
                ),
            }
    write_report(report, asked.out)
