"""How many real image sets `suggest` doubts for pretrained networks, each with its family left out, and how much nonsense it finds.

    OMP_NUM_THREADS=1 python scripts/bench/real_doubts.py FOLDER_OF_NPZ FOLDER_OF_ZIPS [--history FILE] [--out FILE.json]

Of each set at most 400 pictures are looked at, whole and 50 drawn at random. From each four kinds of nonsense are made: labels
shuffled, pixels shuffled within each picture, noise in place of the pictures, and a fifth of the pictures repeated. What is
said of a set by its distance is left out for nonsense, so more of it may be found. Four sets are kept for the end.
"""

import argparse
import json
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pixels_frozen import UNREAD
from promises import families
from runs import write_report

from warmstart.history_store.readers import open_images
from warmstart.locations import history_path, model_path
from warmstart.metafeat.pretrained.landmarks import SIZE
from warmstart.metafeat.sample_statistics import sample_rows, sample_statistics
from warmstart.suggestions.confidence import find_doubts, judge_query
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.embeddings import load_embedded_history

Images, Labels, Rng = NDArray[np.uint8], NDArray[np.int64], np.random.Generator
DRAWN = (None, 50)


def shuffle_labels(images: Images, labels: Labels, rng: Rng) -> tuple[Images, Labels]:
    return images, rng.permutation(labels)


def shuffle_pixels(images: Images, labels: Labels, rng: Rng) -> tuple[Images, Labels]:
    flat = images.reshape(len(images), -1, images.shape[3])
    return np.stack([each[rng.permutation(flat.shape[1])] for each in flat]).reshape(images.shape), labels


def make_noise(images: Images, labels: Labels, rng: Rng) -> tuple[Images, Labels]:
    return rng.integers(0, 256, images.shape, dtype=np.uint8), labels


def repeat_pictures(images: Images, labels: Labels, rng: Rng) -> tuple[Images, Labels]:
    rows = np.resize(rng.permutation(len(labels))[: max(2, len(labels) // 5)], len(labels))
    return images[rows], labels[rows]


NONSENSE: dict[str, Callable[[Images, Labels, Rng], tuple[Images, Labels]]] = {
    "labels shuffled": shuffle_labels,
    "pixels shuffled": shuffle_pixels,
    "noise": make_noise,
    "pictures repeated": repeat_pictures,
}


def read_sets(folders: list[Path]) -> dict[str, tuple[Images, Labels]]:
    """Read what is looked at of each set."""
    found = {}
    for path in sorted(path for folder in folders for path in (*folder.glob("*.npz"), *folder.glob("*.zip"))):
        if path.stem not in UNREAD:
            source = open_images(str(path))
            rows = sample_rows(np.asarray(source.labels), np.arange(len(source)), seed=0)
            pictures = source.read(rows, size=SIZE)
            found[path.stem] = pictures.images, np.asarray(pictures.labels)
    return found


def reasons_of(
    embedded: EmbeddedHistory, rows: NDArray[np.int64], images: Images, labels: Labels, own: int | None
) -> tuple[str, ...]:
    """Return the reasons to doubt pictures; by distance too where the history has the set itself."""
    sample = sample_statistics(images, labels)
    if own is None:
        return tuple(doubt.code.value for doubt in find_doubts(sample, (), embedded.names, embedded.norms_of(rows)))
    near = embedded.nearest(embedded.vectors[own], rows, len(rows))
    return judge_query(embedded, rows, *near, sample=sample, class_names=()).reasons


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/pixels-frozen"))
    parser.add_argument("--history", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    about = json.loads((options.shards / "collection.json").read_text())["datasets"]
    embedded = load_embedded_history(
        options.history or history_path(None, workload="transfer"), model_path(None, workload="transfer")
    )
    family = np.array(families(embedded, about))
    doubted: dict[str, dict[str, list[str]]] = {str(size or "whole"): {} for size in DRAWN}
    found = {name: Counter[str]() for name in NONSENSE}
    sets = read_sets(options.folders)
    for name, (images, labels) in sets.items():
        own = embedded.names.index(name) if name in embedded.names else None
        rows = np.arange(len(family)) if own is None else np.flatnonzero(family != family[own])
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        for size in DRAWN:
            chosen = np.arange(len(labels)) if size is None else rng.permutation(len(labels))[:size]
            codes = np.unique(labels[chosen], return_inverse=True)[1]
            if reasons := reasons_of(embedded, rows, images[chosen], codes, own if size is None else None):
                doubted[str(size or "whole")][name] = list(reasons)
        for kind, make in NONSENSE.items():
            found[kind]["found" if reasons_of(embedded, rows, *make(images, labels, rng), None) else "missed"] += 1
    result = {
        "sets": len(sets),
        "doubted": {size: {"share": len(each) / len(sets), "sets": each} for size, each in doubted.items()},
        "nonsense found": {kind: count["found"] / count.total() for kind, count in found.items()},
    }
    write_report(result, options.out)


if __name__ == "__main__":
    main()
