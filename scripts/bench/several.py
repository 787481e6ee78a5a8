"""What tuning several datasets at once is worth: sets of three datasets of the shipped history, their recorded errors the objective.

Leave-source-out: each set is drawn, of different groups, from one sixth of the groups (`deal`, seed 0), and the model that measures
distances and gives the tasks' meta-features was trained without that sixth; the groups of the set are not in the warm start's
history either, and its calibration is that of the other five sixths, by models that saw neither. Methods, paired by set: what is
shared (`shared`: the other datasets' evaluations so far are related tasks of `mt-gp`; `separate`: `gp` alone) and how the
evaluations are split (`gain`, `equal`). A start is `warm` (three configurations of `joint` each) or `cold` (three random ones each).

    OMP_NUM_THREADS=1 python scripts/bench/several.py MODELS --runs runs.jsonl [--sets 24] [--starts warm cold] [--out FILE.json]

MODELS is the folder that `warmstart evaluate --protocol leave-source-out --models FOLDER` filled.
"""

import argparse
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runs import resume, write_report

from warmstart.bo.optimizer import Optimizer
from warmstart.bo.related import RelatedTask, thinned
from warmstart.bo.transfer.calibration import Calibration, calibrate
from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import regret_curve
from warmstart.history_store.history import History
from warmstart.history_store.space import load_space
from warmstart.locations import history_path
from warmstart.metafeat.model_file import read_header
from warmstart.studies.related_dataset import EVALUATIONS, TOTAL
from warmstart.studies.state.split import GainEstimate, equal_next, gain_next
from warmstart.training.evaluation.metrics import embedding_metric
from warmstart.training.evaluation.protocol import Fold, deal
from warmstart.training.evaluation.table import history_table

Floats = NDArray[np.float64]
METHODS = ("separate equal", "separate gain", "shared equal", "shared gain")
MEASURED = ("separate equal", "shared equal", "shared gain")
STARTS = ("warm", "cold")
SIZE, K, FOLDS = 3, 3, 6
T = 18
"""Evaluations of a set."""
SHOWN = (9, 12, 15, 18)
GOAL = 0.05


@dataclass(frozen=True)
class Table:
    """The history, and where its datasets lie for models that never saw a part."""

    names: tuple[str, ...]
    errors: Floats
    configs: list[dict[str, Any]]
    space: Any
    groups: list[str]
    parts: NDArray[np.int64]
    models: Path

    def features(self, left_out: frozenset[int]) -> Floats:
        """Return the embeddings of all datasets by the model trained without some parts."""
        without = "-".join(map(str, sorted(left_out)))
        hidden = {name for name, part in zip(self.names, self.parts.tolist(), strict=True) if part in left_out}
        seen = set(self.names) - hidden
        every = self.models.glob(f"*-without-{without}.npz")
        (path,) = [one for one in every if set(read_header(one.with_suffix(".safetensors")).fields["datasets"]) == seen]
        known = np.load(path)
        place = {name: row for row, name in enumerate(known["names"].tolist())}
        return np.asarray(known["rows"], dtype=np.float64)[[place[name] for name in self.names]]


@lru_cache
def load(models: str) -> Table:
    """Read the shipped history."""
    with History.open(history_path(None)) as history:
        table = history_table(history, "history")
        configs, space = [dict(config) for config in history.configs], load_space(history.space_json)
        names, groups = tuple(history.names), list(history.groups)
    parts = deal("leave-source-out", names, groups, FOLDS, seed=0)
    return Table(names, np.asarray(table.errors), configs, space, groups, parts, Path(models))


def draw(table: Table, n: int) -> list[list[int]]:
    """Draw sets of datasets of different groups whose errors are complete, each from one part."""
    rng = np.random.default_rng(0)
    sets = []
    for i in range(n):
        rows = np.flatnonzero((table.parts == i % FOLDS) & ~np.isnan(table.errors).any(axis=1))
        groups = rng.permutation(sorted({table.groups[row] for row in rows}))[:SIZE]
        sets.append([int(rng.choice([row for row in rows if table.groups[row] == group])) for group in groups])
    return sets


