"""Target network: images a second and final errors of the fast route against the eager loop, in one run, one thread.

Speed is measured in CPU seconds of this process, the two routes alternating; final errors are paired by seed.

Usage: python scripts/bench/target_cnn.py [--dataset PATH ...] [--seeds 5] [--out FILE.json]
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers import open_arrays, open_images
from warmstart.history_store.splits import split_codes
from warmstart.training.workloads.cnn.budget import COMPACT, Budget
from warmstart.training.workloads.cnn.train import TargetData, train_target

FASTER, CLOSER = 2.0, 0.005
CONFIG = {
    "log10_learning_rate": -3.0,
    "log10_decay_rate": -4.5,
    "batch_size": 100,
    "num_layers_conv": 3,
    "num_layers_fc": 1,
    "dropout_rate": 0.2,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", action="append", default=[], help="a labelled collection, beside sklearn's digits")
    parser.add_argument("--seeds", type=int, default=5, help="of each dataset; 0 leaves the errors out")
    parser.add_argument("--repeats", type=int, default=5, help="of each timing; 0 leaves the timings out")
    parser.add_argument("--updates", type=int, default=20, help="of each timing")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    speed = [timing(n, updates=options.updates, repeats=options.repeats) for n in (1, 5, 9) if options.repeats]
    sources = {path: open_images(path) for path in options.dataset} | {"sklearn digits": digits()}
    errors = [pairs(name, source, seeds=options.seeds) for name, source in sources.items() if options.seeds]
    result: dict[str, object] = {
        "what": "target network, fast route against eager loop, one thread, CPU seconds",
        "machine": {"processor": processor(), "torch": torch.__version__, "commit": commit()},
        "speed": speed,
        "faster": all(each["ratio"] >= FASTER for each in speed),
        "errors": errors,
        "as_good": True,
    }
    differences = [d for each in errors for d in each["differences"]]
    if differences:
        mean, standard_error = statistics.fmean(differences), statistics.stdev(differences) / len(differences) ** 0.5
        result["mean_difference"], result["standard_error"] = mean, standard_error
        result["as_good"] = abs(mean) <= CLOSER and abs(mean) <= 2 * standard_error
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0 if result["faster"] and result["as_good"] else 1


def timing(n_conv: int, *, updates: int, repeats: int) -> dict[str, Any]:
    """Time both routes on 32x32x3 pictures in batches of 100."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (700, 32, 32, 3), dtype=np.uint8)
    split = np.r_[np.zeros(600, np.int8), np.ones(100, np.int8)]
    data = TargetData.of(images, rng.integers(0, 10, 700), split, n_classes=10)
    config = {**CONFIG, "num_layers_conv": n_conv}
    rates: dict[str, list[float]] = {"eager": [], "fast": []}
    for repeat in range(-1, repeats):
        for route, taken in rates.items():
            budget = Budget("timing", updates=updates if repeat >= 0 else 3, curve_points=1)
            result = train_target(data, config, budget, seed=0, route=route)
            if repeat >= 0:  # the first round warms up
                taken.append(result.images_per_s)
        print(n_conv, "layers, round", repeat, rates, file=sys.stderr, flush=True)
    medians = {route: statistics.median(taken) for route, taken in rates.items()}
    return {
        "conv_layers": n_conv,
        "batch": 100,
        "eager_images_per_s": round(medians["eager"]),
        "fast_images_per_s": round(medians["fast"]),
        "ratio": round(medians["fast"] / medians["eager"], 2),
        "ratios": [round(fast / eager, 2) for fast, eager in zip(rates["fast"], rates["eager"], strict=True)],
    }


def pairs(name: str, source: ImageSource, *, seeds: int) -> dict[str, Any]:
    """Train both routes from the same weights, order and dropout for every seed."""
    images = source.read(np.arange(len(source)))
    split, _ = split_codes(images.labels)
    data = TargetData.of(images.images, images.labels, split, n_classes=len(images.class_names))
    config = {**CONFIG, "batch_size": 32}
    errors: dict[str, list[float]] = {"eager": [], "fast": []}
    for seed in range(seeds):
        for route, taken in errors.items():
            taken.append(train_target(data, config, COMPACT, seed=seed, route=route).error)
        print(name, seed, {route: taken[-1] for route, taken in errors.items()}, file=sys.stderr, flush=True)
    differences = [fast - eager for fast, eager in zip(errors["fast"], errors["eager"], strict=True)]
    return {
        "dataset": name,
        **errors,
        "differences": differences,
        "mean_difference": statistics.fmean(differences),
        "standard_error": statistics.stdev(differences) / seeds**0.5,
    }


def digits() -> ImageSource:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return open_arrays((images.reshape(-1, 8, 8) / 16 * 255).astype(np.uint8), labels)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
