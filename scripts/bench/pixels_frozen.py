"""Collect the frozen part of the transfer history at the pictures' own pixels: see research/transfer-protocol.md, "At own pixels".

python scripts/bench/pixels_frozen.py FOLDER_OF_ZIPS --out RUN_FOLDER        # collect, breadth first; run it again and it goes on
python scripts/bench/pixels_frozen.py --out RUN_FOLDER --pack SHARD_FOLDER   # one compact shard a dataset

A file named STOP in the run folder ends it after the block that it is at. The blocks of a dataset lie in RUN_FOLDER/blocks,
probabilities of the logistic head and of the best ridge, which are not packed, in RUN_FOLDER/probabilities.
"""

import argparse
import csv
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transfer_frozen import LITE, evidence, pack, packed

from warmstart.history_store.images import ImageSource
from warmstart.history_store.picture import DECODING
from warmstart.history_store.readers import open_images
from warmstart.metafeat.feature_names import LANDMARKS as LANDMARK_NAMES
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.backbones import find_backbone
from warmstart.metafeat.pretrained.depths import DEPTHS, Features
from warmstart.metafeat.pretrained.features import compute_features, open_network
from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures, head_specs, softmax
from warmstart.metafeat.pretrained.landmarks import HALF_SIZE, compute_landmarks, mirrored_landmarks
from warmstart.metafeat.pretrained.logistic import FOLDS, PENALTIES, LogisticPath, fit_logistic_path
from warmstart.training.workloads.transfer.frozen import COUNTS, PARTS, POOL, SPLITS, draw_pool, draw_split

UNREAD = ("dog_breeds12", "produce5", "playing_cards14", "retina4")
"""Kept for the end: not measured here."""
SIZES = (64, 96, 128, 160, 224)
USUAL_SIZE = 128
"""Smaller pictures are enlarged up to it at last, as the history at 32 pixels has them."""
ORDER = [
    *[(LITE[b], size) for b, size in [(0, 224), (0, 128), (0, 64), (2, 224), (0, 160), (0, 96), (2, 128)]],
    *[(LITE[b], size) for b, size in [(2, 160), (1, 224), (2, 96), (1, 128), (2, 64)]],
]
"""Breadth first: every dataset on one backbone at one size before the next. lite1 at two sizes, for the time that it takes."""
LANDMARKS = (LITE[0], 64)
SPACES = ("standardised", "centred")
"""Of the features that logistic heads see: each divided by its spread, or all by one number."""
HEADS = (*map(str, head_specs()), *(f"logistic, {space}, penalty by folds" for space in SPACES))
RELATED = {
    "faces": ("fer_expressions", "smiles", "lfw_subset", "face_mask", "olivetti"),
    "leaves": ("potato_leaf",),
    "scenes": (),
}
"""Groups of data_manifests/ that show what a group here shows, beside those that `same_as` names."""


def native_size(source: ImageSource) -> int:
    """Return the median of the pictures' shorter sides, in pixels."""
    return int(np.median([source.side(i) for i in range(len(source))]))


def sizes_for(native: int) -> tuple[list[int], list[int]]:
    """Return the image sizes up to the pictures' own and one step beyond, and the usual ones beyond these."""
    own = [size for n, size in enumerate(SIZES) if n == 0 or SIZES[n - 1] < native]
    return own, [size for size in SIZES if size not in own and size <= USUAL_SIZE]


def blocks_of(names: list[str], natives: dict[str, int]) -> Iterator[tuple[str, str, int]]:
    """List datasets, backbones and sizes in the order in which they are measured."""
    for part in (0, 1):
        for backbone, size in ORDER:
            yield from ((name, backbone, size) for name in names if size in sizes_for(natives[name])[part])


def measure(source: ImageSource, backbone: str, size: int) -> tuple[dict, dict]:
    """Measure one dataset on one backbone at one size: what is packed, and the probabilities."""
    import torch

    pool = draw_pool(np.asarray(source.labels))
    labels, n_classes = np.asarray(source.labels)[pool], len(source.class_names)
    before = time.process_time()
    images = source.read(pool, size=size).images
    decoded = time.process_time()
    network = open_network(find_backbone(backbone), size=size, device=torch.device("cpu"))
    opened = time.process_time()
    features = compute_features(network, images)
    seconds = (time.process_time() - opened) / len(images)
    flipped = compute_features(network, images, flipped=True)
    found, probabilities = measure_heads(features, flipped, labels, n_classes)
    found |= {
        "logme": evidence(features, labels),
        "image_seconds": np.float32(seconds),
        "decode_seconds": np.float32((decoded - before) / len(images)),
        "n_classes": np.int32(n_classes),
        "n_images": np.int32(len(source)),
        "channels": np.int32(images.shape[3]),
        "largest_share": np.float32(np.bincount(labels).max() / len(labels)),
        "native_size": np.int32(native_size(source)),
    }
    if (backbone, size) == LANDMARKS:
        half = compute_features(
            open_network(find_backbone(backbone), size=HALF_SIZE, device=torch.device("cpu")),
            source.read(pool, size=HALF_SIZE).images,
        )
        found |= landmarks(features, flipped, half, source.read(pool, size=16).images, labels, n_classes)
    return found, {**probabilities, "labels": labels.astype(np.uint8), "pool": pool.astype(np.uint16)}


