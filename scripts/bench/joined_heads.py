"""The mean of several heads on frozen features beside one of them, on pictures kept aside, and the error that is told.

    OMP_NUM_THREADS=1 python scripts/bench/joined_heads.py FOLDER_OF_ZIPS --features CACHE --sets NAME [...] [--out FILE.json]

Of each set two thirds of the pictures are given and a third is asked, three times. Heads are those of a plan of `classify`:
two networks at three sizes, and one at two depths. The features of a set are computed once, and lie in CACHE.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runs import write_report
from ten_minutes import LITE, features

from warmstart.history_store.readers import open_images
from warmstart.history_store.subsample import stratified_split
from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures, head_specs
from warmstart.training.workloads.transfer.prepared import choose_members, error_interval, wrong_answers

SIZES, NETWORKS, SPLITS = (224, 160, 128), (0, 2), 3
KINDS = ("logistic", "ridge", "knn", "centroid")
Z = 1.2816
"""Of a range that holds eight times of ten."""


def features_of(archive: Path, cache: Path) -> dict[str, NDArray[Any]]:
    """Return labels and features by network and size, from the cache or computed."""
    path = cache / f"{archive.stem}.npz"
    if not path.exists():
        source = open_images(str(archive))
        arrays: dict[str, NDArray[Any]] = {"labels": np.asarray(source.labels)}
        for size in SIZES:
            images = source.read(range(len(source)), size=size).images
            for number in NETWORKS:
                (computed,) = features(LITE.format(number), [images], all_depths=True)
                arrays |= {f"full-{number}-{size}": computed.full, f"s16-{number}-{size}": computed.s16}
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, **arrays)
    with np.load(path) as stored:
        return {name: stored[name] for name in stored}


def play(arrays: dict[str, NDArray[Any]], seed: int) -> dict[str, dict[str, int]]:
    """Fit all heads to the pictures that are given; count wrong answers, told and asked, by rule."""
    labels = arrays["labels"].astype(np.int64)
    codes = stratified_split(labels, (2 / 3, 1 / 3, 0.0), seed=seed)
    given, asked = np.flatnonzero(codes == 0), np.flatnonzero(codes == 1)
    rows = [arrays[f"full-{number}-{size}"] for size in SIZES for number in NETWORKS]
    rows.append(np.hstack([arrays[f"s16-0-{SIZES[0]}"], rows[0]]))
    left_out, answers, best_counts = [], [], []
    for each in rows:
        data = TrainingFeatures(each[given], labels[given], int(labels.max()) + 1)
        search = HeadSearch(data, head_specs(KINDS))
        left_out.append(search.cross_fitted())
        answers.append(search.fit().probabilities(each[asked]))
        best_counts.append(int(search.error_counts().min()))
    rules = {
        "all but clearly worse ones": choose_members(left_out, [False] * len(rows), labels[given], most=len(rows)),
        "the best by left-out answers": [int(np.argmin(best_counts))],
        "the first": [0],
    }
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
    parser.add_argument("zips", type=Path)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    played = {}
    for name in options.sets:
        arrays = features_of(options.zips / f"{name}.zip", options.features)
        played[name] = [play(arrays, seed) for seed in range(SPLITS)]
    everything = [run for runs in played.values() for run in runs]
    write_report({"sets": played, "sums": summary(everything)}, options.out)
