"""Add to the shipped history of the workload `transfer` what was measured at the pictures' own pixels.

Usage: python scripts/grow_transfer.py FOLDER_OF_ZIPS [--shards FOLDER] [--reached FILE [...]] [--defaults warmstart/defaults]

The history's datasets of at most 32 pixels stay as they are; those at their own pixels are made anew, so the command may be
run again when more blocks are packed. The model keeps its weights, and its hash. `--reached` are results of
scripts/bench/joined_heads.py: the errors that the classifiers of a plan reach together. See research/transfer-protocol.md.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from build_transfer import Arrays, Part, errors_of, feature_sets, read, runs
from numpy.typing import NDArray

from warmstart.bo.transfer.calibration import calibrate
from warmstart.history_store.history import History
from warmstart.history_store.picture import DECODING
from warmstart.history_store.readers import open_images
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.space import dump_space
from warmstart.metafeat.embed import describe_images
from warmstart.metafeat.model_file import ModelHeader, read_header
from warmstart.metafeat.pretrained.landmark_model import LandmarkModel
from warmstart.metafeat.pretrained.landmarks import SIZE
from warmstart.metafeat.sample_statistics import sample_statistics
from warmstart.suggestions.embedded_history import calibration_key
from warmstart.suggestions.own_pixels import REACHED_KEY, SIDE, Reached
from warmstart.suggestions.references import References, join_references, references_key
from warmstart.suggestions.smaller_parts import SmallerParts, smaller_parts_key
from warmstart.training.workloads import get_workload
from warmstart.training.workloads.transfer.frozen import PARTS, draw_pool, draw_split

OLD_SIDE = 32
"""Most pixels of a side of the pictures that the history has without a side."""
RULE = "s16+full, 224 to 128"
"""Of scripts/bench/joined_heads.py: what a plan of `classify` takes for photographs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/pixels-frozen"))
    parser.add_argument("--reached", type=Path, nargs="*", default=[])
    parser.add_argument("--defaults", type=Path, default=Path("warmstart/defaults"))
    options = parser.parse_args()
    path, model_path = options.defaults / "transfer.h5", options.defaults / "transfer.safetensors"
    about = json.loads((options.shards / "collection.json").read_text())["datasets"]
    shards = {file.stem: read(file) for file in sorted(options.shards.glob("*.npz"))}
    with History.open(path) as old:
        grown = grow(old, read_header(model_path), shards, about, options.data, options.reached)
    with tempfile.TemporaryDirectory() as scratch:
        space = dump_space(get_workload("transfer").space("large"))
        with History.create(Path(scratch) / "transfer.h5", space, stored_size=SIZE) as history:
            history.rewrite(**grown)
            LandmarkModel.load(model_path).save(model_path, {"history_id": history.id, "datasets": list(history.names)})
            history.compact(path=Path(scratch) / "compact.h5")
        path.write_bytes((Path(scratch) / "compact.h5").read_bytes())


def grow(
    old: History,
    model: ModelHeader,
    shards: Mapping[str, Arrays],
    about: Mapping[str, Any],
    data: Path,
    reached: Sequence[Path],
) -> dict[str, Any]:
    """Return the arguments of `History.rewrite`: the old datasets, and those at their own pixels."""
    kept = [
        replace(info, extra={SIDE: str(OLD_SIDE), **info.extra}) for info in old.datasets if info.name not in shards
    ]
    group_of = {info.name: info.group for info in kept}
    sets = [PixelSet(name, shard, about[name], data, model, group_of) for name, shard in shards.items()]
    names = [info.name for info in kept]
    vectors = {name: vector for name, vector in old.embeddings(model.hash).items() if name in names}
    vectors |= {each.info.name: each.vector for each in sets}
    evaluations = [run for name in names for run in old.evaluations(name)] + [run for each in sets for run in each.runs()]
    references = join_references(
        [old_references(old, model, names), References.from_dict(references_of(sets, old, model))]
    )
    blocks = sorted({block for each in sets for block in each.blocks})
    configs = [dict(config) for config in old.configs if any(True for _ in config)]
    configs += [config for block in blocks for config in feature_sets(block) if config not in configs]
    parts = SmallerParts.from_dict(old.get_result(smaller_parts_key(model.hash)) or {})
    parts = joined_parts(parts.of(names, configs), [part for each in sets for part in each.parts(configs)])
    results: dict[str, Any] = {
        references_key(model.hash): references.to_dict(),
        smaller_parts_key(model.hash): parts.to_dict(),
        REACHED_KEY: read_reached_errors(reached, set(shards)).to_dict(),
    }
    infos = [*kept, *(each.info for each in sets)]
    results[calibration_key(model.hash)] = calibrated(infos, configs, evaluations, vectors)
    return {
        "datasets": infos,
        "configs": configs,
        "evaluations": evaluations,
        "results": results,
        "embeddings": {model.hash: vectors},
    }