@lru_cache
def calibrated(models: str, part: int) -> Calibration:
    """Calibrate on the datasets outside a part, by models that saw neither them nor it."""
    table = load(models)
    inside, others = np.flatnonzero(table.parts == part), np.flatnonzero(table.parts != part)
    matrix = embedding_metric(table.features, table.parts, nested=True)(Fold("part", inside, others))
    return calibrate(table.errors[others], matrix[np.ix_(others, others)], [table.groups[row] for row in others])


def run(models: str, rows: list[int], start: str, method: str, seed: int) -> dict[str, Any]:
    """Tune one set."""
    table = load(models)
    part = int(table.parts[rows[0]])
    shared, split = method.split()
    features, held = table.features(frozenset((part,))), {table.groups[row] for row in rows}
    others = [row for row, group in enumerate(table.groups) if group not in held]
    initial = []
    for row in rows:
        if start == "cold":
            chosen = np.random.default_rng([seed, row]).choice(len(table.configs), K, replace=False).tolist()
        else:
            distances = np.linalg.norm(features[others] - features[row], axis=1)
            chosen = initial_designs(
                table.errors[others], distances, K, strategy="joint", calibration=calibrated(models, part)
            )
        initial.append(chosen)
    began = time.process_time()
    searches = _Searches(table, rows, initial, features[rows], seed, is_shared=shared == "shared")
    offers: list[GainEstimate | None] = [None] * len(rows)
    order = []
    for told in range(T):
        counts, members = searches.counts, range(len(rows))

        def refresh(i: int, told: int = told) -> GainEstimate:
            offer = GainEstimate(searches.log_gain(i), searches.counts[i], told)
            offers[i] = offer
            return offer

        chosen = (
            equal_next(counts, members)
            if split == "equal"
            else gain_next(counts, members, offers, told, refresh=refresh)
        )
        searches.step(chosen)
        order.append(chosen)
    curves = [regret_curve(table.errors[row], found) for row, found in zip(rows, searches.found, strict=True)]
    spans = [float(np.ptp(table.errors[row])) for row in rows]
    return {
        "order": order,
        "regrets": [curve.tolist() for curve in curves],
        "spans": spans,
        "fits": searches.fits,
        "cpu": time.process_time() - began,
    }


