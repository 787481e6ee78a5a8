"""Does every hyperparameter move the error more than a new seed does? One at a time, low against high.

For each source one of the shared configurations is the base. It is trained twice with different seeds (the noise), and
for each hyperparameter once at the low and once at the high end of its range, everything else equal, seed included.
Results are appended to a file of JSON lines as they come; the same command goes on where it was stopped.

Usage: python scripts/sensitivity.py HISTORY.h5 --cells cells.jsonl [--only NAME ...] [--sources 24] [--out FILE.json]
"""

import argparse
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.history_store.history import History
from warmstart.history_store.space import load_space
from warmstart.training.collection.plan import cell_seed
from warmstart.training.workloads.cnn.budget import BUDGETS

Cell = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("history", type=Path, help="with images and shared configurations of the target network")
    parser.add_argument("--cells", type=Path, required=True, help="file of JSON lines, one a training")
    parser.add_argument("--only", action="append", default=[], help="a hyperparameter; default all")
    parser.add_argument("--sources", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", default="compact-400", choices=sorted(BUDGETS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    cells = list(plan(options.history, options.sources, options.only))
    known = (
        {cell["key"]: cell for cell in map(json.loads, options.cells.read_text().splitlines())}
        if options.cells.exists()
        else {}
    )
    todo = [cell for cell in cells if cell["key"] not in known]
    os.environ["OMP_NUM_THREADS"] = "1"
    work = partial(measure, options.history, options.budget)
    with options.cells.open("a") as file, ProcessPoolExecutor(options.workers) as pool:
        for cell in pool.map(work, todo):
            known[cell["key"]] = cell
            file.write(json.dumps(cell) + "\n")
            file.flush()
    result = {
        "what": "one hyperparameter at a time, low against high, over two seeds of the same configuration",
        "budget": options.budget,
    } | summary([known[cell["key"]] for cell in cells])
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0


def plan(path: Path, sources: int, only: list[str]) -> Iterator[Cell]:
    """List the trainings, source by source."""
    with History.open(path) as history:
        space, configs = load_space(history.space_json), [dict(config) for config in history.configs]
        names = [info.name for info in history.datasets if info.fraction == 1.0]
    picked = np.linspace(0, len(names) - 1, min(sources, len(names))).astype(int)
    for number, row in enumerate(picked.tolist()):
        base, name = configs[number % len(configs)], names[row]
        seeds = [cell_seed(name, base, replicate) for replicate in (0, 1)]
        for seed in seeds:
            yield _cell(name, base, seed, "seed", str(seeds.index(seed)))
        for parameter in space.values():
            if not only or parameter.name in only:
                for end in ("lower", "upper"):
                    yield _cell(name, {**base, parameter.name: getattr(parameter, end)}, seeds[0], parameter.name, end)


def _cell(dataset: str, config: dict[str, Any], seed: int, what: str, level: str) -> Cell:
    config = {name: value.item() if isinstance(value, np.generic) else value for name, value in config.items()}
    return {
        "key": f"{dataset}/{what}/{level}",
        "dataset": dataset,
        "config": config,
        "seed": seed,
        "what": what,
        "level": level,
    }


_data: dict[str, Any] = {}


def measure(history: Path, budget: str, cell: Cell) -> Cell:
    """Train one cell."""
    import torch

    from warmstart.training.workloads.cnn.train import TargetData, train_target

    torch.set_num_threads(1)
    if cell["dataset"] not in _data:
        _data.clear()
        with History.open(history) as opened:
            stored = opened.images(cell["dataset"])
            _data[cell["dataset"]] = TargetData.of(
                stored.array, stored.labels, stored.split, n_classes=len(stored.class_names)
            )
    result = train_target(_data[cell["dataset"]], cell["config"], BUDGETS[budget], seed=cell["seed"])
    return {**cell, "error": result.error, "duration": result.duration}


def summary(cells: list[Cell]) -> dict[str, Any]:
    """Compare mean squared differences; intervals from a bootstrap over sources."""
    pairs: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        pairs.setdefault(cell["what"], {}).setdefault(cell["dataset"], []).append(cell["error"])
    squares = {what: np.array([(b - a) ** 2 for a, b in each.values()]) for what, each in pairs.items()}
    signed = {what: np.array([b - a for a, b in each.values()]) for what, each in pairs.items()}
    noise, rng = squares["seed"], np.random.default_rng(0)
    rows = {}
    for what, square in squares.items():
        draws = rng.integers(0, len(square), (5000, len(square)))
        ratio = np.sqrt(square[draws].mean(1) / noise[draws].mean(1))
        rows[what] = {
            "rms": float(np.sqrt(square.mean())),
            "mean_high_less_low": float(signed[what].mean()),
            "median_absolute": float(np.median(np.abs(signed[what]))),
            "ratio_to_seed": float(np.sqrt(square.mean() / noise.mean())),
            "interval": [float(q) for q in np.percentile(ratio, [2.5, 97.5])],
            "larger_in": int((square > noise).sum()),
        }
    return {"sources": len(noise), "seed_rms": float(np.sqrt(noise.mean())), "effects": rows}


if __name__ == "__main__":
    raise SystemExit(main())
