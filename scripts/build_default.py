"""Build the shipped history and model from measured shards and the images that they were measured on.

Usage: python scripts/build_default.py --root FOLDER [--folds 6] [--steps N] [--out warmstart/defaults]

Writes history.h5 (without images), model.safetensors and quality.json. The quality comes from models that never saw the
query's group of siblings: the groups are dealt into folds, one model is trained without each fold.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from quality import held_out_quality

from history_store.history import History
from history_store.manifest import load_manifests
from metafeat.model import MetaFeatureModel
from metafeat.spec import space_digest
from training.enrol import rebuild
from training.evaluation import Fold
from training.siamese import Progress, train_from_history
from training.siamese_settings import SiameseSettings, preset
from warmstart.embedding import embed_history
from warmstart.model_file import read_header

TIMES = (1, 3, 5, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="folder of the images that the manifests name")
    parser.add_argument("--manifests", type=Path, default=Path("data_manifests"))
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/compact-400"))
    parser.add_argument("--out", type=Path, default=Path("warmstart/defaults"))
    parser.add_argument("--folds", type=int, default=6, help="0 = no held-out quality")
    parser.add_argument("--steps", type=int, help="of training; default the preset's")
    parser.add_argument("--configs", type=int, default=16, help="use the first so many of the measured configurations")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = preset("modern")
    if options.steps is not None:
        settings = dataclasses.replace(settings, steps=options.steps)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "history.h5"
        names = {file.stem for file in options.shards.glob("*.jsonl")}
        manifests = [manifest for manifest in load_manifests([options.manifests]) if manifest.name in names]
        shards = first_configs(options.shards, options.configs, Path(scratch) / "shards")
        with rebuild(shards, path, manifests, root=options.root) as history:
            quality = measure(history, settings, options.folds, options.seed) if options.folds else None
            trained = train_from_history(
                history, settings, seed=options.seed, held_out=(), progress=report("the shipped model")
            )
            options.out.mkdir(parents=True, exist_ok=True)
            model_path = options.out / "model.safetensors"
            trained.model.save(model_path, {**trained.model.header, "quality": quality})
            model = read_header(model_path)
            history.set_embeddings(model.hash, embed_history(history, history.names, model))
            history.compact(drop_images=True, path=options.out / "history.h5")
    (options.out / "quality.json").write_text(json.dumps(quality, indent=1) + "\n")
    print(json.dumps(quality, indent=1))


def first_configs(shards: Path, n: int, out: Path) -> Path:
    """Copy shards with their first n configurations."""
    out.mkdir()
    collection = json.loads((shards / "collection.json").read_text(encoding="utf-8"))
    (out / "collection.json").write_text(json.dumps(collection | {"configs": collection["configs"][:n]}))
    for file in shards.glob("*.jsonl"):
        header, *runs = file.read_text(encoding="utf-8").splitlines(keepends=True)
        (out / file.name).write_text(header + "".join(run for run in runs if json.loads(run)["config"] < n))
    return out


def measure(history: History, settings: SiameseSettings, folds: int, seed: int) -> dict[str, Any]:
    """Measure the embeddings of models that never saw the query's group, beside a fixed network with random weights."""
    groups, names = history.groups, history.names
    shuffled = np.random.default_rng(seed).permutation(sorted(set(groups))).tolist()
    bucket = {group: place % folds for place, group in enumerate(shuffled)}
    learned: dict[int, np.ndarray] = {}

    def embed(fold: Fold) -> np.ndarray:
        number = bucket[str(fold.group)]
        if number not in learned:
            known = [name for name, group in zip(names, groups, strict=True) if bucket[group] != number]
            show = report(f"fold {number + 1} of {folds}")
            trained = train_from_history(history, settings, seed=seed, names=known, held_out=(), progress=show)
            learned[number] = embed_all(history, trained.model)
        return learned[number]

    fixed = embed_all(history, MetaFeatureModel.random(settings.spec, seed=seed))
    found = held_out_quality(history, embed, baseline=lambda _: fixed, times=TIMES, seed=seed)
    return {"protocol": f"leave-group-out, groups dealt into {folds} folds"} | found


def embed_all(history: History, model: MetaFeatureModel) -> np.ndarray:
    """Embed every dataset with a model that is in memory, as a query is embedded."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.safetensors"
        model.save(path, {"history_id": history.id, "space_digest": space_digest(history.space_json)})
        vectors = embed_history(history, history.names, read_header(path))
    return np.stack([vectors[name] for name in history.names])


def report(what: str) -> Callable[[Progress], None]:
    started = time.monotonic()

    def show(progress: Progress) -> None:
        if progress.step % 100 == 0:
            print(f"{what}: step {progress.step}, {time.monotonic() - started:.0f} s", flush=True)

    return show


if __name__ == "__main__":
    main()
