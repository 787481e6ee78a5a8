"""What related tasks are worth to a search, and what they cost where they are inverted or have nothing to do with it.

Families of functions, each a random one a seed; a target with three tasks of 30 points: `related` (the target,
a little bent, in units of their own), `inverted` (minus that) or `unrelated` (other members of another family). Each multi-task surrogate is beside the same without
related tasks, from its default start. A family may also be a table, an npz as `warmstart evaluate --table` reads it: the target is one of its
datasets, regret a share of its range, tasks are three datasets of other groups (`inverted`: minus those; `unrelated`: smooth
functions of the configurations). A line of --runs is a search of 20 evaluations; the same command goes on where it was stopped.

    OMP_NUM_THREADS=1 python scripts/bench/unrelated.py --runs runs.jsonl [--families ...] [--kinds ...] [--surrogates mt-gp ...] [--seeds 0 20] [--out FILE.json]
"""

import argparse
import time
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace, Float
from functions import branin_value
from landscapes import hartmann3, levy, rosenbrock
from numpy.typing import NDArray
from runs import resume, write_report

from warmstart.bo import Optimizer, RelatedTask
from warmstart.bo.search import search_table
from warmstart.bo.surrogates import Task
from warmstart.bo.transfer.regret import regret_curve
from warmstart.training.evaluation.table import read_table

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
T, TASKS, POINTS = 20, 3, 30
SHOWN = (10, 20)
BEND = 0.05
KINDS = ("related", "inverted", "unrelated")


def waves(rng: np.random.Generator, d: int) -> Function:
    """Draw a smooth function: a sum of 20 cosines."""
    W, b, a = 3.0 * rng.standard_normal((20, d)), rng.uniform(0.0, 6.3, 20), rng.standard_normal(20)
    return lambda X: np.cos(X @ W.T + b) @ a


def bowls(rng: np.random.Generator, d: int) -> Function:
    """Draw a bowl with its least value anywhere, flat far from it."""
    centre, widths = rng.random(d), rng.uniform(0.2, 1.0, d)
    return lambda X: -np.exp(-0.5 * np.square((X - centre) / widths).sum(axis=1))


def moved(value: Callable[[Floats], float], low: float, high: float, rng: np.random.Generator, d: int) -> Function:
    """Draw a place and a turn of axes for a function on a box."""
    order, flip = rng.permutation(d), rng.random(d) < 0.5
    shift = rng.uniform(-0.1, 0.1, d)

    def values(X: Floats) -> Floats:
        Z = np.where(flip, 1.0 - X, X)[:, order] + shift
        return np.array([value(low + (high - low) * z) for z in Z])

    return values


def branin(x: Floats) -> float:
    """Compute Branin's function on the unit square."""
    return branin_value(float(15.0 * x[0] - 5.0), float(15.0 * x[1]))


FAMILIES: dict[str, tuple[int, Callable[[np.random.Generator], Function]]] = {
    "branin": (2, partial(moved, branin, 0.0, 1.0, d=2)),
    "hartmann3": (3, partial(moved, hartmann3, 0.0, 1.0, d=3)),
    "waves2": (2, partial(waves, d=2)),
    "bowls4": (4, partial(bowls, d=4)),
    "rosenbrock3": (3, partial(moved, lambda x: float(np.log1p(rosenbrock(x))), -2.0, 2.0, d=3)),
    "levy2": (2, partial(moved, levy, -4.0, 6.0, d=2)),
    "waves5": (5, partial(waves, d=5)),
}
"""Dimensions, and what draws a member."""


@lru_cache
def members(family: str, seed: int) -> tuple[int, Function, float, list[Function]]:
    """Draw a target, its least value, and three strangers from other families in as many dimensions."""
    rng = np.random.default_rng([seed, *family.encode()])
    d, draw = FAMILIES[family]
    target = draw(rng)
    strangers = [(waves if rng.random() < 0.5 else bowls)(rng, d) for _ in range(TASKS)]
    X = rng.random((20_000, d))
    low = X[np.argsort(target(X))[:20]]
    for width in (0.05, 0.02, 0.01, 0.003, 0.001, 0.0003, 0.0001):
        near = np.clip(np.concatenate([low, *(low + width * rng.standard_normal(low.shape) for _ in range(60))]), 0, 1)
        low = near[np.argsort(target(near))[:20]]
    return d, target, float(target(low).min()), strangers


def tasks(family: str, seed: int, kind: str) -> list[tuple[Floats, Floats]]:
    """Evaluate three related tasks at 30 points each, in units of their own."""
    rng = np.random.default_rng([seed, 1, *kind.encode()])
    d, target, _, strangers = members(family, seed)
    found = []
    for stranger in strangers:
        X = rng.random((POINTS, d))
        if kind == "unrelated":
            y = stranger(X)
        else:
            y, other = target(X), waves(rng, d)(X)
            y = y + BEND * y.std() * other / other.std()
            y = -y if kind == "inverted" else y
        scale, shift = np.exp(0.5 * rng.standard_normal()), rng.standard_normal()
        found.append((X, scale * (y - y.mean()) / y.std() + shift))
    return found


