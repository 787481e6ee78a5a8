"""Build the shipped history of the workload `transfer`, and the model of its meta-features, from the frozen part of the collection.

Usage: python scripts/build_transfer.py --root FOLDER [--shards FOLDER] [--small FOLDER] [--out warmstart/defaults] [--parts-only]

With --parts-only the history that is there gets its smaller parts anew, and stays as it is else (minutes instead of an hour).
Otherwise it writes transfer.h5 (without images), transfer.safetensors and transfer-quality.json. The images that `--root` holds are those
that data_manifests/ names; datasets of pictures that the weights were trained on stay out. See research/transfer-protocol.md.
"""

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.bo.transfer.calibration import calibrate
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.manifest import Manifest, load_manifests
from warmstart.history_store.picture import DECODING
from warmstart.history_store.records import Config, DatasetInfo, Evaluation
from warmstart.history_store.space import dump_space
from warmstart.history_store.splits import TEST, TRAIN, VAL
from warmstart.metafeat.embed import embed_history, stored_sample
from warmstart.metafeat.feature_names import LANDMARKS
from warmstart.metafeat.model_file import read_header
from warmstart.metafeat.pretrained.depths import DEPTHS
from warmstart.metafeat.pretrained.landmark_model import LandmarkModel
from warmstart.metafeat.pretrained.landmarks import SIZE
from warmstart.suggestions.embedded_history import calibration_key
from warmstart.suggestions.history_refresh import compute_references
from warmstart.suggestions.other_sizes import SmallerParts, smaller_parts_key
from warmstart.suggestions.references import store_references
from warmstart.training.sources.obtain import open_manifest
from warmstart.training.workloads import get_workload
from warmstart.training.workloads.transfer.frozen import PARTS, by_chosen_heads, draw_pool, draw_split

SEEN = ("imagenette", "tinyimagenet_animals", "tinyimagenet_objects")
"""Pictures that the weights were trained on."""
ORIGIN = "collect/transfer/time"
Arrays = Mapping[str, NDArray[Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="folder of the images that the manifests name")
    parser.add_argument("--manifests", type=Path, default=Path("data_manifests"))
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/transfer-frozen"))
    parser.add_argument(
        "--small", type=Path, default=Path("data_manifests/measured/transfer-frozen-50"), help="parts of fewer images"
    )
    parser.add_argument("--out", type=Path, default=Path("warmstart/defaults"))
    parser.add_argument("--parts-only", action="store_true", help="measure the smaller parts alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shards = {path.stem: read(path) for path in sorted(options.shards.glob("*.npz")) if path.stem not in SEEN}
    blocks = sorted(set.intersection(*({key.split("/")[0] for key in shard} for shard in shards.values())))
    manifests = [manifest for manifest in load_manifests([options.manifests]) if manifest.name in shards]
    space = dump_space(get_workload("transfer").space())
    plain = LandmarkModel(np.zeros(len(LANDMARKS)), np.ones(len(LANDMARKS)))
    pools = (stored(manifest, options.root)[:2] for manifest in manifests)
    parts = smaller_parts(pools, measured_parts(shards, options.small, blocks), blocks, plain)
    model_path = options.out / "transfer.safetensors"
    if options.parts_only:
        with History.open(options.out / "transfer.h5", write=True) as history:
            history.set_result(smaller_parts_key(read_header(model_path).hash), parts.to_dict())
        for suffix in (".bak", ".index", ".lock"):  # what is shipped is read alone
            (options.out / f"transfer.h5{suffix}").unlink(missing_ok=True)
        return
    with (
        tempfile.TemporaryDirectory() as scratch,
        History.create(Path(scratch) / "transfer.h5", space, stored_size=SIZE) as history,
    ):
        history.add_datasets(stored(manifest, options.root) for manifest in manifests)
        for name, shard in shards.items():
            history.extend(runs(name, shard, blocks))
        landmarks = {name: plain.features(*stored_sample(history, name)) for name in history.names}
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "transfer.h5").unlink(missing_ok=True)  # what is built is built anew
        about = {"history_id": history.id, "datasets": list(history.names)}
        LandmarkModel.of(np.array([*landmarks.values()])).save(model_path, about)
        quality = finish(history, model_path, landmarks)
        history.set_result(smaller_parts_key(read_header(model_path).hash), parts.to_dict())
        history.compact(drop_images=True, path=options.out / "transfer.h5")
    (options.out / "transfer-quality.json").write_text(json.dumps(quality, indent=1) + "\n")
    print(json.dumps(quality, indent=1))


def read(path: Path) -> Arrays:
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}


def stored(manifest: Manifest, root: Path) -> tuple[DatasetInfo, ImageSet, NDArray[np.int8]]:
    """Read the images that a dataset was measured on: its pool, the training part that of the first split."""
    source = open_manifest(manifest, root=root)
    fingerprint = source.fingerprint("content")
    if manifest.fingerprint not in ("", fingerprint):
        msg = f"{manifest.name}: expected the images {manifest.fingerprint}, got {fingerprint}. Obtain those."
        raise SystemExit(msg)
    pool = draw_pool(np.asarray(source.labels))
    images = source.read(pool, size=SIZE)
    split = draw_split(images.labels, 0)
    codes = np.full(len(pool), TRAIN, np.int8)
    codes[split.halves[0]], codes[split.halves[1]] = VAL, TEST
    counts = np.bincount(images.labels[codes == TRAIN], minlength=len(images.class_names))
    info = DatasetInfo(
        name=manifest.name,
        group=manifest.group,
        n_train=int((codes == TRAIN).sum()),
        n_val=int((codes == VAL).sum()),
        n_test=int((codes == TEST).sum()),
        n_classes=len(images.class_names),
        channels=images.images.shape[3],
        class_counts=tuple(counts.tolist()),
        fingerprint=fingerprint,
        source=manifest.source,
        licence=manifest.licence,
        what=manifest.what,
        split_seed=0,
        decoding=f"{DECODING}, {SIZE}",
        manifest=manifest.name,
    )
    return info, ImageSet(images.images, images.labels, images.class_names), codes


