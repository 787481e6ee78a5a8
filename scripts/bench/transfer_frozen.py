"""Collect the frozen part of the transfer history: see research/transfer-protocol.md. Run it again and it goes on.

python scripts/bench/transfer_frozen.py FOLDER_OF_NPZ --out RUN_FOLDER        # collect, breadth first
python scripts/bench/transfer_frozen.py --out RUN_FOLDER --pack SHARD_FOLDER  # one compact shard a dataset

With `--parts 200 50` it is so many of the training images that train, and of the heads the chosen one alone is kept.
With `--unpack SHARD_FOLDER` what is in shards counts as measured in a new run folder.
"""

import argparse
import io
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
from logme import logme
from numpy.typing import NDArray

from warmstart.history_store.readers import open_images
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.backbones import find_backbone
from warmstart.metafeat.pretrained.depths import DEPTHS, Features
from warmstart.metafeat.pretrained.features import compute_features, open_network
from warmstart.metafeat.pretrained.heads import head_specs
from warmstart.metafeat.pretrained.landmarks import mirrored_landmarks
from warmstart.training.workloads.transfer.frozen import (
    COUNTS,
    PARTS,
    POOL,
    SPLITS,
    FrozenTable,
    by_chosen_heads,
    draw_pool,
    draw_split,
    measure_frozen,
)

SEEN = ("imagenette", "tinyimagenet_animals", "tinyimagenet_objects")
"""Pictures that the weights were trained on: collected last, and out of every evaluation."""
LITE = [f"tf_efficientnet_lite{n}" for n in (0, 1, 2)]
ORDER = [
    *[(LITE[b], size) for b, size in [(0, 64), (0, 32), (0, 96), (2, 64), (0, 128), (2, 96), (1, 64), (2, 128)]],
    *[(LITE[b], size) for b, size in [(1, 96), (1, 32), (1, 128), (2, 32)]],
]
"""Breadth first: every dataset on one backbone at one size before the next."""
LANDMARKS = (LITE[0], 64)


def measure(source_path: Path, backbone: str, size: int, known: dict | None, parts: list[int] | None) -> dict:
    """Measure one dataset on one backbone at one size; what is known already gets its LogME alone, which came later."""
    import torch

    source = open_images(source_path)
    pool = draw_pool(np.asarray(source.labels))
    labels = np.asarray(source.labels)[pool]
    images = source.read(pool, size=size).images
    network = open_network(find_backbone(backbone), size=size, device=torch.device("cpu"))
    if known is not None:
        return known | {"logme": evidence(compute_features(network, images), labels)}
    before = time.process_time()
    features = compute_features(network, images)
    seconds = (time.process_time() - before) / len(images)
    flipped = compute_features(network, images, flipped=True)
    n_classes = len(source.class_names)
    if parts is not None:
        return chosen_heads(measure_frozen(features, flipped, labels, n_classes=n_classes, parts=parts))
    table = measure_frozen(features, flipped, labels, n_classes=n_classes)
    found = {
        "logme": evidence(features, labels),
        "wrong": table.wrong,
        "totals": table.totals,
        "head_seconds": table.seconds.astype(np.float32),
        "image_seconds": np.float32(seconds),
        "n_classes": np.int32(n_classes),
        "n_images": np.int32(len(source)),
        "channels": np.int32(images.shape[3]),
        "largest_share": np.float32(np.bincount(labels).max() / len(labels)),
    }
    if (backbone, size) == LANDMARKS:
        small = source.read(pool, size=16).images
        values = []
        for seed in range(len(table.wrong)):
            train = draw_split(labels, seed).train[0]
            drawn = features.rows(train), flipped.rows(train), small[train], labels[train]
            values.append(mirrored_landmarks(*drawn, n_classes=n_classes))
        found["landmark_names"] = np.array(sorted(values[0]))
        found["landmarks"] = np.array([[each[name] for name in sorted(each)] for each in values], np.float32)
    return found


