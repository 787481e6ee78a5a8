"""Published results of [Snoek2015scalable]: Table 1, Figure 1 and Figure 2.

    OMP_NUM_THREADS=1 python scripts/bench/snoek2015.py table1 --runs FILE.jsonl [--tables ../shared/tables/grids] [--seeds 10]
        [--problems branin hartmann6 lda svm logreg] [--surrogates gp dngo bohamiann] [--out FILE.json]
    OMP_NUM_THREADS=1 python scripts/bench/snoek2015.py scaling --runs FILE.jsonl [--seeds 3]
    OMP_NUM_THREADS=1 python scripts/bench/snoek2015.py activations --runs FILE.jsonl [--seeds 10]

`table1`: least value after the paper's number of evaluations, mean and standard deviation over seeds, two random starts.
`scaling`: CPU seconds of one suggestion, fit and search, of points of Hartmann-6 at random. `activations`: error inside the
data and standard deviation outside of it, in units of the one inside. Every run is a line of FILE.jsonl; the same command
goes on where it was stopped.
"""

import argparse
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from functions import branin, hartmann6
from grids import Grid, read_grid
from runs import Trace, resume, search, write_report

from warmstart.bo.acquisition.improvement_validity_cost import Improvement
from warmstart.bo.acquisition.optimize import optimize_acquisition
from warmstart.bo.acquisition.pending import fantasise
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates import DNGO, SURROGATES

EVALUATIONS = {"branin": 200, "hartmann6": 200, "lda": 50, "svm": 100, "logreg": 100}
PAPER = {
    "branin": {"Spearmint": 0.398, "DNGO": 0.398, "SMAC": 0.655, "TPE": 0.526},
    "hartmann6": {"Spearmint": -3.3166, "DNGO": -3.319, "SMAC": -2.977, "TPE": -2.823},
    "lda": {"Spearmint": 1266.2, "DNGO": 1266.2, "SMAC": 1269.6, "TPE": 1271.5, "random": 1270.24},
    "svm": {"Spearmint": 0.241, "DNGO": 0.241, "SMAC": 0.241, "TPE": 0.242, "random": 0.2427},
    "logreg": {"Spearmint": 0.0688, "DNGO": 0.0689, "SMAC": 0.086, "TPE": 0.082, "random": 0.0720},
}
"""Table 1, and random search on the tables."""
SIZES = {"gp": (30, 100, 300, 1000), "dngo": (30, 100, 300, 1000, 3000, 10_000), "bohamiann": (30, 100, 300, 1000)}
OUTSIDE = (0.1, 0.25, 0.5)
"""Distances from the data."""

read_grid = cache(read_grid)


def run_grid(grid: Grid, t: int, *, timed: bool = False, **options: Any) -> Trace:
    """Search a measured grid among its rows, from two rows at random; on a clock of its durations where they are wanted."""
    rows = {tuple(config.values()): i for i, config in enumerate(grid.configs)}

    def row(config: dict[str, float]) -> int:
        return rows[tuple(config[name] for name in grid.configs[0])]

    clock = {"seconds": lambda config: float(grid.seconds[row(config)])} if timed else {}
    options = {"candidates": grid.configs, "n_startup_trials": 2, **clock, **options}
    return search(grid.space, lambda config: float(grid.errors[row(config)]), t, **options)


def optimise(problem: str, surrogate: str, seed: int, *, t: int, tables: Path) -> dict[str, Any]:
    """Run one cell of the table."""
    if problem in ("branin", "hartmann6"):
        made = branin() if problem == "branin" else hartmann6()
        trace = search(made.space, made.value, t, surrogate=surrogate, seed=seed, design="uniform", n_startup_trials=2)
    else:
        trace = run_grid(read_grid(tables, problem), t, surrogate=surrogate, seed=seed)
    marks = sorted({min(n, t) for n in (20, 30, 50, 60, 100, 200)})
    return {"best": {str(n): trace.best_at(n) for n in marks}, "cpu_s": round(trace.cpu, 2)}


def table1(options: argparse.Namespace) -> dict[str, Any]:
    """Return mean and standard deviation of the least values."""
    jobs = [
        {"problem": problem, "surrogate": surrogate, "seed": seed, "t": options.evaluations or EVALUATIONS[problem]}
        for seed in range(options.seeds)
        for problem in options.problems
        for surrogate in options.surrogates
    ]
    lines = resume(options.runs, jobs, partial(optimise, tables=options.tables))
    report: dict[str, Any] = {}
    for problem in options.problems:
        row = {}
        for surrogate in options.surrogates:
            found = [
                each for each in lines if (each["job"]["problem"], each["job"]["surrogate"]) == (problem, surrogate)
            ]
            marks = {n: np.array([each["best"][n] for each in found]) for n in found[0]["best"]}
            row[surrogate] = {
                "seeds": len(found),
                **{f"mean@{n}": float(np.round(values.mean(), 5)) for n, values in marks.items()},
                "median": float(np.round(np.median([*marks.values()][-1]), 5)),
                "sd": float(np.round([*marks.values()][-1].std(), 5)),
                "worst": float(np.round([*marks.values()][-1].max(), 5)),
                "cpu_s": float(np.round(np.mean([each["cpu_s"] for each in found]), 1)),
            }
        report[problem] = {**row, "paper": PAPER[problem]}
    return report