def landmarks(
    whole: Features, flipped: Features, half: Features, pixels: NDArray[np.uint8], labels: NDArray[np.int64], n: int
) -> dict:
    """Compute the landmarks of each split's training images: those that need mirrored images, as the older table has them, and all 28."""
    mirrored, every = [], []
    for seed in range(SPLITS):
        train = draw_split(labels, seed).train[0]
        drawn = whole.rows(train), flipped.rows(train), pixels[train], labels[train]
        mirrored.append(mirrored_landmarks(*drawn, n_classes=n))
        every.append(compute_landmarks(drawn[0], drawn[1], half.rows(train), *drawn[2:]))
    names = sorted(mirrored[0])
    return {
        "landmark_names": np.array(names),
        "landmarks": np.array([[each[name] for name in names] for each in mirrored], np.float32),
        "all_landmarks": np.array(every, np.float32),
    }


def measure_heads(
    features: Features, flipped: Features, labels: NDArray[np.int64], n_classes: int
) -> tuple[dict, dict[str, NDArray]]:
    """Count the wrong answers of all heads on all feature sets, `splits x parts x depths x flips x heads x 3` as `FrozenTable`.

    The last heads are logistic, one in each of `SPACES`, its penalty chosen by the loss of images left out by folds.
    `logistic_wrong` and `logistic_losses` hold the same for every space and penalty. Probabilities, float16, are of all images
    where all training images train: those of training images left out, `splits x depths x flips x n x classes`; of the
    logistic heads the one with the least loss.
    """
    shape = (SPLITS, len(PARTS), len(DEPTHS), 2)
    wrong = np.zeros((*shape, len(HEADS), len(COUNTS)), np.uint16)
    logistic = np.zeros((*shape, len(SPACES), len(PENALTIES), len(COUNTS)), np.uint16)
    losses = np.zeros((*shape, len(SPACES), len(PENALTIES)), np.float32)
    totals = np.zeros((SPLITS, len(PARTS), len(COUNTS)), np.uint16)
    seconds = np.zeros((2, *shape[1:]))
    kept = {head: np.zeros((SPLITS, *shape[2:], len(labels), n_classes), np.float16) for head in ("logistic", "ridge")}
    for seed in range(SPLITS):
        split = draw_split(labels, seed)
        asked = np.concatenate(split.halves)
        for p, train in enumerate(split.train):
            if not len(train):
                continue
            totals[seed, p] = len(train), *(len(half) for half in split.halves)
            for d, depth in enumerate(DEPTHS):
                rows, mirrored = features.at(depth), flipped.at(depth)
                for copies in (0, 1):
                    at = (seed, p, d, copies)
                    used = np.vstack([rows[train], mirrored[train]]) if copies else rows[train]
                    began = time.process_time()
                    plain = plain_heads(TrainingFeatures(used, labels[train], n_classes), rows, labels, split.halves)
                    between = time.process_time()
                    fits = [logistic_head(used, labels[train], n_classes, rows[asked], space) for space in SPACES]
                    seconds[:, p, d, copies] += np.array([between - began, time.process_time() - between]) / SPLITS
                    n_first, chosen = len(split.halves[0]), []
                    for n, fit in enumerate(fits):
                        missed = fit["scores"].argmax(2) != labels[asked]
                        halves = missed[:, :n_first].sum(1), missed[:, n_first:].sum(1)
                        logistic[(*at, n)] = np.stack([fit["wrong"], *halves], axis=1)
                        losses[(*at, n)] = fit["losses"]
                        chosen.append(int(fit["losses"].argmin()))
                    wrong[at] = np.concatenate([plain["wrong"], logistic[at][np.arange(len(SPACES)), chosen]])
                    if p == 0:
                        space = int(losses[at].min(1).argmin())
                        best, place = fits[space], (seed, d, copies)
                        kept["logistic"][place][train] = softmax(best["left_out"][chosen[space]])
                        kept["logistic"][place][asked] = softmax(best["scores"][chosen[space]])
                        kept["ridge"][place][train], kept["ridge"][place][asked] = plain["left_out"], plain["asked"]
    return {
        "wrong": wrong,
        "totals": totals,
        "head_seconds": seconds[0].astype(np.float32),
        "logistic_seconds": seconds[1].astype(np.float32),
        "logistic_wrong": logistic,
        "logistic_losses": losses,
    }, kept


