"""Which target, encoder and label code predict what matters? One factor at a time, on groups that were held out.

The groups are dealt into folds; for each variant and fold a model is trained without the fold's groups and its distances from
them to all others are compared with the true ones (Spearman and recall of the five nearest, of errors as they are and
normalised) and used by `joint` (regret after 1, 3 and 10). Each model is one line of the file --runs, its weights lie beside it; the
same command goes on where it was stopped. Differences from the base are paired by dataset and seed, standard errors over groups.

    OMP_NUM_THREADS=1 python scripts/bench/metrics.py HISTORY_WITH_IMAGES.h5 --runs runs.jsonl \
        [--use-folds 3] [--steps 150] [--seeds 1] [--variant NAME ...] [--workers 2] [--out FILE.json]
"""

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import clustered_interval, regret_curve
from warmstart.history_store.error_tables import fill_failed, target_distance
from warmstart.history_store.history import History
from warmstart.training.evaluation.fold_models import FoldModels
from warmstart.training.evaluation.metrics import neighbour_recalls, rank_correlations
from warmstart.training.evaluation.protocol import deal
from warmstart.training.siamese.settings import SiameseSettings, preset

VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    **{f"target {kind}": {"target": kind} for kind in ("normalised", "rank", "sqrt_l1", "sqrt_normalised")},
    **{f"encoder {name}": {"extractor": name} for name in ("adf-sum", "adf-mix", "bilstm", "attention")},
    **{f"labels {code}": {"label_code": code} for code in ("none", "scalar", "onehot")},
    "residual convolutions": {"backbone": "residual"},
    "handcrafted": {"handcrafted": True, "weight_decay": 3.0},
    "handcrafted, no weight decay": {"handcrafted": True},
    "handcrafted, normalised": {"handcrafted": True, "weight_decay": 3.0, "target": "normalised"},
    "handcrafted, attention": {"handcrafted": True, "weight_decay": 3.0, "extractor": "attention"},
    **{
        f"handcrafted alone, {kind}": {"extractor": "handcrafted", "target": kind}
        for kind in ("mean_l1", "normalised", "sqrt_normalised", "rank")
    },
    "paper, ADF": {"preset": "paper", "extractor": "adf"},
    "paper, Bi-LSTM": {"preset": "paper", "extractor": "bilstm"},
}
MEASURES = ("spearman", "spearman_normalised", "recall", "recall_normalised", "regret@1", "regret@3", "regret@10")


def settings_of(variant: str, steps: int | None) -> SiameseSettings:
    """Return the settings of a variant; steps shorten all but the paper's presets in proportion."""
    fields = dict(VARIANTS[variant])
    found = preset(fields.pop("preset", "modern"), extractor=fields.get("extractor", "adf"))
    found = replace(found, weight_decay=fields.pop("weight_decay", found.weight_decay))
    found = replace(found, spec=replace(found.spec, **fields))
    whole = VARIANTS[variant].get("preset") == "paper" or found.spec.extractor == "handcrafted"  # published, or quick
    return found if steps is None or whole else replace(found, steps=steps)


def tasks(options: argparse.Namespace, known: set[str]) -> Iterator[dict[str, Any]]:
    """List the models to train, fold by fold, so that every variant is there early."""
    for seed in range(options.seeds):
        for fold in range(options.use_folds):
            for variant in options.variant or VARIANTS:
                key = f"{variant}/{options.steps}/{fold}/{seed}"
                if key not in known:
                    yield {"key": key, "variant": variant, "fold": fold, "seed": seed}


def train(path: Path, folder: Path, folds: int, steps: int | None, task: dict[str, Any]) -> dict[str, Any]:
    """Train one model without one fold and measure its distances from that fold."""
    import torch

    torch.set_num_threads(1)
    with History.open(path) as history:
        names = list(history.names)
        parts = deal("leave-source-out", names, list(history.groups), folds, seed=0)
        settings = settings_of(task["variant"], steps)
        models = FoldModels(history, names, parts, settings, folder=folder, seed=task["seed"])
        points = models.embeddings(frozenset({task["fold"]}))
    queries = np.flatnonzero(parts == task["fold"])
    distances = {names[q]: np.linalg.norm(points - points[q], axis=1).round(6).tolist() for q in queries}
    return {**task, "distances": distances}


