"""Searches under unknown constraints, and batches while nothing valid is known.

Searches: two functions of two dimensions, 30 evaluations; regret of the best valid point (nan: none yet) after 10, 20 and 30,
and how many evaluations were not valid. Batches of four on a narrow valid region (a strip, cut off on one side, turned at
random): how many until one point is valid, at most eight. `--networks-beyond 0` lets networks learn constraints from the
first labels on, beside `dngo`; the default is that of the package.

    OMP_NUM_THREADS=1 python scripts/bench/constraints.py [--surrogates dngo gp] [--seeds 300 310] [--networks-beyond 0] [--out FILE.json]
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace
from functions import branin_value
from runs import write_report

import warmstart.bo.models
from warmstart.bo import Optimizer

T, SHOWN, BATCH, MOST = 30, (10, 20, 30), 4, 8
Found = tuple[float, dict[str, bool]]


def gramacy(x: float, y: float) -> Found:
    """Return the sum of both, in the unit square without a disc around the far corner and all below a wave."""
    wave = 1.5 - x - 2 * y - 0.5 * np.sin(2 * np.pi * (x * x - 2 * y))
    return x + y, {"wave": bool(wave <= 0), "disc": x * x + y * y <= 1.5}


def disc(x: float, y: float) -> Found:
    """Return Branin's function inside a disc."""
    u, v = 15 * x - 5, 15 * y
    return branin_value(u, v), {"disc": (u - 2.5) ** 2 + (v - 7.5) ** 2 <= 50}


PROBLEMS: dict[str, tuple[Callable[[float, float], Found], float]] = {
    "gramacy": (gramacy, 0.5998),
    "branin in a disc": (disc, 0.39789),
}


def square() -> ConfigurationSpace:
    """Make the unit square."""
    return ConfigurationSpace({"x": (0.0, 1.0), "y": (0.0, 1.0)})


def search(name: str, surrogate: str, seed: int) -> tuple[list[float], int]:
    """Search; return the regrets of the best valid point so far, and how many evaluations were not valid."""
    problem, least = PROBLEMS[name]
    optimizer, best, invalid, regrets = Optimizer(square(), surrogate=surrogate, seed=seed), np.nan, 0, []
    for _ in range(T):
        config = optimizer.ask()[0]
        error, constraints = problem(config["x"], config["y"])
        optimizer.tell(config, error, constraints=constraints)
        is_valid = all(constraints.values())
        invalid += not is_valid
        best = np.fmin(best, error) if is_valid else best
        regrets.append(float(best) - least)
    return regrets, invalid


def batches(surrogate: str, seed: int) -> int:
    """Count the batches until one point is valid."""
    angle = np.random.default_rng(seed).uniform(0, np.pi)
    along, across = (np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))
    optimizer = Optimizer(square(), surrogate=surrogate, seed=seed)
    for number in range(1, MOST + 1):
        found = False
        for config in optimizer.ask(BATCH):
            point = np.array([config["x"], config["y"]]) - 0.5
            constraints = {"A": point @ along < 0.05, "B": point @ along > -0.05, "C": point @ across > 0.15}
            constraints = {name: bool(met) for name, met in constraints.items()}
            optimizer.tell(config, 1.0, constraints=constraints)
            found |= all(constraints.values())
        if found:
            return number
    return MOST


def summarise(surrogate: str, seeds: range) -> dict[str, Any]:
    """Run everything with one surrogate."""
    report: dict[str, Any] = {}
    for name in PROBLEMS:
        runs = [search(name, surrogate, seed) for seed in seeds]
        regrets = np.array([regret for regret, _ in runs])
        report[name] = {f"regret@{t}": np.sort(regrets[:, t - 1]).tolist() for t in SHOWN}
        report[name] |= {f"median@{t}": float(np.median(np.nan_to_num(regrets[:, t - 1], nan=np.inf))) for t in SHOWN}
        report[name]["not valid"] = float(np.mean([invalid for _, invalid in runs]))
    found = [batches(surrogate, seed) for seed in seeds]
    return report | {"batches": {"each": found, "mean": float(np.mean(found))}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surrogates", nargs="+", default=["dngo"])
    parser.add_argument("--seeds", type=int, nargs=2, default=(300, 310))
    parser.add_argument("--networks-beyond", type=int)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.networks_beyond is not None:
        warmstart.bo.models.NETWORKS_BEYOND = asked.networks_beyond
    write_report({name: summarise(name, range(*asked.seeds)) for name in asked.surrogates}, asked.out)
