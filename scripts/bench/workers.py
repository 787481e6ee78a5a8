"""How suggestions and regret scale with workers: up to 1,000 of them on a simulated clock of recorded durations.

A search of the whole space. An error is interpolated between the 64 that the shipped history has of a dataset, by weights
distance^-8 in the unit cube; a trial takes as long as that of the nearest recorded configuration. Regret is the best error so far
less the least recorded one, over the range of the recorded ones. Each run is one line of the file --runs; the same command
goes on where it was stopped.

    OMP_NUM_THREADS=1 python scripts/bench/workers.py --runs runs.jsonl [--out FILE.json]
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace
from runs import resume, search, write_report

from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.history import History
from warmstart.history_store.space import load_space

HISTORY = Path(__file__).resolve().parents[2] / "warmstart" / "defaults" / "history.h5"
DATASETS = ("chars74k_fonts", "cats_dogs")
MORE = {1: 40, 8: 60, 64: 64, 256: 50, 1000: 40}
"""Evaluations after the first of every worker, by the number of workers: those whose suggestion knows what ended.

Above 8 workers, on the first dataset alone.
"""
UNIFORM = 10
"""Runs of uniform configurations, which cost nothing."""
POWER = 8
ROUNDS = (1, 2, 3, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the history has of one dataset.

    Attributes:
        errors: `c`; `seconds`: `c`; `unit`: `c x d` in the unit cube.
    """

    space: ConfigurationSpace
    encoding: Encoding
    unit: np.ndarray
    errors: np.ndarray
    seconds: np.ndarray

    def error(self, config: dict[str, Any]) -> float:
        """Interpolate the error of a configuration."""
        distances = self._distances(config)
        if not distances.min():
            return float(self.errors[distances.argmin()])
        weights = (distances / distances.min()) ** -POWER
        return float(weights @ self.errors / weights.sum())

    def duration(self, config: dict[str, Any]) -> float:
        """Return the seconds of the nearest recorded configuration."""
        return float(self.seconds[self._distances(config).argmin()])

    def regret(self, errors: np.ndarray) -> np.ndarray:
        """Scale errors to regret."""
        least = self.errors.min()
        return (errors - least) / (self.errors.max() - least)

    def _distances(self, config: dict[str, Any]) -> np.ndarray:
        return np.linalg.norm(self.unit - self.encoding.columns(self.encoding.encode([config])), axis=1)


def recorded(dataset: str) -> Recorded:
    """Read a dataset's evaluations."""
    with History.open(HISTORY) as history:
        space, configs = load_space(history.space_json), history.configs
        errors = history.errors[history.names.index(dataset)]
        durations = {tuple(sorted(e.config.items())): e.duration for e in history.evaluations() if e.dataset == dataset}
    encoding = Encoding(space)
    seconds = [durations[tuple(sorted(config.items()))] for config in configs]
    return Recorded(space, encoding, encoding.columns(encoding.encode(configs)), errors, np.array(seconds))


def run(dataset: str, surrogate: str, workers: int, more: int, seed: int) -> dict[str, Any]:
    """Search with simulated workers; times are given in mean durations."""
    table = recorded(dataset)
    if surrogate == "uniform":
        errors, ends = uniform(table, workers, workers + more, seed)
        asks = [0.0]
    else:
        trace = search(
            table.space, table.error, workers + more, workers=workers, seconds=table.duration,
            surrogate=surrogate, seed=seed,
        )  # fmt: skip
        assert not trace.proposed_pending
        errors, ends, asks = np.array(trace.errors), np.array(trace.ends), trace.asks[max(workers, 3) :]
    best = table.regret(np.minimum.accumulate(errors))
    return {"best": best.tolist(), "ends": (ends / table.seconds.mean()).tolist(), "asks": asks}


def uniform(table: Recorded, workers: int, t: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate uniform configurations; gives errors and ends in order of the ends."""
    table.space.seed(seed)
    free, ended = np.zeros(workers), []
    for config in map(dict, table.space.sample_configuration(t)):
        first = free.argmin()
        free[first] += table.duration(config)
        ended.append((free[first], table.error(config)))
    ends, errors = np.array(sorted(ended)).T
    return errors, ends


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means by surrogate and workers."""
    report: dict[str, Any] = {}
    for surrogate in ("gp", "dngo", "uniform"):
        for workers in MORE:
            runs = [r for r in rows if (r["job"]["surrogate"], r["job"]["workers"]) == (surrogate, workers)]
            if not runs:
                continue
            asks = np.concatenate([each["asks"] for each in runs])
            report.setdefault(surrogate, {})[workers] = {
                "runs": len(runs),
                "evaluations": workers + MORE[workers],
                "cpu an ask": {"median": float(np.median(asks)), "90 %": float(np.quantile(asks, 0.9))},
                "seconds a trial that keep up": float(asks.mean() * workers),
                "regret by mean durations": {r: _mean(runs, lambda each, r=r: _by(each, r)) for r in ROUNDS},
                "regret in the end": _mean(runs, lambda each: each["best"][-1]),
            }
    return report


def _mean(runs: list[dict[str, Any]], figure: Callable[[dict[str, Any]], float | None]) -> float | None:
    found = [figure(each) for each in runs]
    return None if None in found else float(np.mean([each for each in found if each is not None]))


def _by(row: dict[str, Any], now: float) -> float | None:
    """Return the regret at a time; None where nothing ended by then, or the run was over long before."""
    ended = np.searchsorted(row["ends"], now, side="right")
    return None if not ended or row["ends"][-1] < now - 1 else row["best"][ended - 1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    jobs = [
        {"dataset": dataset, "surrogate": surrogate, "workers": workers, "more": more, "seed": seed}
        for dataset in DATASETS
        for workers, more in MORE.items()
        if dataset == DATASETS[0] or workers <= 8
        for surrogate, seeds in (("uniform", UNIFORM), ("gp", 1), ("dngo", 1))
        for seed in range(seeds)
    ]
    write_report(summarise(resume(asked.runs, jobs, run)), asked.out)
