"""What a descriptor tells of its dataset: how often the source is found again, in full and reduced, and what reducing costs.

Every dataset is split in halves: the client describes one, whoever wants to know describes the other half of every
dataset ("other images of the source"), or has the very images ("the same images").

    python scripts/bench/service_reidentification.py FOLDER_OF_NPZ --out report.json
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np

from warmstart.descriptor import Descriptor
from warmstart.history_store.history import History
from warmstart.locations import history_path
from warmstart.suggestions.advisor import Advisor


def halves(images, labels, seed=0):
    order = np.random.default_rng(seed).permutation(len(images))
    return [(images[rows], labels[rows]) for rows in (np.sort(order[::2]), np.sort(order[1::2]))]


def features(told: Descriptor) -> np.ndarray:
    counts = np.array([told.n_images, told.n_classes], dtype=np.float64)
    pixels = np.zeros(0) if told.sample is None else told.sample.pixels
    return np.concatenate([told.vector * 20, np.log(counts), pixels])


def found_again(known, asked, view) -> float:
    """Share of datasets whose own descriptor is the nearest of all that are known."""
    table = np.stack([view(each) for each in known])
    scale = table.std(0) + 1e-9
    hits = [int(np.linalg.norm((table - view(each)) / scale, axis=1).argmin() == i) for i, each in enumerate(asked)]
    return float(np.mean(hits))


def regret(advisor: Advisor, told: Descriptor, errors: np.ndarray, configs: list, group: str) -> float:
    """Normalised regret of the best of three suggestions, siblings left out."""
    chosen = Advisor(advisor.history, advisor.model, exclude_group=group, cache=False).suggest(told, 3).suggestions
    got = [errors[configs.index(dict(each.config))] for each in chosen]
    low, high = np.nanmin(errors), np.nanmax(errors)
    return float((np.nanmin(got) - low) / (high - low)) if np.isfinite(got).any() and high > low else np.nan


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    advisor, began = Advisor(cache=False), time.time()
    with History.open(history_path()) as history:
        names, groups, table = list(history.names), list(history.groups), history.errors
        configs = [dict(config) for config in history.configs]
    client, other, costs = [], [], {"full": [], "two digits": [], "one digit": []}
    for path in sorted(given.folder.glob("*.npz")):
        with np.load(path) as opened:
            keys = list(opened)
            images, labels = (
                opened["images" if "images" in keys else keys[0]],
                opened["labels" if "labels" in keys else keys[1]],
            )
        if len(images) < 200:
            continue
        one, two = halves(images[:3000], labels[:3000].astype(np.int64).ravel())
        client.append(advisor.describe(one).descriptor)
        other.append(advisor.describe(two).descriptor)
        if path.stem in names:
            row = names.index(path.stem)
            for label, told in (
                ("full", client[-1]),
                ("two digits", client[-1].reduced(2)),
                ("one digit", client[-1].reduced(1)),
            ):
                costs[label].append(regret(advisor, told, table[row], configs, groups[row]))
    views = {
        "full": (lambda told: features(told), lambda told: told),
        "vector alone": (lambda told: told.vector.astype(np.float64), lambda told: told),
        "reduced, two digits": (lambda told: features(told), lambda told: told.reduced(2)),
        "reduced, one digit": (lambda told: features(told), lambda told: told.reduced(1)),
    }
    report = {
        "datasets": len(client),
        "chance": 1 / len(client),
        "found_again": {
            label: {
                "other images of the source": found_again(
                    [cut(each) for each in other], [cut(each) for each in client], view
                ),
                "the same images": found_again([cut(each) for each in client], [cut(each) for each in client], view),
            }
            for label, (view, cut) in views.items()
        },
        "regret_of_three": {label: float(np.nanmean(values)) for label, values in costs.items()},
        "regret_datasets": len(costs["full"]),
        "seconds": round(time.time() - began, 1),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
