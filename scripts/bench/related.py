"""What related tasks are worth after a warm start: searches of finite tables, each dataset's group left out.

Methods, paired by dataset and seed: `cold` (two random configurations, then `gp`), `warm` (the first three of `joint`, then
`gp`), `related` (the same three, then `mt-gp` over the nearest datasets, one a group, thinned as `warmstart tune --related auto`
does, their meta-features the tasks' inputs), `unplaced` (the same without meta-features), `related alone` (no first three).
A table is `history` (the shipped one) or an npz as `warmstart evaluate --table` reads it. Distances of the history are those of
the shipped model, which saw the held-out groups as well: the warm start and the choice of neighbours are optimistic.

    OMP_NUM_THREADS=1 python scripts/bench/related.py --runs runs.jsonl TABLE [...] [--datasets 24] [--methods ...] [--out FILE.json]
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

from warmstart.bo.related import thinned
from warmstart.bo.search import search_table
from warmstart.bo.surrogates import Task
from warmstart.bo.transfer.calibration import Calibration
from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import regret_curve
from warmstart.history_store.history import History
from warmstart.locations import history_path, model_path
from warmstart.studies.related_dataset import EVALUATIONS, NEIGHBOURS, TOTAL
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.training.evaluation.table import history_table, read_table

Floats = NDArray[np.float64]
MEASURED = ("warm", "related", "cold")
METHODS = (*MEASURED, "unplaced", "related alone")
SHOWN = (3, 4, 5, 10)
GOAL = 0.05
T = 12


@dataclass(frozen=True)
class Table:
    """Errors of configurations on datasets, and where the datasets lie."""

    errors: Floats
    unit: Floats
    groups: list[str]
    features: Floats
    is_scaled: bool
    calibration: Calibration | None


@lru_cache
def load(name: str) -> Table:
    """Read a table."""
    if name != "history":
        table = read_table(Path(name))
        unit, features = np.asarray(table.unit), np.asarray(table.meta_features)
        return Table(table.errors, unit, list(table.groups), features, is_scaled=False, calibration=None)
    embedded = load_embedded_history(history_path(None), model_path(None))
    with History.open(embedded.path) as history:
        unit = np.asarray(history_table(history, name).unit)
    features = embedded.vectors.astype(float)
    return Table(
        embedded.errors(), unit, list(embedded.groups), features, is_scaled=True, calibration=embedded.calibration
    )


def sample(table: Table, n: int) -> list[int]:
    """Draw datasets whose errors are complete, of different groups where there are enough."""
    rng = np.random.default_rng(0)
    whole = rng.permutation(np.flatnonzero(~np.isnan(table.errors).any(axis=1))).tolist()
    firsts = list({table.groups[row]: row for row in reversed(whole)}.values())
    return sorted([*firsts, *(row for row in whole if row not in firsts)][:n])


def run(table: str, dataset: int, method: str, seed: int) -> dict[str, Any]:
    """Search one dataset."""
    known = load(table)
    others = [row for row, group in enumerate(known.groups) if group != known.groups[dataset]]
    features = known.features
    if not known.is_scaled:
        spread = features[others].std(axis=0)
        kept = spread > 0
        features = (features[:, kept] - features[others][:, kept].mean(axis=0)) / spread[kept]
    distances = np.linalg.norm(features[others] - features[dataset], axis=1)
    initial = initial_designs(known.errors[others], distances, 3, strategy="joint", calibration=known.calibration)
    nearest: dict[str, int] = {}
    for place in np.argsort(distances, kind="stable").tolist():
        nearest.setdefault(known.groups[others[place]], others[place])
    chosen, has_meta = list(nearest.values())[:NEIGHBOURS], method != "unplaced"
    tasks = []
    for row in chosen if method in ("related", "unplaced", "related alone") else []:
        rows = thinned(known.errors[row], min(EVALUATIONS, TOTAL // len(chosen)))
        tasks.append(Task(known.unit[rows], known.errors[row, rows], features[row] if has_meta else None))
    start = time.process_time()
    rows = search_table(
        known.unit,
        known.errors[dataset],
        initial=[] if method in ("cold", "related alone") else initial,
        t=T,
        rng=np.random.default_rng([seed, dataset]),
        surrogate="mt-gp" if tasks else "gp",
        related=tasks,
        meta=features[dataset] if tasks and has_meta else None,
    )
    return {"regret": regret_curve(known.errors[dataset], rows).tolist(), "cpu": time.process_time() - start}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over datasets and seeds by table and method, and differences from the warm start ± one standard error."""
    report: dict[str, Any] = {}
    for table in dict.fromkeys(row["job"]["table"] for row in rows):
        curves = {
            method: {
                (row["job"]["dataset"], row["job"]["seed"]): row
                for row in rows
                if (row["job"]["table"], row["job"]["method"]) == (table, method)
            }
            for method in METHODS
        }
        report[Path(table).stem] = {
            method: {"runs": len(found), **_figures(found, curves["warm"])} for method, found in curves.items() if found
        }
    return report


def _figures(found: dict[Any, dict[str, Any]], warm: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    both = [key for key in found if key in warm]
    ours, theirs = ([np.array(table[key]["regret"]) for key in both] for table in (found, warm))
    late = [i for i, curve in enumerate(theirs) if curve[2] > GOAL]
    figures: dict[str, Any] = {f"regret@{t}": float(np.mean([curve[t - 1] for curve in ours])) for t in SHOWN}
    figures["evaluations to 0.05"] = float(np.mean([_reached(curve) for curve in ours]))
    if late:
        figures["same, warm start above it"] = [len(late), float(np.mean([_reached(ours[i]) for i in late]))]
    for t in SHOWN[1:]:
        figures[f"less warm@{t}"] = _paired([a[t - 1] - b[t - 1] for a, b in zip(ours, theirs, strict=True)])
    figures["less warm, evaluations to 0.05"] = _paired(
        [_reached(a) - _reached(b) for a, b in zip(ours, theirs, strict=True)]
    )
    figures["cpu s a chosen evaluation"] = float(np.mean([found[key]["cpu"] for key in both])) / (T - 3)
    return figures


def _reached(curve: Floats) -> int:
    """Count the evaluations to the goal; T + 1 where it was not reached."""
    return int(np.argmax(curve <= GOAL)) + 1 if (curve <= GOAL).any() else T + 1


def _paired(differences: list[float]) -> list[float]:
    return [float(np.mean(differences)), float(np.std(differences, ddof=1) / np.sqrt(len(differences)))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("tables", nargs="+", metavar="TABLE")
    parser.add_argument("--datasets", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=MEASURED)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    jobs = [
        {"table": table, "dataset": dataset, "method": method, "seed": seed}
        for seed in range(asked.seeds)
        for table in asked.tables
        for dataset in sample(load(table), asked.datasets)
        for method in asked.methods
    ]
    write_report({"datasets": asked.datasets, "seeds": asked.seeds, **summarise(resume(asked.runs, jobs, run))}, asked.out)  # fmt: skip