class PixelSet:
    """A dataset at its own pixels: what was measured, and the features of its pictures."""

    def __init__(
        self,
        name: str,
        shard: Arrays,
        about: Mapping[str, Any],
        data: Path,
        model: ModelHeader,
        group_of: Mapping[str, str],
    ) -> None:
        self.shard, self.model = shard, model
        self.blocks = sorted({key.split("/")[0] for key in shard})
        source = open_images(str(data / f"{name}.zip"))
        fingerprint = source.fingerprint("content")
        if fingerprint != about["fingerprint"]:
            msg = f"{name}: expected the images {about['fingerprint']}, got {fingerprint}. Obtain those."
            raise SystemExit(msg)
        pool = draw_pool(np.asarray(source.labels))
        pictures = source.read(pool, size=SIZE)
        self.images, self.labels = pictures.images, np.asarray(pictures.labels)
        self.split = draw_split(self.labels, 0)
        train = self.split.train[0]
        related = [other for other in (about["same_as"], *about["related"]) if other in group_of]
        self.info = DatasetInfo(
            name=name,
            group=group_of[related[0]] if related else about["group"],
            n_train=len(train),
            n_val=len(self.split.halves[0]),
            n_test=len(self.split.halves[1]),
            n_classes=len(source.class_names),
            channels=self.images.shape[3],
            class_counts=tuple(np.bincount(self.labels[train], minlength=len(source.class_names)).tolist()),
            fingerprint=fingerprint,
            source=about["source"],
            licence=about["licence"],
            what=about["what"],
            split_seed=0,
            decoding=f"{DECODING}, {SIZE}",
            extra={SIDE: str(about["native_size"])},
        )
        self.features = self._describe(train)
        self.vector = LandmarkModel.load(model.path).embed_features(self.features)

    def _describe(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return describe_images(self.images[rows], self.labels[rows], self.model)

    def runs(self) -> Iterator[Any]:
        """Return the runs of all blocks."""
        return runs(self.info.name, self.shard, self.blocks)

    def statistics(self) -> tuple[float, NDArray[np.float64]]:
        """Return class information and pixel statistics of the training images."""
        train = self.split.train[0]
        about = sample_statistics(self.images[train], self.labels[train])
        return about.signal.effect, about.pixels

    def parts(self, configs: Sequence[Mapping[str, Any]]) -> Iterator[SmallerParts]:
        """Yield the smaller parts with their errors of some configurations."""
        for number in range(1, len(PARTS)):
            rows = self.split.train[number]
            if not len(rows):
                continue
            error_of = {
                json.dumps(config, sort_keys=True): error
                for block in self.blocks
                for config, error in zip(
                    feature_sets(block), errors_of(self.shard, block, number).mean(axis=0), strict=True
                )
            }
            part = Part(
                PARTS[number],
                np.array([error_of.get(json.dumps(dict(config), sort_keys=True), np.nan) for config in configs]),
            )
            yield SmallerParts(
                (self.info.name,),
                self._describe(rows)[None],
                (self.info.n_val,),
                tuple(dict(config) for config in configs),
                part.errors[None],
            )


def old_references(old: History, model: ModelHeader, names: Sequence[str]) -> References:
    """Return the references of the old datasets."""
    stored = References.from_dict(old.get_result(references_key(model.hash)) or {})
    return replace(stored.of(names), sizes=stored.sizes, movements=stored.movements)


def references_of(sets: Sequence[PixelSet], old: History, model: ModelHeader) -> dict[str, Any]:
    """Return the references of the datasets at their own pixels, as `References.to_dict`."""
    effects, pixels = zip(*(each.statistics() for each in sets), strict=True)
    stored = References.from_dict(old.get_result(references_key(model.hash)) or {})
    return References(
        tuple(each.info.name for each in sets),
        np.array(effects),
        np.array(pixels),
        stored.sizes,
        stored.movements,
        np.array([each.features for each in sets]),
    ).to_dict()


def joined_parts(first: SmallerParts, more: Sequence[SmallerParts]) -> SmallerParts:
    """Join smaller parts that have the same configurations."""
    parts = [first, *more]
    return SmallerParts(
        tuple(name for part in parts for name in part.names),
        np.concatenate([part.features for part in parts]),
        tuple(n for part in parts for n in part.n_val),
        first.configs,
        np.concatenate([part.errors for part in parts]),
    )


def read_reached_errors(files: Sequence[Path], names: set[str]) -> Reached:
    """Read the errors that the joined heads of a plan came to, mean over splits."""
    errors: dict[str, float] = {}
    for file in files:
        for name, splits in json.loads(file.read_text())["sets"].items():
            if (stem := Path(name).stem) in names:
                wrong, asked = (sum(split[RULE][key] for split in splits) for key in ("wrong", "asked"))
                errors[stem] = wrong / asked
    return Reached(tuple(errors), np.array(list(errors.values())))


def calibrated(
    infos: Sequence[DatasetInfo],
    configs: Sequence[Mapping[str, Any]],
    evaluations: Sequence[Any],
    vectors: Mapping[str, NDArray[np.float32]],
) -> dict[str, Any]:
    """Return the calibration of the distances."""
    column_of = {json.dumps(dict(config), sort_keys=True): column for column, config in enumerate(configs)}
    row_of = {info.name: row for row, info in enumerate(infos)}
    sums, counts = np.zeros((2, len(infos), len(configs)))
    for run in evaluations:
        cell = row_of[run.dataset], column_of[json.dumps(dict(run.config), sort_keys=True)]
        sums[cell] += run.error
        counts[cell] += 1
    errors = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    points = np.array([vectors[info.name] for info in infos], dtype=float)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    return calibrate(errors, distances, [info.group for info in infos]).to_dict()


if __name__ == "__main__":
    main()