def search_of_table(path: str, kind: str, surrogate: str, seed: int) -> dict[str, Any]:
    """Search one dataset of a table, drawn by the seed."""
    table, rng = read_table(Path(path)), np.random.default_rng([seed, 2])
    errors, unit = np.asarray(table.errors, dtype=np.float64), np.asarray(table.unit)
    complete = np.flatnonzero(~np.isnan(errors).any(axis=1))
    target = int(rng.choice(complete))
    others = [row for row in complete.tolist() if table.groups[row] != table.groups[target]]
    related = []
    for row in rng.choice(others, TASKS, replace=False).tolist():
        rows = rng.choice(len(unit), POINTS, replace=False)
        known = waves(rng, unit.shape[1])(np.nan_to_num(unit, nan=0.5)) if kind == "unrelated" else errors[row]
        y = (-known if kind == "inverted" else known)[rows]
        scale, shift = np.exp(0.5 * rng.standard_normal()), rng.standard_normal()
        if kind != "none":
            related.append(Task(unit[rows], scale * (y - y.mean()) / (y.std() or 1.0) + shift))
    start = time.process_time()
    chosen = search_table(
        unit, errors[target], initial=[], t=T, rng=np.random.default_rng(seed), surrogate=surrogate, related=related
    )
    return {"regret": regret_curve(errors[target], chosen).tolist(), "cpu": time.process_time() - start}


def run(family: str, kind: str, surrogate: str, seed: int) -> dict[str, Any]:
    """Search one function, or a dataset of a table; `kind` is `none` for a surrogate without related tasks."""
    if family.endswith(".npz"):
        return search_of_table(family, kind, surrogate, seed)
    d, target, least, _ = members(family, seed)
    space = ConfigurationSpace()
    space.add(*(Float(f"x{i}", (0.0, 1.0)) for i in range(d)))
    names, related = [f"x{i}" for i in range(d)], []
    if kind != "none":
        for X, y in tasks(family, seed, kind):
            related.append(RelatedTask([dict(zip(names, x, strict=True)) for x in X.tolist()], y.tolist()))
    optimizer, errors = Optimizer(space, surrogate=surrogate, related=related, seed=seed), []
    start = time.process_time()
    for _ in range(T):
        config = optimizer.ask()[0]
        errors.append(float(target(np.array([[config[name] for name in names]]))[0]))
        optimizer.tell(config, errors[-1])
    regret = np.minimum.accumulate(errors) - least
    return {"regret": np.maximum(regret, 0.0).tolist(), "cpu": time.process_time() - start}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return median regrets, and their ratios to those without related tasks, by surrogate, family and kind."""
    table: dict[tuple[str, str, str], list[list[float]]] = {}
    for row in rows:
        job = row["job"]
        table.setdefault((job["surrogate"], job["family"], job["kind"]), []).append(row["regret"])
    report: dict[str, Any] = {}
    for (surrogate, family, kind), curves in table.items():
        alone = np.array(table[surrogate.removeprefix("mt-"), family, "none"])[: len(curves)]
        figures: dict[str, Any] = {"runs": len(curves)}
        for t in SHOWN:
            ours = np.array(curves)[:, t - 1]
            figures[f"median@{t}"] = float(np.median(ours))
            if kind != "none":
                theirs = alone[:, t - 1]
                least = float(np.median(theirs))
                figures[f"ratio@{t}"] = float(np.median(ours)) / least if least else None
                less = ours - theirs
                figures[f"paired@{t}"] = [float(less.mean()), float(less.std(ddof=1) / len(less) ** 0.5)]
                logs = np.log10(np.maximum(ours, 1e-9)) - np.log10(np.maximum(theirs, 1e-9))
                figures[f"log10 paired@{t}"] = [float(logs.mean()), float(logs.std(ddof=1) / len(logs) ** 0.5)]
        report[f"{surrogate}, {Path(family).stem}, {kind}"] = figures
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--families", nargs="+", metavar="FAMILY|TABLE.npz", default=["branin", "hartmann3", "waves2", "bowls4", "rosenbrock3"])  # fmt: skip
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--surrogates", nargs="+", choices=("mt-gp", "mt-dngo", "mt-bohamiann"), default=["mt-gp"])
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if wrong := [name for name in asked.families if name not in FAMILIES and not Path(name).is_file()]:
        parser.error(f"--families: expected {', '.join(FAMILIES)} or files, got {', '.join(wrong)}")
    jobs = [
        {"family": f, "kind": k, "surrogate": s.removeprefix("mt-") if k == "none" else s, "seed": seed}
        for seed in range(*asked.seeds)
        for s in asked.surrogates
        for f in asked.families
        for k in ("none", *asked.kinds)
    ]
    write_report(summarise(resume(asked.runs, jobs, run)), asked.out)
