"""Add to the shipped history of the workload `transfer` what was measured at the pictures' own pixels.

Usage: python scripts/grow_transfer.py [--shards FOLDER] [--landmarks FILE] [--reached FILE [...]] [--defaults warmstart/defaults]

The history's datasets of at most 32 pixels stay as they are; those at their own pixels are made anew from what is measured, so
the command may be run again when more blocks are packed (scripts/bench/pixels_frozen.py). No images are needed. The model keeps
its weights and its hash. See research/transfer-protocol.md.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from build_transfer import Arrays, feature_sets, read, runs

from warmstart.bo.transfer.calibration import REACHES, calibrate
from warmstart.history_store.history import History
from warmstart.history_store.picture import DECODING
from warmstart.history_store.records import DatasetInfo, Evaluation
from warmstart.history_store.space import dump_space
from warmstart.metafeat.pretrained.landmark_model import LandmarkModel
from warmstart.metafeat.pretrained.landmarks import SIZE
from warmstart.suggestions.embedded_history import calibration_key
from warmstart.suggestions.other_sizes import OWN_PIXELS_KEY, SIDE, OwnPixels, SmallerParts, smaller_parts_key
from warmstart.suggestions.references import References, join_references, references_key
from warmstart.training.workloads import get_workload

OLD_SIDE = 32
"""Most pixels of a side of the pictures that the history has without a side."""
LEAST_SETS = 20
"""Datasets that a backbone and size are measured on at least."""
RULE = "s16+full, 224 to 128"
"""Of scripts/bench/joined_heads.py: what a plan of `classify` takes for photographs."""
RESULTS = Path("scripts/bench/results")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/pixels-frozen"))
    parser.add_argument("--landmarks", type=Path, default=RESULTS / "pixels-landmarks.json")
    parser.add_argument(
        "--reached", type=Path, nargs="*", default=[RESULTS / f"joined-heads-{n}.json" for n in ("large", "small", "more")]
    )  # fmt: skip
    parser.add_argument("--defaults", type=Path, default=Path("warmstart/defaults"))
    options = parser.parse_args()
    path, model_path = options.defaults / "transfer.h5", options.defaults / "transfer.safetensors"
    about = json.loads((options.shards / "collection.json").read_text())["datasets"]
    shards = {file.stem: read(file) for file in sorted(options.shards.glob("*.npz"))}
    looks = json.loads(options.landmarks.read_text())["sets"]
    model = LandmarkModel.load(model_path)
    with History.open(path) as old:
        (model_hash,) = old.model_hashes
        grown = grow(
            old, model, model_hash, shards, {name: about[name] | looks[name] for name in shards}, options.reached
        )
    with tempfile.TemporaryDirectory() as scratch:
        space = dump_space(get_workload("transfer").space("large"))
        with History.create(Path(scratch) / "transfer.h5", space, stored_size=SIZE) as history:
            history.rewrite(**grown)
            model.save(model_path, {"history_id": history.id, "datasets": list(history.names)})
            history.compact(path=Path(scratch) / "compact.h5")
        path.write_bytes((Path(scratch) / "compact.h5").read_bytes())


def grow(
    old: History,
    model: LandmarkModel,
    model_hash: str,
    shards: Mapping[str, Arrays],
    about: Mapping[str, Any],
    reached: Sequence[Path],
) -> dict[str, Any]:
    """Return the arguments of `History.rewrite`: the old datasets, and those at their own pixels.

    `about` joins the facts of the collection with those of scripts/bench/pixels_landmarks.py.
    """
    kept = [
        replace(info, extra={**info.extra, SIDE: str(OLD_SIDE)}) for info in old.datasets if info.name not in shards
    ]
    names, group_of = [info.name for info in kept], {info.name: info.group for info in kept}
    infos = [*kept, *(describe(name, facts, group_of) for name, facts in about.items())]
    counts = Counter(block for shard in shards.values() for block in {key.split("/")[0] for key in shard})
    blocks = {block for block, count in counts.items() if count >= LEAST_SETS}
    configs = [dict(config) for config in old.configs]
    configs += [config for block in sorted(blocks) for config in feature_sets(block) if config not in configs]
    evaluations = [run for name in names for run in old.evaluations(name)]
    for name, shard in shards.items():
        evaluations += runs(name, shard, sorted(blocks & {key.split("/")[0] for key in shard}))
    features = {
        name: np.mean([split["landmarks"] for split in facts["splits"]], axis=0) for name, facts in about.items()
    }
    stored = References.from_dict(old.get_result(references_key(model_hash)) or {})
    fresh = References(
        tuple(about),
        np.array([facts["effect"] for facts in about.values()]),
        np.array([facts["pixels"] for facts in about.values()]),
        stored.sizes,
        stored.movements,
        np.array(list(features.values())),
    )
    references = join_references([replace(stored.of(names), sizes=stored.sizes, movements=stored.movements), fresh])
    parts = SmallerParts.from_dict(old.get_result(smaller_parts_key(model_hash)) or {})
    vectors = {name: vector for name, vector in old.embeddings(model_hash).items() if name in names}
    return {
        "datasets": infos,
        "configs": configs,
        "evaluations": evaluations,
        "results": {
            references_key(model_hash): references.to_dict(),
            smaller_parts_key(model_hash): parts.of(names, parts.configs).to_dict(),
            OWN_PIXELS_KEY: own_pixels(about, reached).to_dict(),
            calibration_key(model_hash): calibrated(infos, configs, evaluations),
        },
        "embeddings": {model_hash: vectors | {name: model.embed_features(each) for name, each in features.items()}},
    }


def describe(name: str, about: Mapping[str, Any], group_of: Mapping[str, str]) -> DatasetInfo:
    """Describe a dataset at its own pixels, in the group of the older dataset that shows the same or the like."""
    related = [other for other in (about["same_as"], *about["related"]) if other in group_of]
    counts = about["class_counts"]
    n_train, rest = round(sum(counts) * 4 / 7), sum(counts) - round(sum(counts) * 4 / 7)
    return DatasetInfo(
        name=name,
        group=group_of[related[0]] if related else about["group"],
        n_train=n_train,
        n_val=rest // 2,
        n_test=rest - rest // 2,
        n_classes=len(counts),
        channels=about["channels"],
        fingerprint=about["fingerprint"],
        source=about["source"],
        licence=about["licence"],
        what=about["what"],
        split_seed=0,
        decoding=f"{DECODING}, {SIZE}",
        extra={SIDE: str(about["side"])},
    )


def own_pixels(about: Mapping[str, Any], files: Sequence[Path]) -> OwnPixels:
    """Return the sharp errors, and the errors that the joined heads of a plan came to, means over splits."""
    reached: dict[str, float] = {}
    for file in files:
        for name, splits in json.loads(file.read_text())["sets"].items():
            wrong, asked = (sum(split[RULE][key] for split in splits) for key in ("wrong", "asked"))
            reached[Path(name).stem] = wrong / asked
    sharp = [
        np.mean([np.nan if split["sharp"] is None else split["sharp"] for split in facts["splits"]])
        for facts in about.values()
    ]
    return OwnPixels(tuple(about), np.array([reached.get(name, np.nan) for name in about]), np.array(sharp))


def calibrated(
    infos: Sequence[DatasetInfo], configs: Sequence[Mapping[str, Any]], evaluations: Sequence[Evaluation]
) -> dict[str, Any]:
    """Return the calibration of the regrets, all datasets weighing alike: near ones do no better (pixels_prize.py)."""
    column_of = {json.dumps(dict(config), sort_keys=True): column for column, config in enumerate(configs)}
    row_of = {info.name: row for row, info in enumerate(infos)}
    sums, counts = np.zeros((2, len(infos), len(configs)))
    for run in evaluations:
        cell = row_of[run.dataset], column_of[json.dumps(dict(run.config), sort_keys=True)]
        sums[cell] += run.error
        counts[cell] += 1
    errors = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    found = calibrate(errors, np.ones((len(infos), len(infos))), [info.group for info in infos])
    return replace(found, shares=tuple(float(reach == np.inf) for reach in REACHES)).to_dict()


if __name__ == "__main__":
    main()