class _Searches:
    """Searches of several finite tables as `warmstart tune` makes them: each suggestion from what is told by then."""

    def __init__(
        self, table: Table, rows: list[int], initial: list[list[int]], metas: Floats, seed: int, *, is_shared: bool
    ) -> None:
        self.table, self.rows, self.initial, self.metas, self.seed = table, rows, initial, metas, seed
        self.is_shared, self.fits = is_shared, 0
        self.found: list[list[int]] = [[] for _ in rows]
        self._checkpoints: list[Any] = [None] * len(rows)
        self._made: list[tuple[int, Optimizer, int] | None] = [None] * len(rows)

    @property
    def counts(self) -> list[int]:
        return [len(found) for found in self.found]

    def log_gain(self, i: int) -> float | None:
        """Say what the next evaluation of a table promises."""
        return self._next(i)[1].log_gain

    def step(self, i: int) -> None:
        """Evaluate the next configuration of a table."""
        _, optimizer, row = self._next(i)
        self._checkpoints[i] = {**optimizer.checkpoint(), "all": sum(self.counts)}
        self.found[i].append(row)

    def _next(self, i: int) -> tuple[int, Optimizer, int]:
        told = sum(self.counts)
        made = self._made[i]
        if made is not None and made[0] == told:
            return made
        errors, configs, found = self.table.errors[self.rows[i]], self.table.configs, self.found[i]
        is_modelled = len(found) >= K
        tasks = [self._task(j) for j in range(len(self.rows)) if j != i] if self.is_shared and is_modelled else []
        optimizer = Optimizer(
            self.table.space,
            candidates=configs,
            surrogate="mt-gp" if tasks else "gp",
            initial=[configs[row] for row in self.initial[i]],
            n_startup_trials=0 if is_modelled else K,
            related=tasks,
            meta_feature=self.metas[i] if tasks else None,
            seed=self.seed,
        )
        for row in found:
            optimizer.tell(configs[row], float(errors[row]))
        checkpoint = self._checkpoints[i]
        if checkpoint is not None and is_modelled:
            # Others' evaluations are data too: a revision more.
            optimizer.resume(
                {**checkpoint, "told": checkpoint["told"] - (bool(tasks) and told > checkpoint["all"] + 1)}
            )
        row = configs.index(optimizer.ask()[0])
        self.fits += is_modelled
        self._made[i] = told, optimizer, row
        return self._made[i]

    def _task(self, i: int) -> RelatedTask:
        errors = self.table.errors[self.rows[i], self.found[i]]
        kept = thinned(errors, min(EVALUATIONS, TOTAL // (len(self.rows) - 1)))
        return RelatedTask(
            [self.table.configs[self.found[i][row]] for row in kept], errors[kept].tolist(), self.metas[i]
        )


def curve(result: dict[str, Any]) -> tuple[Floats, Floats, int]:
    """Give, after each evaluation of a set, its mean regret and mean error above the least, and the evaluations until all are good."""
    now, done, seen, above, reached = [1.0] * SIZE, [0] * SIZE, [], [], T + 1
    for t, i in enumerate(result["order"]):
        now[i] = result["regrets"][i][done[i]]
        done[i] += 1
        seen.append(float(np.mean(now)))
        above.append(float(np.mean(np.multiply(now, result["spans"]))))
        if max(now) <= GOAL:
            reached = min(reached, t + 1)
    return np.array(seen), np.array(above), reached


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over sets by start and method, and differences from separate searches with equal shares ± one standard error."""
    report: dict[str, Any] = {}
    for start in dict.fromkeys(row["job"]["start"] for row in rows):
        by = {
            method: {
                (tuple(row["job"]["rows"]), row["job"]["seed"]): row
                for row in rows
                if (row["job"]["start"], row["job"]["method"]) == (start, method)
            }
            for method in METHODS
        }
        report[start] = {method: _figures(found, by[METHODS[0]]) for method, found in by.items() if found}
        if by["shared equal"] and by["shared gain"]:
            report[start]["shared gain less shared equal"] = _figures(by["shared gain"], by["shared equal"])["less"]
    return report


def _figures(found: dict[Any, Any], base: dict[Any, Any]) -> dict[str, Any]:
    both = [key for key in found if key in base]
    ours, theirs = ([curve(table[key]) for key in both] for table in (found, base))
    shares = [np.bincount(found[key]["order"], minlength=SIZE).min() for key in both]
    names = (*(f"regret@{t}" for t in SHOWN), *(f"error@{t}" for t in SHOWN), "evaluations to 0.05")
    a, b = (
        np.array(
            [[*(seen[t - 1] for t in SHOWN), *(above[t - 1] for t in SHOWN), reached] for seen, above, reached in some]
        )
        for some in (ours, theirs)
    )
    return {
        "sets": len(both),
        **dict(zip(names, a.mean(axis=0).tolist(), strict=True)),
        "less": {name: _paired(column) for name, column in zip(names, (a - b).T, strict=True)},
        "least evaluations of a dataset": [int(min(shares)), float(np.mean(shares))],
        "cpu s an evaluation": float(np.mean([found[key]["cpu"] for key in both])) / (T - SIZE * K),
        "fits an evaluation": float(np.mean([found[key]["fits"] for key in both])) / (T - SIZE * K),
    }


def _paired(differences: Floats) -> list[float]:
    """Return mean and standard error, and how often less and how often more."""
    spread = float(np.std(differences, ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else float("nan")
    better, worse = (int((sign * differences < 0).sum()) for sign in (1, -1))
    return [float(np.mean(differences)), spread, better, worse]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=STARTS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=MEASURED)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    jobs = [
        {"models": str(asked.models), "rows": rows, "start": start, "method": method, "seed": seed}
        for seed in range(asked.seeds)
        for rows in draw(load(str(asked.models)), asked.sets)
        for start in asked.starts
        for method in asked.methods
    ]
    write_report({"sets": asked.sets, "seeds": asked.seeds, **summarise(resume(asked.runs, jobs, run))}, asked.out)  # fmt: skip
