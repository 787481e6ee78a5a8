"""Published results of [Snoek2012practical]: integrated against point estimates, improvement per second, parallel searches.

    OMP_NUM_THREADS=1 python scripts/bench/snoek2012.py integrated --runs FILE.jsonl [--tables ../shared/tables/grids] [--seeds 20]
    OMP_NUM_THREADS=1 python scripts/bench/snoek2012.py per-second --runs FILE.jsonl [--seeds 20]
    OMP_NUM_THREADS=1 python scripts/bench/snoek2012.py parallel --runs FILE.jsonl [--seeds 20] [--out FILE.json]

`integrated`: hyperparameters sampled (`gp`) or at their most probable values (`gp-map`), on Branin as that paper prints its
domain and on the LDA grid. `per-second`: time on a simulated clock, from the measured durations of the grids, until an error is
reached. `parallel`: the LDA grid on that clock with 1, 3, 5 and 10 workers, the error by equal times. Two random starts, as there.
Every run is a line of FILE.jsonl; the same command goes on where it was stopped.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from functions import branin_practical
from runs import resume, search, write_report
from snoek2015 import read_grid, run_grid

MARKS = (5, 10, 15, 20, 30, 40, 50)
LEVELS = {"lda": (1270.0, 1268.0, 1266.5), "svm": (0.25, 0.245, 0.242)}
"""Errors to reach."""
MOST = 150
"""Evaluations of a run that does not reach them."""
WORKERS = (1, 3, 5, 10)
TIMES = (0.1, 0.2, 0.4, 0.7, 1.0)
"""Shares of the time that 50 evaluations of mean duration take one worker."""


def point_estimate(problem: str, surrogate: str, seed: int, *, tables: Path) -> dict[str, Any]:
    """Search 50 evaluations."""
    if problem == "branin":
        made = branin_practical()
        trace = search(made.space, made.value, 50, surrogate=surrogate, seed=seed, design="uniform", n_startup_trials=2)
    else:
        trace = run_grid(read_grid(tables, problem), 50, surrogate=surrogate, seed=seed)
    return {"best": [trace.best_at(n) for n in MARKS], "cpu_s": round(trace.cpu, 2)}


def per_second(problem: str, acquisition: str, seed: int, *, tables: Path) -> dict[str, Any]:
    """Search until the least of the levels, and tell when each was reached."""
    levels = LEVELS[problem]
    options = {"acquisition": acquisition, "seed": seed, "until": levels[-1]}
    trace = run_grid(read_grid(tables, problem), MOST, timed=True, **options)
    return {"reached": [trace.reached(level) for level in levels], "evaluations": len(trace.errors)}


def parallel(workers: int, seed: int, *, tables: Path) -> dict[str, Any]:
    """Search with workers on the clock."""
    grid = read_grid(tables, "lda")
    t = 50 if workers == 1 else min(50 * workers, 100)
    trace = run_grid(grid, t, timed=True, workers=workers, seed=seed)
    whole = 50.0 * float(grid.seconds.mean())
    return {
        "best_by": [trace.best_by(share * whole) for share in TIMES],
        "hours": trace.ends[-1] / 3600.0,
        "proposed_twice": trace.proposed_pending,
    }


def report_of(lines: list[dict[str, Any]], keys: tuple[str, ...]) -> dict[str, Any]:
    """Average what runs that differ in their seeds gave."""
    report: dict[str, Any] = {}
    for line in lines:
        report.setdefault(" ".join(str(line["job"][key]) for key in keys), []).append(line)
    return {name: {"seeds": len(found), **averages(found)} for name, found in report.items()}


def averages(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Average the numbers of runs; errors not reached count as infinitely late, so that times have medians."""
    row: dict[str, Any] = {}
    for part in found[0]:
        if part == "reached":
            waits = np.array([[end if end is not None else np.inf for _, end in each[part]] for each in found]) / 3600.0
            row["median_hours_to"] = [None if np.isinf(x) else round(float(x), 2) for x in np.median(waits, axis=0)]
            row["reached_by"] = np.isfinite(waits).sum(axis=0).tolist()
        elif part != "job":
            values = np.array([each[part] for each in found], dtype=np.float64)
            row[part] = np.round(values.mean(axis=0), 4).tolist()
            if values.ndim > 1:
                row[f"{part}_standard_error"] = np.round(values.std(axis=0) / len(found) ** 0.5, 4).tolist()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["integrated", "per-second", "parallel"])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tables", type=Path, default=Path("../shared/tables/grids"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seeds = range(options.seeds)
    if options.what == "integrated":
        jobs = [
            {"problem": p, "surrogate": s, "seed": i}
            for i in seeds
            for p in ("branin", "lda")
            for s in ("gp", "gp-map")
        ]
        lines = resume(options.runs, jobs, partial(point_estimate, tables=options.tables))
        report = {"evaluations": MARKS, **report_of(lines, ("problem", "surrogate"))}
    elif options.what == "per-second":
        jobs = [
            {"problem": p, "acquisition": a, "seed": i} for i in seeds for p in LEVELS for a in ("ei", "ei-per-second")
        ]
        lines = resume(options.runs, jobs, partial(per_second, tables=options.tables))
        report = {"levels": LEVELS, **report_of(lines, ("problem", "acquisition"))}
    else:
        jobs = [{"workers": n, "seed": i} for i in seeds for n in WORKERS]
        lines = resume(options.runs, jobs, partial(parallel, tables=options.tables))
        report = {"times": TIMES, **report_of(lines, ("workers",))}
    write_report(report, options.out)


if __name__ == "__main__":
    main()