def feature_sets(block: str) -> list[Config]:
    """List the configurations of one backbone at one image size, in the order of `errors_of`."""
    backbone, _, size = block.rpartition("-")
    return [
        {"backbone": backbone, "image_size": int(size), "depth": depth, "flip_copies": flip, "steps": 0}
        for depth in DEPTHS
        for flip in (False, True)
    ]


def errors_of(shard: Arrays, block: str, part: int) -> NDArray[np.float64]:
    """Return the errors `splits x feature sets` on one part of a dataset, by heads chosen with training images left out."""
    wrong = shard[f"{block}/wrong"].astype(int)[:, part]
    if wrong.ndim == 5:  # all heads, not the chosen one alone
        wrong = by_chosen_heads(wrong)
    asked = shard[f"{block}/totals"].astype(int)[:, part, 1:].sum(-1)
    errors: NDArray[np.float64] = (wrong[..., 1:].sum(-1) / asked[:, None, None]).reshape(len(wrong), -1)
    return errors


def runs(name: str, shard: Arrays, blocks: list[str]) -> Iterator[Evaluation]:
    """Return what was measured on a dataset with all of its training images: a run for each split."""
    for block in blocks:
        errors, images = errors_of(shard, block, 0), float(shard[f"{block}/image_seconds"])
        heads = shard[f"{block}/head_seconds"][0].reshape(-1)
        for split, (n_train, *halves) in enumerate(shard[f"{block}/totals"].astype(int)[:, 0].tolist()):
            for n, config in enumerate(feature_sets(block)):
                error = float(errors[split, n])
                seconds = images * (n_train * (2 if config["flip_copies"] else 1) + sum(halves)) + float(heads[n])
                yield Evaluation(
                    name, config, error, duration=round(seconds, 3), seed=split, curve=((0, error),), origin=ORIGIN
                )


@dataclass(frozen=True, slots=True)
class Part:
    """A smaller part of a dataset: training images at most, and the errors `c` of all feature sets, means over the splits."""

    limit: int
    errors: NDArray[np.float64]


def measured_parts(shards: Mapping[str, Arrays], small: Path, blocks: list[str]) -> dict[str, list[Part]]:
    """Read what was measured on the smaller parts of each dataset, those that have all feature sets."""
    limits = json.loads((small / "collection.json").read_text())["parts"] if small.exists() else []
    found: dict[str, list[Part]] = {}
    for name, shard in shards.items():
        fewer = read(small / f"{name}.npz") if limits else {}
        sources = [
            *((shard, part, limit) for part, limit in enumerate(PARTS) if part),
            *((fewer, *each) for each in enumerate(limits)),
        ]
        found[name] = [
            Part(limit, np.concatenate([errors_of(arrays, block, part).mean(axis=0) for block in blocks]))
            for arrays, part, limit in sources
            if all(f"{block}/totals" in arrays and arrays[f"{block}/totals"][:, part].all() for block in blocks)
        ]
    return found


def smaller_parts(
    pools: Iterable[tuple[DatasetInfo, ImageSet]],
    measured: Mapping[str, list[Part]],
    blocks: list[str],
    plain: LandmarkModel,
) -> SmallerParts:
    """Return the errors on the smaller parts of all datasets, with the landmarks of the first split's."""
    names, features, n_val, errors = [], [], [], []
    for info, pool in pools:
        for part in measured[info.name]:
            split = draw_split(pool.labels, 0, parts=[part.limit])
            names.append(info.name)
            features.append(plain.features(pool.images[split.train[0]], pool.labels[split.train[0]]))
            n_val.append(len(split.halves[0]))
            errors.append(part.errors)
    configs = tuple(config for block in blocks for config in feature_sets(block))
    return SmallerParts(tuple(names), np.array(features), tuple(n_val), configs, np.array(errors))


def finish(history: History, model_path: Path, landmarks: Arrays) -> dict[str, Any]:
    """Store embeddings, references and calibration; return what the distances are worth, groups left out."""
    model = read_header(model_path)
    vectors = embed_history(history, history.names, model, features=landmarks)
    history.set_embeddings(model.hash, vectors)
    references = compute_references(history, model)
    assert references is not None, "the history holds images"
    store_references(history, references, model.hash)
    points = np.array([vectors[name] for name in history.names], dtype=float)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    errors, _ = history.outcomes
    found = calibrate(errors, distances, history.groups)
    history.set_result(calibration_key(model.hash), {**found.to_dict(), "revision": history.revision})
    return {"datasets": len(history.names), "groups": len(set(history.groups)), "calibration": found.to_dict()}


if __name__ == "__main__":
    main()