def suggestion(surrogate: str, n: int, seed: int) -> dict[str, float]:
    """Time a suggestion with n points of Hartmann-6 at random."""
    rng = np.random.default_rng(seed)
    problem = hartmann6()
    encoding = Encoding(problem.space)
    points = encoding.sample(n, design="uniform", rng=rng)
    X, y = encoding.columns(points), np.array([problem.value(config) for config in encoding.decode(points)])
    start = time.process_time()
    model = SURROGATES[surrogate]().fit(X, y, rng=rng)
    fitted = time.process_time()
    best = model.predict(X).mean.min(axis=1, keepdims=True)
    function = Improvement(fantasise(model, X[:0], best, rng=rng), acquisition="ei")
    optimize_acquisition(function, encoding, around=points[:1], taken=frozenset(), rng=rng)
    return {"fit_s": round(fitted - start, 3), "search_s": round(time.process_time() - fitted, 3)}


def scaling(options: argparse.Namespace) -> dict[str, Any]:
    """Return the median seconds of a suggestion by surrogate and points."""
    jobs = [
        {"surrogate": surrogate, "n": n, "seed": seed}
        for n in sorted({n for sizes in SIZES.values() for n in sizes})
        for surrogate in options.surrogates
        if n in SIZES[surrogate] and n <= (options.evaluations or n)
        for seed in range(options.seeds)
    ]
    lines = resume(options.runs, jobs, suggestion)
    report: dict[str, Any] = {surrogate: {} for surrogate in options.surrogates}
    for job in jobs:
        found = [each for each in lines if (each["job"]["surrogate"], each["job"]["n"]) == (job["surrogate"], job["n"])]
        report[job["surrogate"]][job["n"]] = {
            part: round(float(np.median([each[part] for each in found])), 3) for part in ("fit_s", "search_s")
        }
    return report


def extrapolate(activation: str, seed: int) -> dict[str, Any]:
    """Fit 40 points of a wave in [0.25, 0.75]: error between them, and standard deviations away from them, a network's own."""
    rng = np.random.default_rng(seed)
    X, phase = 0.25 + 0.5 * rng.random((40, 1)), rng.random()
    X[:2, 0] = 0.25, 0.75

    def wave(x: np.ndarray) -> np.ndarray:
        return np.sin(4.0 * np.pi * (x[:, 0] + phase))

    model = DNGO(activation=activation, inputs="line", training="map").fit(
        X, wave(X) + 0.05 * rng.standard_normal(40), rng=rng
    )

    def sd(x: np.ndarray) -> float:
        return float(np.sqrt(model.predict(x).var).mean())

    inside = np.linspace(0.25, 0.75, 101)[:, None]
    error = model.predict(inside).mean.mean(axis=0) - wave(inside)
    away = {str(gap): sd(np.array([[0.25 - gap], [0.75 + gap]])) for gap in OUTSIDE}
    return {"rmse": float(np.sqrt(np.square(error).mean())), "sd_inside": sd(inside), "sd_outside": away}


def activations(options: argparse.Namespace) -> dict[str, Any]:
    """Return medians over seeds by activation."""
    names = ("tanh", "relu", "relu-tanh")
    lines = resume(
        options.runs, [{"activation": a, "seed": s} for s in range(options.seeds) for a in names], extrapolate
    )
    report: dict[str, Any] = {}
    for name in names:
        found = [each for each in lines if each["job"]["activation"] == name]
        report[name] = {
            part: round(float(np.median([each[part] for each in found])), 4) for part in ("rmse", "sd_inside")
        }
        report[name]["sd_outside"] = {
            gap: round(float(np.median([each["sd_outside"][gap] for each in found])), 3)
            for gap in found[0]["sd_outside"]
        }
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["table1", "scaling", "activations"])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--problems", nargs="+", choices=[*EVALUATIONS], default=[*EVALUATIONS])
    parser.add_argument("--surrogates", nargs="+", default=["gp", "dngo", "bohamiann"])
    parser.add_argument("--evaluations", type=int, help="of table1, other than the paper's; the most points of scaling")
    parser.add_argument("--tables", type=Path, default=Path("../shared/tables/grids"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    write_report({"table1": table1, "scaling": scaling, "activations": activations}[options.what](options), options.out)


if __name__ == "__main__":
    main()
