"""What logarithms of errors change: searches of functions whose values go over orders of magnitude, of others, and of measured tables.

Of functions, differences are of log10 regrets (at least 1e-9), with logarithms less without, paired by seed, ± half a 95 % interval. Of
tables (`--tables`: npz as `warmstart evaluate --table` reads them, or CSV grids), they are of regrets as a share of a dataset's range, over
its datasets. Each run is one line of --runs; the same command goes on where it was stopped.

    OMP_NUM_THREADS=1 python scripts/bench/warped_errors.py --runs runs.jsonl [--problems rosenbrock4 ...] [--seeds 0 10] [--out FILE.json]
    OMP_NUM_THREADS=1 python scripts/bench/warped_errors.py --runs runs.jsonl --tables FILE.npz NAME_on_grid.csv ... [--seeds 0 4] [--out FILE.json]
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from grids import HYPERPARAMETERS, read_grid
from landscapes import LANDSCAPES
from numpy.typing import NDArray
from runs import resume, write_report
from scipy.stats import t as student

from warmstart.bo import Optimizer
from warmstart.bo.search import search_table
from warmstart.bo.surrogates import find_surrogate
from warmstart.bo.transfer.regret import regret_curve
from warmstart.training.evaluation.table import read_table

Floats = NDArray[np.float64]
SHOWN = (20, 40, 80)
SHOWN_TABLES = (10, 20, 35, 50)
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


@cache
def read(path: str) -> tuple[Floats, Floats]:
    """Read a table: `c x d` configurations in [0, 1], and errors of `n` datasets `n x c`."""
    if path.endswith(".npz"):
        table = read_table(Path(path))
        return np.asarray(table.unit, dtype=np.float64), np.asarray(table.errors, dtype=np.float64)
    name = Path(path).name.split("_")[0]
    grid = read_grid(Path(path).parent, name)
    values = np.array([list(config.values()) for config in grid.configs])
    ranks = [np.unique(column, return_inverse=True)[1] for column in values.T]
    return np.stack([rank / rank.max() for rank in ranks], axis=1), grid.errors[None]


def run_table(table: str, row: int, seed: int, warp: bool) -> dict[str, Any]:  # noqa: FBT001  a field of a job
    """Search one dataset of a table."""
    (X, errors), start = read(table), time.process_time()
    known = np.isfinite(errors[row])
    X, y = X[known], errors[row][known]
    gp = find_surrogate("gp")
    surrogate = (
        gp if warp else replace(gp, name="gp, errors as they are")
    )  # a surrogate of another name takes no logarithms
    found = search_table(
        X, y, initial=[], t=SHOWN_TABLES[-1], rng=np.random.default_rng([seed, row]), surrogate=surrogate
    )
    regret = regret_curve(y, found)
    return {"best": [float(regret[t - 1]) for t in SHOWN_TABLES], "cpu": time.process_time() - start}


def half_interval(differences: Floats) -> Floats:
    """Compute half a 95 % interval of the mean of `n x k` differences."""
    n = len(differences)
    return np.asarray(student.ppf(0.975, n - 1) * differences.std(axis=0, ddof=1) / n**0.5)


def of_functions(rows: list[dict[str, Any]], problems: Sequence[str]) -> dict[str, Any]:
    """Summarise searches of functions."""
    report: dict[str, Any] = {"evaluations": SHOWN}
    for p in problems:
        both = [[r for r in rows if r["job"]["problem"] == p and r["job"]["warp"] is w] for w in (False, True)]
        plain, warped = (np.array([r["best"] for r in each]) for each in both)
        logs = np.log10(np.maximum(warped, LEAST)) - np.log10(np.maximum(plain, LEAST))
        report[p] = {
            "median": np.median(plain, axis=0).tolist(),
            "median, warped": np.median(warped, axis=0).tolist(),
            "log10": [logs.mean(axis=0).tolist(), half_interval(logs).tolist()],
            "cpu": [float(np.mean([r["cpu"] for r in each])) for each in both],
        }
    return report


def of_tables(rows: list[dict[str, Any]], tables: Sequence[str]) -> dict[str, Any]:
    """Summarise searches of tables; a grid's units are its seeds, a table's its datasets."""
    report: dict[str, Any] = {"evaluations": SHOWN_TABLES}
    for table in tables:
        both = [
            np.array([r["best"] for r in rows if r["job"]["table"] == table and r["job"]["warp"] is w])
            for w in (False, True)
        ]
        n, seeds = len(read(table)[1]), len(both[0]) // len(read(table)[1])
        plain, warped = (each.reshape(n, seeds, -1).mean(axis=1) if n > 1 else each for each in both)
        report[Path(table).name] = {
            "searches": len(both[0]),
            "the same": float((both[0] == both[1]).all(axis=1).mean()),
            "regret": plain.mean(axis=0).tolist(),
            "regret, warped": warped.mean(axis=0).tolist(),
            "difference": [(warped - plain).mean(axis=0).tolist(), half_interval(warped - plain).tolist()],
        }
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--problems", nargs="+", choices=LANDSCAPES, default=list(LANDSCAPES))
    parser.add_argument("--tables", nargs="+", help=f"npz, or one of {', '.join(HYPERPARAMETERS)} as NAME_on_grid.csv")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    ways, seeds = (False, True), range(*asked.seeds)
    if asked.tables:
        rows_of = [(table, row) for table in asked.tables for row in range(len(read(table)[1]))]
        jobs = [{"table": t, "row": r, "seed": s, "warp": w} for t, r in rows_of for s in seeds for w in ways]
        write_report(of_tables(resume(asked.runs, jobs, run_table), asked.tables), asked.out)
    else:
        jobs = [{"problem": p, "seed": s, "warp": w} for s in seeds for p in asked.problems for w in ways]
        write_report(of_functions(resume(asked.runs, jobs, run), asked.problems), asked.out)
