"""Siamese training on many datasets: seconds a step, memory, and what neighbours among the pairs are worth.

``python scripts/bench/many_pairs.py --datasets 100 1000 10000 --out scripts/bench/results/many-pairs.json``

**The simulation.** A dataset has a place in eight dimensions. Datasets come in groups of three round centres that are
drawn uniformly; its errors of 50 configurations are a smooth random function of the place, with normal noise of 0.01; its
features are another one, of as many numbers as pictures give, with noise of a tenth of their spread. Groups are held out, 200
datasets in all (a fifth of fewer). Seeds are fixed.

**Measured** for two ways to draw the 64 datasets of a step, at random and in pairs of neighbours: CPU seconds a step, peak
memory, and for the held-out datasets, over three seeds, the rank correlation with the target distance (all, and for each
dataset) and the regret of the nearest: the mean target distance of the ten that the model finds, and of the ten best.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.error_tables import ErrorDistances
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.index import DatasetIndex
from warmstart.training.siamese import pairs
from warmstart.training.siamese.labelled_images import LabelledImages
from warmstart.training.siamese.settings import preset
from warmstart.training.siamese.train import SiameseRun

DIMENSIONS, CONFIGS, HELD_OUT, SIBLINGS = 8, 50, 200, 3
Table = NDArray[np.float64]


def smooth(places: Table, n: int, rng: np.random.Generator) -> Table:
    """Return n smooth random functions of places, each of mean 0 and spread 1: sums of sines."""
    waves = rng.normal(0, 2, (DIMENSIONS, 4 * n))
    values = np.sin(places @ waves + rng.uniform(0, 2 * np.pi, 4 * n)).reshape(len(places), n, 4).sum(axis=2)
    scaled: Table = (values - values.mean(0)) / values.std(0)
    return scaled


def simulate(m: int, seed: int) -> tuple[dict[str, LabelledImages], Table]:
    """Return labelled images, of which only the features are used, and errors `m x 50`."""
    rng = np.random.default_rng([m, seed])
    centres = rng.uniform(size=(-(-m // SIBLINGS), DIMENSIONS))
    places = np.repeat(centres, SIBLINGS, axis=0)[:m] + rng.normal(0, 0.05, (m, DIMENSIONS))
    errors = np.clip(0.3 + 0.1 * smooth(places, CONFIGS, rng) + rng.normal(0, 0.01, (m, CONFIGS)), 0, 1)
    features = smooth(places, len(FEATURES), rng)[:, None] + rng.normal(0, 0.1, (m, 4, len(FEATURES)))
    images, labels = np.zeros((1, 32, 32, 1), np.uint8), np.zeros(1, np.int64)
    return {f"d{i}": LabelledImages(images, labels, None, features[i]) for i in range(m)}, errors


def quality(run: SiameseRun, held: NDArray[np.int64]) -> dict[str, float]:
    """Return correlations, and the mean distance of the ten nearest by the model and by the target."""
    points = run.embed(np.arange(len(run.names)), np.random.default_rng(0))
    index, apart = DatasetIndex(points[run.training]), run.target.between(held, run.training)
    found = [apart[i, index.nearest(points[row], 10)[0]].mean() for i, row in enumerate(held.tolist())]
    last = run.curves.validations[-1]
    return {
        "spearman": last.spearman,
        "per_query": last.per_query,
        "nearest_10": float(np.mean(found)),
        "best_10": float(np.sort(apart, axis=1)[:, :10].mean()),
    }


def measure(m: int, seed: int, way: str) -> dict[str, float]:
    """Train one model."""
    data, errors = simulate(m, seed)
    held = [f"d{i}" for i in range(m - min(HELD_OUT, m // 5), m)]
    limit = m if way == "random" else 0
    with patch.object(pairs, "MANY", limit):
        run = SiameseRun(data, ErrorDistances(errors), preset("modern"), seed=seed, held_out=held, device="cpu")
        run.advance()
        started = time.process_time()
        while run.step < run.settings.steps:
            run.advance()
        a_step = (time.process_time() - started) / (run.settings.steps - 1)
        run.validate()
    return {"step_ms": round(1000 * a_step, 2), **quality(run, run.held_out)}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for m in options.datasets:
        for way in ("random", "neighbours"):
            runs = [measure(m, seed, way) for seed in range(options.seeds)]
            mean = {name: round(float(np.mean([run[name] for run in runs])), 4) for name in runs[0]}
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            rows.append({"datasets": m, "drawn": way, **mean, "peak_mb": peak, "runs": runs})
            print(m, way, mean, f"{peak} MB")
    if options.out:
        options.out.write_text(json.dumps({"sizes": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
