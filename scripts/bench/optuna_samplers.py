"""Our sampler beside Optuna's own on a conditional and two plain studies, in ordinary define-by-run scripts, paired seeds.

Each run is one line of the file --runs; the same command goes on where it was stopped. A figure is the best value so far less
the minimum. Differences are ours less the other's, paired by seed, ± one standard error.

    OMP_NUM_THREADS=1 python scripts/bench/optuna_samplers.py --runs runs.jsonl [--seeds 10] [--trials 40] [--out FILE.json]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from functions import Problem, branin, hartmann6, layers
from runs import resume, write_report

from warmstart.integrations.optuna.sampler import WarmStartSampler

PROBLEMS = {"branin": branin, "hartmann6": hartmann6, "layers": layers}
SAMPLERS: dict[str, Callable[[Problem, int], optuna.samplers.BaseSampler]] = {
    "random": lambda _, seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda _, seed: optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True),
    "gp": lambda _, seed: optuna.samplers.GPSampler(seed=seed),
    "warmstart": lambda _, seed: WarmStartSampler(seed=seed),
    "warmstart, space": lambda problem, seed: WarmStartSampler(space=problem.space, seed=seed),
}
SHOWN = (10, 20, 30, 40)


def suggest(trial: optuna.Trial, name: str) -> dict[str, Any]:
    """Ask for a configuration as a user's objective does."""
    if name == "branin":
        return {"x1": trial.suggest_float("x1", -5.0, 10.0), "x2": trial.suggest_float("x2", 0.0, 15.0)}
    if name == "hartmann6":
        return {f"x{i}": trial.suggest_float(f"x{i}", 0.0, 1.0) for i in range(1, 7)}
    config: dict[str, Any] = {"layers": trial.suggest_int("layers", 0, 2)}
    config["log10_learning_rate"] = trial.suggest_float("log10_learning_rate", -5.0, 0.0)
    for i in range(1, config["layers"] + 1):
        config[f"width_{i}"] = trial.suggest_float(f"width_{i}", 0.0, 1.0)
        config[f"log10_decay_{i}"] = trial.suggest_float(f"log10_decay_{i}", -6.0, 0.0)
    return config


def run(problem: str, sampler: str, seed: int, trials: int) -> dict[str, Any]:
    """Run one study."""
    built = PROBLEMS[problem]()
    study = optuna.create_study(sampler=SAMPLERS[sampler](built, seed))
    start = time.process_time()
    study.optimize(lambda trial: built.value(suggest(trial, problem)), n_trials=trials)
    seconds = time.process_time() - start
    distinct = {tuple(sorted(trial.params.items())) for trial in study.trials}
    best = np.minimum.accumulate([trial.value for trial in study.trials]) - built.minimum
    return {"best": best.tolist(), "cpu": seconds, "repeated": trials - len(distinct)}


def summarise(rows: list[dict[str, Any]], trials: int) -> dict[str, Any]:
    """Return medians, means and paired differences by problem and sampler."""
    report: dict[str, Any] = {}
    shown = [t for t in SHOWN if t <= trials]
    for problem in PROBLEMS:
        table = {
            sampler: np.array(
                [r["best"] for r in rows if (r["job"]["problem"], r["job"]["sampler"]) == (problem, sampler)]
            )
            for sampler in SAMPLERS
        }
        report[problem] = {
            sampler: {
                "cpu": float(np.mean([r["cpu"] for r in rows if (r["job"]["problem"], r["job"]["sampler"]) == (problem, sampler)])),
                **{f"mean@{t}": float(best[:, t - 1].mean()) for t in shown},
                **{f"median@{t}": float(np.median(best[:, t - 1])) for t in shown},
                **{
                    f"ours less this@{t}": _paired(table["warmstart"][:, t - 1] - best[:, t - 1])
                    for t in shown
                    if not sampler.startswith("warmstart")
                },
            }
            for sampler, best in table.items()
        }  # fmt: skip
    return report


def _paired(differences: np.ndarray) -> list[float]:
    return [float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    jobs = [
        {"problem": problem, "sampler": sampler, "seed": seed, "trials": asked.trials}
        for seed in range(asked.seeds)
        for problem in PROBLEMS
        for sampler in SAMPLERS
    ]
    done = resume(asked.runs, jobs, run)
    repeated = sum(row["repeated"] for row in done if row["job"]["sampler"].startswith("warmstart"))
    write_report({"trials": asked.trials, "seeds": asked.seeds, "ours repeated": repeated, **summarise(done, asked.trials)}, asked.out)  # fmt: skip
