"""Multi-task searches of [Springenberg2016bayesian], §4.2: how many evaluations related tasks save, on tables of measured errors.

    OMP_NUM_THREADS=1 python scripts/bench/springenberg2016.py --table ../shared/tables/svm_tst.npz --runs FILE.jsonl [--seeds 3]
        [--surrogates gp mt-gp mt-dngo mt-bohamiann] [--with-meta-features] [--targets 50] [--out FILE.json]

Every dataset is the target once. Related are the datasets nearest to it by meta-features, siblings left out, with 30 random
configurations each. Counted are evaluations until the normalised regret (error - least) / (greatest - least) is down to a level;
searches that do not get there count as one more than they had. The single-task search starts from two random configurations.
Every run is a line of FILE.jsonl; the same command goes on where it was stopped. The UCI table is `uci.py`.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, InCondition, OrdinalHyperparameter
from runs import resume, search, write_report

from warmstart.bo import RelatedTask
from warmstart.training.evaluation.table import ErrorTable, read_table

LEVELS = (0.25, 0.1, 0.05, 0.01)
POINTS, RELATED = 30, 4
EVALUATIONS = 20


def read_configs(path: Path) -> list[dict[str, Any]]:
    """Read the raw configurations of a table."""
    with np.load(path) as file:
        return [json.loads(text) for text in file["configs"].tolist()]


def space_of(configs: list[dict[str, Any]]) -> ConfigurationSpace:
    """Build the space of a grid: numbers are ordered, and what not all configurations have depends on the one that is a word."""
    space, names = ConfigurationSpace(), sorted({name for config in configs for name in config})
    values = {name: sorted({config[name] for config in configs if name in config}) for name in names}
    words = [name for name in names if isinstance(values[name][0], str)]
    for name in names:
        space.add((Categorical if name in words else OrdinalHyperparameter)(name, values[name]))
    for name in names:
        kinds = {config[words[0]] for config in configs if name in config} if words else set()
        if words and len(kinds) < len(values[words[0]]):
            space.add(InCondition(space[name], space[words[0]], sorted(kinds)))
    return space


def related_rows(table: ErrorTable, target: int) -> list[int]:
    """Name the nearest datasets by standardised meta-features, of other groups."""
    features = np.nan_to_num(table.meta_features)
    scaled = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-12)
    gaps = np.linalg.norm(scaled - scaled[target], axis=1)
    return [row for row in np.argsort(gaps, kind="stable").tolist() if table.groups[row] != table.groups[target]][
        :RELATED
    ]


def run(path: str, target: int, surrogate: str, seed: int, *, meta: bool, folder: Path) -> dict[str, Any]:
    """Search one target among the configurations of the table."""
    table, configs = read_table(folder / path), read_configs(folder / path)
    rng = np.random.default_rng([seed, target])
    place = {json.dumps(config, sort_keys=True): i for i, config in enumerate(configs)}
    errors = table.errors[target]
    regrets = (errors - errors.min()) / max(float(np.ptp(errors)), 1e-12)
    options: dict[str, Any] = {"n_startup_trials": 2}
    if surrogate.startswith("mt-"):
        picks = [(row, rng.choice(len(configs), POINTS, replace=False)) for row in related_rows(table, target)]
        features = (lambda row: table.meta_features[row].tolist()) if meta else lambda _: None
        related = [
            RelatedTask([configs[i] for i in pick], table.errors[row, pick], features(row)) for row, pick in picks
        ]
        options = {"related": related, "meta_feature": features(target)}
    trace = search(
        space_of(configs),
        lambda config: float(regrets[place[json.dumps(config, sort_keys=True)]]),
        EVALUATIONS,
        candidates=configs,
        surrogate=surrogate,
        seed=seed,
        **options,
    )
    return {"regrets": [round(trace.best_at(n + 1), 5) for n in range(EVALUATIONS)], "cpu_s": round(trace.cpu, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--targets", type=int)
    parser.add_argument("--surrogates", nargs="+", default=["gp", "mt-gp", "mt-dngo", "mt-bohamiann"])
    parser.add_argument("--with-meta-features", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    count = len(read_table(options.table).datasets)
    jobs = [
        {
            "path": options.table.name,
            "target": target,
            "surrogate": surrogate,
            "seed": seed,
            "meta": options.with_meta_features,
        }
        for seed in range(options.seeds)
        for target in range(min(count, options.targets or count))
        for surrogate in options.surrogates
    ]
    lines = resume(options.runs, jobs, partial(run, folder=options.table.parent))
    report: dict[str, Any] = {"levels": LEVELS}
    for surrogate in options.surrogates:
        curves = np.array([line["regrets"] for line in lines if line["job"]["surrogate"] == surrogate])
        waits = np.array([(curves > level).sum(axis=1) + 1 for level in LEVELS])
        report[surrogate] = {
            "runs": len(curves),
            "mean_evaluations": np.round(waits.mean(axis=1), 2).tolist(),
            "standard_error": np.round(waits.std(axis=1) / len(curves) ** 0.5, 2).tolist(),
            "median_evaluations": np.median(waits, axis=1).tolist(),
            "regret_at": {n: round(float(curves[:, n - 1].mean()), 4) for n in (1, 3, 5, 10, 20)},
            "cpu_s": round(
                float(np.mean([line["cpu_s"] for line in lines if line["job"]["surrogate"] == surrogate])), 1
            ),
        }
    write_report(report, options.out)


if __name__ == "__main__":
    main()
