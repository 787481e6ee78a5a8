"""Landmarks and sharp errors of image sets at their own pixels, of the pictures that joined_heads.py gives, by split.

    OMP_NUM_THREADS=1 python scripts/bench/pixels_landmarks.py FOLDER_OF_ZIPS [--out scripts/bench/results/pixels-landmarks.json]

What scripts/grow_transfer.py adds to the shipped history, and promises.py asks with. Four sets are kept for the end: see
research/transfer-protocol.md. Run it again and it goes on.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from joined_heads import MOST, SPLITS
from pixels_frozen import UNREAD, native_size

from warmstart.history_store.readers import open_images
from warmstart.history_store.splits import stratified_split
from warmstart.metafeat.feature_names import LANDMARKS
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.backbones import packaged_weights
from warmstart.metafeat.pretrained.landmark_model import left_out_error, shrunk
from warmstart.metafeat.pretrained.landmarks import HALF_SIZE, PIXELS, SIZE, compute_landmarks
from warmstart.metafeat.pretrained.plain_lite import ARCHITECTURE, PlainLite0
from warmstart.metafeat.sample_statistics import SHARP_SAMPLE, SHARP_SIDE, SHARP_SIZE, sample_rows, sample_statistics


def measure(path: Path, network: PlainLite0) -> dict[str, Any]:
    """Measure one set."""
    source = open_images(str(path))
    side, labels = native_size(source), np.asarray(source.labels)
    drawn = np.sort(np.random.default_rng(0).permutation(len(labels))[:MOST])
    images, labels = source.read(drawn, size=SIZE).images, labels[drawn]
    parts = network.features(images), network.features(images[:, :, ::-1]), network.features(shrunk(images, HALF_SIZE))
    sharp = network.features(source.read(drawn, size=SHARP_SIZE).images).full if side >= SHARP_SIDE else None
    splits = []
    for seed in range(SPLITS):
        given = np.flatnonzero(stratified_split(labels, (2 / 3, 1 / 3, 0.0), seed=seed) == 0)
        landmarks = compute_landmarks(
            *(part.rows(given) for part in parts), shrunk(images[given], PIXELS), labels[given]
        )
        chosen = sample_rows(labels, given, seed=seed, most=SHARP_SAMPLE)
        error = None if sharp is None else round(left_out_error(sharp[chosen], labels[chosen]), 4)
        splits.append({"landmarks": np.round(landmarks, 4).tolist(), "sharp": error})
    about = sample_statistics(images, labels)
    return {
        "side": side,
        "channels": int(images.shape[3]),
        "class_counts": np.bincount(labels, minlength=len(source.class_names)).tolist(),
        "effect": round(about.signal.effect, 4),
        "pixels": np.round(about.pixels, 4).tolist(),
        "splits": splits,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("scripts/bench/results/pixels-landmarks.json"))
    options = parser.parse_args()
    found = json.loads(options.out.read_text()) if options.out.exists() else {"landmarks": LANDMARKS, "sets": {}}
    network = PlainLite0(packaged_weights(ARCHITECTURE))
    for path in sorted(options.data.glob("*.zip")):
        if path.stem not in found["sets"] and path.stem not in UNREAD:
            found["sets"][path.stem] = measure(path, network)
            replace_file(options.out, (json.dumps(found) + "\n").encode(), durable=False)
            print(path.stem, flush=True)


if __name__ == "__main__":
    main()
