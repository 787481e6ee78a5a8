"""What larger pictures give: errors of heads on frozen features by image size, for pictures that are large enough.

The shipped history of the workload `transfer` knows pictures of 32 pixels, enlarged to at most 128. Here each folder is split again and again (by
class, seven of ten images to train); for every backbone and size the depth, mirrored copies and head with the fewest training images missed, each
left out, are measured on the others. Splits share images, so the intervals of differences are too narrow for other pictures.

    OMP_NUM_THREADS=1 python scripts/bench/picture_sizes.py FOLDER... --out scripts/bench/results/picture-sizes.json
"""

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.history_store.readers import open_images
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.backbones import PACKAGED, find_backbone
from warmstart.metafeat.pretrained.depths import Features
from warmstart.metafeat.pretrained.features import compute_features, open_network
from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures

SIZES = (64, 96, 128, 160, 224)
USUAL = 128
DEPTHS = ("s16", "full", "s16+full")
TRAIN = 0.7

Measured = dict[str, dict[str, list[tuple[float, float]]]]


def splits_of(labels: NDArray[np.int64], n: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Draw n splits by class into rows to train on and rows to measure."""
    found = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        of_class = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
        cut = [round(TRAIN * len(rows)) for rows in of_class]
        train = np.concatenate([rows[:k] for rows, k in zip(of_class, cut, strict=True)])
        found.append((train, np.concatenate([rows[k:] for rows, k in zip(of_class, cut, strict=True)])))
    return found


def error_of(
    plain: Features, mirrored: Features, labels: NDArray[np.int64], train: NDArray[np.intp], asked: NDArray[np.intp]
) -> tuple[float, float]:
    """Take what misses fewest training images when they are left out: return the share of those, and the error of the asked ones."""
    tried = []
    for depth, copies in product(DEPTHS, (False, True)):
        rows = plain.at(depth)[train]
        rows = np.concatenate([rows, mirrored.at(depth)[train]]) if copies else rows
        search = HeadSearch(TrainingFeatures(rows, labels[train], int(labels.max()) + 1))
        tried.append((int(search.error_counts().min()), depth, search))
    missed, depth, search = min(tried, key=lambda each: each[0])
    answers = search.fit().scores(plain.at(depth)[asked]).argmax(1)
    return missed / len(train), float((answers != labels[asked]).mean())


def measure(folder: Path, n_splits: int) -> Measured:
    """Measure a folder: by backbone and size, errors of left-out training images and of the asked ones, one pair a split."""
    source = open_images(folder)
    labels = np.asarray(source.labels)
    found: Measured = {}
    for name, size in product(PACKAGED, SIZES):
        network = open_network(find_backbone(name), size=size, device=torch.device("cpu"))
        images = source.read(np.arange(len(labels)), size=size).images
        plain, mirrored = (compute_features(network, np.ascontiguousarray(each)) for each in (images, images[:, :, ::-1]))  # fmt: skip
        errors = [error_of(plain, mirrored, labels, *split) for split in splits_of(labels, n_splits)]
        found.setdefault(name, {})[str(size)] = errors
        print(f"{folder.name} {name} {size}: {np.mean(errors, axis=0)[1]:.4f}", flush=True)
    return found


def chosen(by_backbone: Measured, largest: int) -> NDArray[np.float64]:
    """Return the error of each split where the training images choose the backbone, and the size up to the largest."""
    pairs = np.array([
        errors for by_size in by_backbone.values() for size, errors in by_size.items() if int(size) <= largest
    ])  # fmt: skip
    return pairs[pairs[:, :, 0].argmin(0), np.arange(pairs.shape[1]), 1]


def beside(errors: NDArray[np.float64], usual: NDArray[np.float64]) -> str:
    """Write a mean error, with how far it is above another one."""
    apart = errors - usual
    spread = f" ({apart.mean():+.3f} ± {apart.std(ddof=1) / len(apart) ** 0.5:.3f})"
    return f"{errors.mean():.3f}" + (spread if apart.any() else "")


def table(results: dict[str, Measured]) -> str:
    """Write a Markdown table: the mean error at each size, with what it is above that at the usual size; then where the training images choose."""
    lines = ["| pictures | backbone | " + " | ".join(map(str, SIZES)) + " |", "|---" * (2 + len(SIZES)) + "|"]
    for folder, by_backbone in results.items():
        for name, by_size in by_backbone.items():
            errors = {size: np.array(by_size[str(size)])[:, 1] for size in SIZES}
            lines.append(
                f"| {folder} | {name} | " + " | ".join(beside(errors[size], errors[USUAL]) for size in SIZES) + " |"
            )
        errors = {size: chosen(by_backbone, size) for size in SIZES}
        lines.append(
            f"| {folder} | chosen, sizes up to this | "
            + " | ".join(beside(errors[size], errors[USUAL]) for size in SIZES)
            + " |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    results = {folder.name: measure(folder, given.splits) for folder in given.folders}
    replace_file(given.out, (json.dumps(results, indent=1) + "\n").encode())
    print(table(results))
