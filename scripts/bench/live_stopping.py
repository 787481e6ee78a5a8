"""Stopping runs live: `tune --pruner history`, median and none on the same configurations in the same order, trained for real.

    OMP_NUM_THREADS=1 python scripts/bench/live_stopping.py --folder WORK --dataset PATH[=GROUP] [...] \
        [--trials 12] [--seeds 3] [--budget UPDATES] [--device cpu] [--history FILE] [--model FILE] [--out FILE.json]

For each dataset and seed, configurations are drawn from the history's space. Every arm is a study of `warmstart.tune` that begins with these: a
trial has the same seed in each, so that on a CPU it trains alike until it is stopped. `none` runs all to the end: the regret of an arm is what
the configuration that it chose reaches in a whole run, less the best of all whole runs. GROUP is the dataset's sibling group in the history,
where it has one (several: joined by +); it does not answer. A killed run goes on with the same command: `WORK/runs.jsonl` holds a line a study.
"""

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
from runs import resume

import warmstart
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.history import History
from warmstart.history_store.space import load_space
from warmstart.locations import history_path
from warmstart.suggestions.query import open_path
from warmstart.training.workloads import SourceDataset, get_workload

ARMS = ("none", "median", "history")
ASKED = {"compute": 0.65, "regret": 0.005, "upper": 0.01}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--dataset", action="append", required=True, metavar="PATH[=GROUP]")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--budget", type=float, help="updates of a whole run; the workload's usual number when left out"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--history")
    parser.add_argument("--model")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    settings = {"trials": options.trials, "budget": options.budget, "device": options.device}
    jobs = [
        {"dataset": dataset, "seed": seed, "arm": arm, **settings}
        for dataset in options.dataset
        for seed in range(options.seeds)
        for arm in ARMS
    ]
    lines = resume(
        options.folder / "runs.jsonl",
        jobs,
        lambda **job: run(job, options.folder / "studies.db", options.history, options.model),
    )
    report = {
        "history": history_path(options.history).name,
        "versions": {"warmstart": warmstart.__version__, "python": platform.python_version()},
        "machine": platform.processor() or platform.machine(),
        **settings,
        "asked": ASKED,
        "arms": summary(lines),
    }
    print(
        json.dumps(
            {**report, "arms": {arm: {**means, "cases": len(means["cases"])} for arm, means in report["arms"].items()}},
            indent=1,
        )
    )
    if options.out:
        options.out.write_text(json.dumps(report, indent=1))


def run(job: dict[str, Any], storage: Path, history: str | None, model: str | None) -> dict[str, Any]:
    """Tune by one arm, from wherever its study is; return a record a trial."""
    path, _, group = job["dataset"].partition("=")
    with History.open(history_path(history)) as opened:
        encoding = Encoding(load_space(opened.space_json))
    configs = encoding.decode(encoding.sample(job["trials"], design="uniform", rng=np.random.default_rng(job["seed"])))
    found = warmstart.tune(
        path,
        initial=configs,
        trials=job["trials"],
        pruner=job["arm"],
        storage=storage,
        study=f"{Path(path).name}-{job['seed']}-{job['arm']}-{job['trials']}-{job['budget'] or 'usual'}",
        surrogate="gp-map",
        history=history,
        model=model,
        exclude_group=group.split("+") if group else None,
        budget=job["budget"],
        device=job["device"],
        seed=job["seed"],
    )
    n_train = len(SourceDataset(open_path(path)).rows("train"))
    print(f"{found.study}: {found.counts}, best {found.best.error if found.best else None} in {found.seconds:.0f} s")
    return {
        "wall_s": found.seconds,
        "chosen": None if found.best is None else found.best.number,
        "trials": [record(trial, job["budget"], n_train) for trial in found.trials],
    }


def record(trial: Any, budget: float | None, n_train: int) -> dict[str, Any]:
    """Return what a trial came to: its error, how far it ran, in updates, epochs and as a share of a whole run."""
    workload = get_workload("cnn")
    length = workload.steps(workload.budget(amount=budget), config=trial.config, n_train=n_train)
    step = trial.curve[-1][0] if trial.status == "pruned" and trial.curve else float(length)
    return {
        "number": trial.number,
        "status": trial.status.value,
        "error": trial.error,
        "updates": step,
        "share": step / length,
        "epochs": step * trial.config["batch_size"] / n_train,
        "seconds": trial.duration,
        "curve": trial.curve,
    }


def summary(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Compare the arms with whole runs of the same configurations, by dataset and seed.

    Returns: by arm, the compute relative to whole runs: mean share of updates, of epochs, and of seconds, each run's share of
        the seconds that its whole run took; the mean regret, its upper 95 % bound over datasets and seeds, and all rows.
    """
    by_case: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for line in lines:
        job = line["job"]
        by_case.setdefault((job["dataset"], job["seed"]), {})[job["arm"]] = line
    rows: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for (dataset, seed), arms in by_case.items():
        whole = arms["none"]["trials"]
        best = min(trial["error"] for trial in whole if trial["error"] is not None)
        seconds = sum(trial["seconds"] for trial in whole)
        epochs = sum(trial["epochs"] for trial in whole)
        for arm, line in arms.items():
            trials, chosen = line["trials"], line["chosen"]
            ended = None if chosen is None else whole[chosen]["error"]
            reached = 1.0 if ended is None else ended
            spent = sum(trial["share"] * each["seconds"] for trial, each in zip(trials, whole, strict=True))
            rows[arm].append(
                {
                    "dataset": dataset,
                    "seed": seed,
                    "updates": float(np.mean([trial["share"] for trial in trials])),
                    "epochs": sum(trial["epochs"] for trial in trials) / epochs,
                    "seconds": spent / seconds,
                    "wall_s": line["wall_s"],
                    "stopped": sum(trial["status"] == "pruned" for trial in trials),
                    "regret": reached - best,
                }
            )
    return {arm: table(some) for arm, some in rows.items()}


def table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Average over datasets and seeds."""
    regrets = np.array([row["regret"] for row in rows])
    bound = 1.645 * regrets.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
    means = {name: round(float(np.mean([row[name] for row in rows])), 3) for name in ("updates", "epochs", "seconds")}
    upper = None if np.isnan(bound) else round(float(regrets.mean() + bound), 4)
    return {**means, "regret": round(float(regrets.mean()), 4), "upper": upper, "cases": rows}


if __name__ == "__main__":
    main()