def plain_heads(
    data: TrainingFeatures,
    rows: NDArray[np.float32],
    labels: NDArray[np.int64],
    halves: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> dict[str, NDArray]:
    """Count wrong answers of ridge, neighbours and centroids, `heads x 3`; probabilities of the best ridge, training images left out."""
    search = HeadSearch(data)
    asked = np.concatenate(halves)
    others, n_first = rows[asked], len(halves[0])
    misses = np.array([search.scores(spec, others).argmax(1) != labels[asked] for spec in search.specs])
    ridges = [n for n, spec in enumerate(search.specs) if spec.kind == "ridge"]
    ridge = search.specs[ridges[int(search.error_counts()[ridges].argmin())]]
    head = search.fit(ridge)
    return {
        "wrong": np.stack([search.error_counts(), misses[:, :n_first].sum(1), misses[:, n_first:].sum(1)], axis=1),
        "left_out": softmax(head.scale * search.left_out_scores(ridge)),
        "asked": head.probabilities(others),
    }


def logistic_head(
    used: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int, asked: NDArray[np.float32], space: str
) -> dict[str, NDArray]:
    """Fit the logistic head for all penalties: left-out answers of `n` training images, and scores of other images."""
    mean, spread, path = logistic_path(used, labels, n_classes, space)
    ready = (asked - mean) / spread
    scores = np.array([path.scores(ready, place) for place in range(len(PENALTIES))])
    return {"wrong": path.wrong, "losses": path.losses, "left_out": path.left_out, "scores": scores}


def logistic_path(
    used: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int, space: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], LogisticPath]:
    """Centre and scale features as heads do, and fit all penalties: mean `d`, spread `d` and the fits."""
    rows = used.astype(np.float64)
    mean, each = rows.mean(0), rows.std(0)
    whole = float(np.sqrt(np.square(rows - mean).mean())) or 1.0
    spread = np.where(each > 1e-6 * whole, each, whole) if space == "standardised" else np.full(len(mean), whole)
    return mean, spread, fit_logistic_path((rows - mean) / spread, labels, n_classes=n_classes)


def collect(data: Path, out: Path, only: list[str] | None, limit: int | None) -> None:
    """Measure what is not there yet, breadth first."""
    import torch

    torch.set_num_threads(1)
    paths = {path.stem: path for path in sorted(data.glob("*.zip")) if path.stem not in UNREAD}
    names = [name for name in paths if only is None or name in only]
    blocks = out / "blocks"
    blocks.mkdir(parents=True, exist_ok=True)
    natives = {name: native_size(open_images(paths[name])) for name in names}
    if only is None:
        replace_file(blocks / "collection.json", json.dumps(settings(data, natives), indent=1).encode())
    done = 0
    for name, backbone, size in blocks_of(names, natives):
        path = blocks / name / f"{backbone}-{size}.npz"
        if path.exists():
            continue
        if (out / "STOP").exists() or (limit is not None and done >= limit):
            return
        started, spent = time.time(), time.process_time()
        found, probabilities = measure(open_images(paths[name]), backbone, size)
        beside = out / "probabilities" / name / path.name
        for target, arrays in ((beside, probabilities), (path, found)):
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, packed(arrays))
        done += 1
        took = f"{time.time() - started:.1f} s, CPU {time.process_time() - spent:.1f} s"
        print(f"{time.strftime('%H:%M:%S')} {name} {backbone} {size} {took}", flush=True)


def settings(data: Path, natives: dict[str, int]) -> dict:
    """Describe the collection and its datasets, the groups of siblings here and in data_manifests/ among it."""
    import torch

    with (data / "INDEX.csv").open() as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    datasets = {
        name: {
            "group": rows[name]["group"],
            "same_as": rows[name]["same_as"],
            "related": list(RELATED.get(rows[name]["group"], ())),
            "native_size": native,
            "n_images": int(rows[name]["images"]),
            "n_classes": int(rows[name]["classes"]),
            "what": rows[name]["kind"],
            "source": rows[name]["source"],
            "licence": rows[name]["licence"],
            "fingerprint": open_images(data / f"{name}.zip").fingerprint("content"),
        }
        for name, native in natives.items()
    }
    return {
        "depths": DEPTHS,
        "parts": PARTS,
        "pool": POOL,
        "counts": COUNTS,
        "heads": HEADS,
        "logistic": {"spaces": SPACES, "penalties": PENALTIES, "folds": FOLDS},
        "landmarks": LANDMARK_NAMES,
        "decoding": DECODING,
        "sizes": SIZES,
        "order": ORDER,
        "unread": UNREAD,
        "malloc": {key: value for key, value in os.environ.items() if key.startswith("MALLOC_")},
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.processor() or platform.machine(),
        "datasets": datasets,
    }


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    if given.pack is not None:
        pack(given.out / "blocks", given.pack)
    else:
        collect(given.data, given.out, given.only, given.limit)
