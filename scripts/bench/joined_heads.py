"""The mean of several heads on frozen features beside one of them, on pictures kept aside, and the error that is told.

    OMP_NUM_THREADS=1 python scripts/bench/joined_heads.py FOLDER --features CACHE --sets FILE [...] [--sizes 224 160 128] [--out FILE.json]

Of each set two thirds of the pictures are given and a third is asked, three times. Heads are on two networks, at each
three sizes that follow one another, on the features of the whole network or beside those at a sixteenth, as in a plan of
`classify`. The features of a set are computed once, and lie in CACHE; of more than 400 pictures some are drawn.
"""

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runs import write_report
from ten_minutes import LITE, features

from warmstart.history_store.readers import open_images
from warmstart.history_store.splits import stratified_split
from warmstart.metafeat.pretrained.depths import Depth
from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures, head_specs
from warmstart.training.workloads.transfer.members import choose_members, error_interval, wrong_answers

NETWORKS, SPLITS, MOST = (0, 2), 3, 400
DEPTHS: tuple[Depth, ...] = ("full", "s16+full")
KINDS = ("logistic", "ridge", "knn", "centroid")
Z = 1.2816
"""Of a range that holds eight times of ten."""


def features_of(file: Path, cache: Path, sizes: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return labels and features by network, size and depth, from the cache or computed."""
    path = cache / f"{file.stem}.npz"
    if not path.exists():
        source = open_images(str(file))
        labels = np.asarray(source.labels)
        drawn = np.sort(np.random.default_rng(0).permutation(len(labels))[:MOST])
        arrays: dict[str, NDArray[Any]] = {"y": labels[drawn]}
        for size, number in product(sizes, NETWORKS):
            (computed,) = features(LITE.format(number), [source.read(drawn, size=size).images], all_depths=True)
            arrays |= {f"{number}-{size}-{part}": getattr(computed, part) for part in ("s16", "full")}
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, **arrays)
    with np.load(path) as stored:
        return {name: stored[name] for name in stored}


def play(arrays: dict[str, NDArray[Any]], seed: int, sizes: Sequence[int]) -> dict[str, dict[str, int]]:
    """Fit all heads to the pictures that are given; count wrong answers, told and asked, by rule."""
    labels = arrays["y"].astype(np.int64)
    codes = stratified_split(labels, (2 / 3, 1 / 3, 0.0), seed=seed)
    given, asked = np.flatnonzero(codes == 0), np.flatnonzero(codes == 1)
    keys = list(product(DEPTHS, sizes, NETWORKS))
    left_out, answers = [], []
    for depth, size, number in keys:
        rows = np.hstack([arrays[f"{number}-{size}-{part}"] for part in depth.split("+")])
        search = HeadSearch(TrainingFeatures(rows[given], labels[given], int(labels.max()) + 1), head_specs(KINDS))
        left_out.append(search.cross_fitted())
        answers.append(search.fit().probabilities(rows[asked]))
    rules = {}
    for depth, first in product(DEPTHS, range(len(sizes) - 2)):
        window = sizes[first : first + 3]
        heads = [index for index, key in enumerate(keys) if key[0] == depth and key[1] in window]
        chosen = choose_members([left_out[index] for index in heads], [False] * 6, labels[given], most=6)
        rules[f"{depth}, {max(window)} to {min(window)}"] = [heads[index] for index in chosen]
    rules |= {f"{depth}, {sizes[0]}, the first network": [keys.index((depth, sizes[0], 0))] for depth in DEPTHS}
    found = {}
    for rule, members in rules.items():
        told, came = (np.mean([each[index] for index in members], axis=0) for each in (left_out, answers))
        found[rule] = {
            "told": int(wrong_answers(told, labels[given]).sum()),
            "given": len(given),
            "wrong": int(wrong_answers(came, labels[asked]).sum()),
            "asked": len(asked),
            "members": len(members),
        }
    return found


def summary(runs: list[dict[str, dict[str, int]]]) -> dict[str, Any]:
    """Sum up by rule: wrong answers, the mean difference of what was told, and how often its range of 80 % held."""
    table = {}
    for rule in runs[0]:
        lines = [each[rule] for each in runs]
        told, came = (
            np.array([line[a] / line[b] for line in lines]) for a, b in (("told", "given"), ("wrong", "asked"))
        )
        middle = np.array([(line["told"] + 0.5) / (line["given"] + 1) for line in lines])
        spread = np.sqrt(middle * (1 - middle) * np.array([1 / line["given"] + 1 / line["asked"] for line in lines]))
        by_set = (told - came).reshape(-1, SPLITS).mean(1)
        table[rule] = {
            "wrong": sum(line["wrong"] for line in lines),
            "asked": sum(line["asked"] for line in lines),
            "members": round(float(np.mean([line["members"] for line in lines])), 2),
            "told less came": round(float(by_set.mean()), 4),
            "its standard error": round(float(by_set.std(ddof=1) / np.sqrt(len(by_set))), 4),
            "held": round(float(np.mean(np.abs(came - told) <= Z * spread)), 2),
            "mean length of the range": round(
                float(np.mean([np.diff(error_interval(line["told"], line["given"]))[0] for line in lines])), 4
            ),
        }
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", nargs="+", type=int, default=[224, 160, 128])
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    played = {}
    for name in options.sets:
        arrays = features_of(options.folder / name, options.features, options.sizes)
        played[name] = [play(arrays, seed, options.sizes) for seed in range(SPLITS)]
    everything = [run for runs in played.values() for run in runs]
    write_report({"sets": played, "sums": summary(everything)}, options.out)
