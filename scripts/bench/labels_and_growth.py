"""How well a report finds wrong labels, and how well it forecasts what twice as many pictures give.

Logistic heads on frozen features of one network at one size stand for classifiers; no kept-aside image set is read. In
each set one label of twenty is exchanged for another class, three times over: printed is the share of these among twice
as many of the most doubtful labels. For the forecast, half of the pictures, drawn class by class eight times over, forecast
the error of all. The forecast's usual exponent was set with these sets in sight.

    OMP_NUM_THREADS=1 python scripts/bench/labels_and_growth.py FOLDER_OF_ZIPS --features CACHE \
        --out scripts/bench/results/labels-and-growth.json
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.history_store.readers import open_images
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.backbones import find_backbone
from warmstart.metafeat.pretrained.features import compute_features, open_network
from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures, head_specs
from warmstart.metafeat.pretrained.logistic import forecast_error, learning_curve
from warmstart.studies.results.classifier_record import rank_labels

KEPT = ("dog_breeds12", "playing_cards14", "produce5", "retina4")
"""Image sets that no choice may have seen."""
NETWORK, SIZES = "tf_efficientnet_lite0", (128, 160, 224)
EXCHANGED, DRAWS, HALVES = 0.05, 3, 8
EASY = 0.10
"""Error up to which exchanged labels should be found."""


def features_of(path: Path, cache: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Compute the features of a set at the smallest size with nearly all of its pixels, or read them."""
    stored = cache / f"{path.stem}.npz"
    if not stored.is_file():
        source = open_images(path)
        sides = [side for row in range(0, len(source), 7) if (side := source.side(row))]
        size = next((size for size in SIZES if size >= 0.9 * np.median(sides)), SIZES[-1])
        network = open_network(find_backbone(NETWORK), size=size, device=torch.device("cpu"))
        full = compute_features(network, source.read(np.arange(len(source)), size=size).images).full
        np.savez(stored, full=full, labels=np.asarray(source.labels))
    arrays = np.load(stored)
    return arrays["full"], arrays["labels"].astype(np.int64)


def left_out(rows: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """Return the probabilities of images by a logistic head that has not seen them."""
    search = HeadSearch(TrainingFeatures(rows, labels, n_classes), head_specs(("logistic",)))
    return search.fit().of_scores(search.left_out_scores(search.best()))


def error_of(rows: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int) -> float:
    """Return the left-out error."""
    return float((left_out(rows, labels, n_classes).argmax(1) != labels).mean())


def share_found(rows: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int, seed: int) -> float:
    """Exchange labels, and return the share of these among twice as many of the most doubtful."""
    rng = np.random.default_rng(seed)
    n = max(1, round(EXCHANGED * len(labels)))
    exchanged = rng.choice(len(labels), n, replace=False)
    wrong = labels.copy()
    wrong[exchanged] = (labels[exchanged] + rng.integers(1, n_classes, n)) % n_classes
    order, _ = rank_labels(left_out(rows, wrong, n_classes), wrong)
    return float(np.isin(exchanged, order[: 2 * n]).mean())


def half_of(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw half of the images, class by class."""
    drawn = []
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        drawn.append(rows[: round(len(rows) / 2 + rng.uniform(-0.5, 0.5))])
    return np.concatenate(drawn)


def measure(rows: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[str, object]:
    """Measure one set."""
    n_classes, rng = int(labels.max()) + 1, np.random.default_rng(0)
    told = error_of(rows, labels, n_classes)
    forecasts, unchanged = [], []
    for _ in range(HALVES):
        half = half_of(labels, rng)
        present = error_of(rows[half], labels[half], n_classes)
        curve = learning_curve(rows[half], labels[half], n_classes=n_classes, rng=rng)
        forecasts.append(forecast_error(curve, present) - told)
        unchanged.append(present - told)
    found = [share_found(rows, labels, n_classes, seed) for seed in range(DRAWS)]
    return {"n": len(labels), "classes": n_classes, "error": told, "found": float(np.mean(found)), "misses": forecasts, "unchanged": unchanged}  # fmt: skip


def main() -> None:
    """Measure all sets, and print what is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.features.mkdir(parents=True, exist_ok=True)
    sets = {}
    for path in sorted(arguments.folder.glob("*.zip")):
        if path.stem in KEPT:
            continue
        sets[path.stem] = measure(*features_of(path, arguments.features))
        told, found, misses = (sets[path.stem][name] for name in ("error", "found", "misses"))
        print(f"{path.stem:22} error {told:.3f}  found {found:.2f}  misses {np.round(misses, 3)}", flush=True)
    easy = [each["found"] for each in sets.values() if each["error"] <= EASY]
    summary = {
        "found_where_easy": float(np.mean(easy)),
        "easy_sets": len(easy),
        "found_elsewhere": float(np.mean([each["found"] for each in sets.values() if each["error"] > EASY])),
        "median_miss": float(np.median(np.abs([miss for each in sets.values() for miss in each["misses"]]))),
        "median_miss_unchanged": float(
            np.median(np.abs([miss for each in sets.values() for miss in each["unchanged"]]))
        ),
    }
    print(json.dumps(summary, indent=1))
    replace_file(
        arguments.out, (json.dumps({"summary": summary, "sets": sets}, indent=1) + "\n").encode(), durable=False
    )


if __name__ == "__main__":
    main()