def chosen_heads(table: FrozenTable) -> dict:
    """Keep, of each feature set, the head that misses fewest training images left out: `splits x parts x depths x flips x 3`."""
    heads = table.wrong[..., 0].argmin(-1).astype(np.uint8)
    return {"wrong": by_chosen_heads(table.wrong), "heads": heads, "totals": table.totals}


def evidence(features: Features, labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """Compute LogME of the training images by split and depth."""
    trains, n_classes = [draw_split(labels, seed).train[0] for seed in range(SPLITS)], int(labels.max()) + 1
    found = [[logme(features.at(d)[rows], labels[rows], n_classes=n_classes) for d in DEPTHS] for rows in trains]
    return np.array(found, dtype=np.float32)


def read_block(path: Path) -> dict | None:
    """Read what was measured, if it was."""
    if not path.exists():
        return None
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}


def collect(data: Path, out: Path, only: list[str] | None, limit: int | None, parts: list[int] | None) -> None:
    """Measure what is not there yet, breadth first."""
    import torch

    torch.set_num_threads(1)
    names = sorted(path.stem for path in data.glob("*.npz"))
    names = [name for name in names if name not in SEEN] + [name for name in names if name in SEEN]
    names = [name for name in names if only is None or name in only]
    out.mkdir(parents=True, exist_ok=True)
    settings = {
        "depths": DEPTHS,
        "parts": parts or PARTS,
        "pool": POOL,
        "counts": COUNTS,
        "heads": [str(s) for s in head_specs()],
    }
    settings |= {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.processor() or platform.machine(),
    }
    replace_file(out / "collection.json", json.dumps(settings, indent=1).encode())
    done = 0
    for backbone, size in ORDER:
        for name in names:
            path = out / name / f"{backbone}-{size}.npz"
            known = read_block(path)
            if known is not None and (parts is not None or "logme" in known):
                continue
            if limit is not None and done >= limit:
                return
            started = time.time()
            found = measure(data / f"{name}.npz", backbone, size, known, parts)
            path.parent.mkdir(exist_ok=True)
            replace_file(path, packed(found))
            done += 1
            print(f"{time.strftime('%H:%M:%S')} {name} {backbone} {size} {time.time() - started:.1f} s", flush=True)


def packed(arrays: dict) -> bytes:
    """Return arrays as a compressed npz."""
    memory = io.BytesIO()
    np.savez_compressed(memory, **arrays)
    return memory.getvalue()


def pack(out: Path, shards: Path) -> None:
    """Write one compact file a dataset from the run folder."""
    shards.mkdir(parents=True, exist_ok=True)
    for folder in sorted(path for path in out.iterdir() if path.is_dir()):
        arrays = {}
        for path in sorted(folder.glob("*.npz")):
            with np.load(path) as found:
                arrays |= {f"{path.stem}/{key}": found[key] for key in found.files}
        replace_file(shards / f"{folder.name}.npz", packed(arrays))
    replace_file(shards / "collection.json", (out / "collection.json").read_bytes())


def unpack(shards: Path, out: Path) -> None:
    """Put what one file a dataset holds back into a run folder."""
    for path in sorted(shards.glob("*.npz")):
        blocks: dict[str, dict] = {}
        with np.load(path) as found:
            for key in found.files:
                block, name = key.split("/")
                blocks.setdefault(block, {})[name] = found[key]
        (out / path.stem).mkdir(parents=True, exist_ok=True)
        for block, arrays in blocks.items():
            replace_file(out / path.stem / f"{block}.npz", packed(arrays))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--unpack", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--parts", type=int, nargs="*")
    given = parser.parse_args()
    if given.unpack is not None:
        unpack(given.unpack, given.out)
    if given.pack is not None:
        pack(given.out, given.pack)
    else:
        collect(given.data, given.out, given.only, given.limit, given.parts)