def summary(path: Path, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Measure every variant and compare it with the base."""
    with History.open(path) as history:
        names, groups = list(history.names), np.array(history.groups)
        errors = fill_failed(history.errors, history.failed)
    raw, normalised = (target_distance(errors, kind, names=names) for kind in ("mean_l1", "normalised"))
    values: dict[str, dict[tuple[str, int], list[float]]] = {}
    for run in runs:
        for name, given in run["distances"].items():
            q = names.index(name)
            rest = np.flatnonzero(groups != groups[q])
            distances = np.asarray(given)[rest]
            found = [f(distances[None], true[q, rest][None])[0] for f in (rank_correlations, neighbour_recalls) for true in (raw, normalised)]  # fmt: skip
            measured = np.flatnonzero(~np.isnan(errors[q]))
            rows = initial_designs(errors[np.ix_(rest, measured)], distances, min(10, len(measured)), strategy="joint")
            curve = regret_curve(errors[q, measured], rows)
            values.setdefault(run["variant"], {})[name, run["seed"]] = [*found, curve[0], curve[2], curve[-1]]
    result: dict[str, Any] = {}
    for variant, cells in values.items():
        common = [key for key in cells if key in values.get("base", {})]
        mean = np.mean([cells[key] for key in cells], axis=0)
        result[variant] = {"models": sum(run["variant"] == variant for run in runs), **dict(zip(MEASURES, mean.tolist(), strict=True))}  # fmt: skip
        if variant == "base" or not common:
            continue
        gaps = np.array([np.subtract(cells[key], values["base"][key]) for key in common])
        labels = [str(groups[names.index(key[0])]) for key in common]
        intervals = [clustered_interval(column, groups=labels) for column in gaps.T]
        result[variant]["less_base"] = {name: [i.mean, i.low, i.high] for name, i in zip(MEASURES, intervals, strict=True)}  # fmt: skip
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=6)
    parser.add_argument("--use-folds", type=int, default=3, help="of them, the first so many")
    parser.add_argument("--steps", type=int, default=150, help="the paper's recipes and handcrafted ones keep theirs")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--variant", action="append", default=[], choices=list(VARIANTS))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runs = [json.loads(line) for line in options.runs.read_text().splitlines()] if options.runs.exists() else []
    todo = list(tasks(options, {run["key"] for run in runs}))
    work = partial(train, options.history, options.runs.with_suffix(".models"), options.folds, options.steps)
    with options.runs.open("a") as file, ProcessPoolExecutor(options.workers) as pool:
        for run in pool.map(work, todo):
            runs.append(run)
            file.write(json.dumps(run) + "\n")
            file.flush()
            print(f"{len(runs)}: {run['key']}", flush=True)
    asked = {f"/{options.steps}/{fold}/{seed}" for fold in range(options.use_folds) for seed in range(options.seeds)}
    result = summary(options.history, [run for run in runs if run["key"].removeprefix(run["variant"]) in asked])
    print(f"{'':36}" + "".join(f"{name:>22}" for name in MEASURES))
    for variant, found in result.items():
        print(f"{variant:36}" + "".join(f"{found[name]:22.4f}" for name in MEASURES))
        if "less_base" in found:
            print(f"{'  less base':36}" + "".join("{:+9.3f} [{:+.3f},{:+.3f}]".format(*found["less_base"][name])[:22].rjust(22) for name in MEASURES))  # fmt: skip
    if options.out:
        options.out.write_text(json.dumps({"folds": options.folds, "used": options.use_folds, "steps": options.steps, "seeds": options.seeds, "variants": result}, indent=1) + "\n")  # fmt: skip


if __name__ == "__main__":
    main()
