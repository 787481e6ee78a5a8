"""Build the shipped history and model from measured shards and the images that they were measured on.

Usage: python scripts/build_default.py --root FOLDER [--folds 6] [--steps N] [--parts] [--out warmstart/defaults]

Writes history.h5 (without images), model.safetensors and quality.json. The quality comes from models that never saw the
query's group of siblings: the groups are dealt into folds, one model is trained without each fold.
"""

import argparse
import dataclasses
import json
import math
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from history_noise import history_noise

from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.history_store.history import History
from warmstart.history_store.manifest import load_manifests
from warmstart.metafeat.embed import embed_history
from warmstart.metafeat.model_file import read_header
from warmstart.models.evaluate import EvaluationSettings, evaluate_history, store_calibration
from warmstart.models.recipe import Recipe
from warmstart.suggestions.history_refresh import compute_references
from warmstart.suggestions.references import store_references
from warmstart.training.collection.add_sources import rebuild
from warmstart.training.evaluation.methods import PLAIN_STRATEGIES
from warmstart.training.siamese.from_history import train_from_history
from warmstart.training.siamese.settings import preset
from warmstart.training.siamese.train import TrainingProgress

METHODS = (
    "random",
    "portfolio",
    "average-rank",
    "nearest-learned",
    "nearest-handcrafted",
    "nearest-random-network",
    "arbitrary",
    *(name for name in STRATEGIES if name not in PLAIN_STRATEGIES),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="folder of the images that the manifests name")
    parser.add_argument("--manifests", type=Path, default=Path("data_manifests"))
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/compact-400"))
    parser.add_argument("--out", type=Path, default=Path("warmstart/defaults"))
    parser.add_argument("--folds", type=int, default=6, help="0 = no held-out quality")
    parser.add_argument("--steps", type=int, help="of training; default the preset's")
    parser.add_argument("--configs", type=int, default=64, help="use the first so many of the measured configurations")
    parser.add_argument(
        "--parts", action="store_true", help="let parts of sources answer and train too; they lack configurations"
    )
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
        shards = choose(options.shards, options.configs, Path(scratch) / "shards", parts=options.parts)
        with rebuild(shards, path, manifests, root=options.root) as history:
            chosen = Recipe(steps=options.steps)
            quality = measure(path, chosen, options.folds, options.seed, Path(scratch)) if options.folds else None
            if quality is not None:
                quality["noise"] = noise(history)
            trained = train_from_history(
                history, settings, seed=options.seed, held_out=(), progress=report("the shipped model")
            )
            options.out.mkdir(parents=True, exist_ok=True)
            model_path = options.out / "model.safetensors"
            trained.model.save(model_path, {**trained.model.header, "quality": quality})
            model = read_header(model_path)
            history.set_embeddings(model.hash, embed_history(history, history.names, model))
            references = compute_references(history, model)
            if references is not None:
                store_references(history, references, model.hash)
            if quality is not None:
                store_calibration(history, model, quality)
            history.compact(drop_images=True, path=Path(scratch) / "small.h5")
        shutil.move(Path(scratch) / "small.h5", options.out / "history.h5")
    (options.out / "quality.json").write_text(json.dumps(quality, indent=1) + "\n")
    print(json.dumps(quality, indent=1))


def choose(shards: Path, n: int, out: Path, *, parts: bool) -> Path:
    """Copy shards with their first n configurations, those of parts where they are wanted."""
    out.mkdir()
    collection = json.loads((shards / "collection.json").read_text(encoding="utf-8"))
    (out / "collection.json").write_text(json.dumps(collection | {"configs": collection["configs"][:n]}))
    for file in shards.glob("*.jsonl"):
        header, *runs = file.read_text(encoding="utf-8").splitlines(keepends=True)
        if parts or json.loads(header)["dataset"]["parent"] is None:
            (out / file.name).write_text(header + "".join(run for run in runs if json.loads(run)["config"] < n))
    return out


def noise(history: History) -> dict[str, Any]:
    """Say how noisy the best quarter of each whole source is, where it was repeated, and how finite its validation part."""
    found = [one for one in history_noise(history) if history.dataset(one.name).fraction == 1]
    repeated = [one for one in found if one.median == one.median]
    return {
        "about": "standard error of a mean over seeds / range of a dataset's errors, best quarter of its configurations",
        "datasets": {
            one.name: {"runs": one.runs, "median": finite(one.median), "rms": finite(one.rms), "sampling": one.sampling}
            for one in found
        },
        "median": float(np.median([one.median for one in repeated])) if repeated else None,
        "rms": float(np.sqrt(np.mean([one.rms**2 for one in repeated]))) if repeated else None,
        "at_most_0.015": sum(one.median <= 0.015 for one in repeated),
        "sampling": float(np.median([one.sampling for one in found])),
    }


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def measure(path: Path, recipe: Recipe, folds: int, seed: int, scratch: Path) -> dict[str, Any]:
    """Evaluate models that never saw the query's group, as `warmstart evaluate` does, and keep the means and differences."""
    plan = EvaluationSettings(methods=METHODS, seed=seed, recipe=recipe, folds=folds, models=scratch / "models")
    said = evaluate_history(path, plan, progress=show_steps)
    return {
        **{
            key: said[key]
            for key in (
                "protocol",
                "n_datasets",
                "n_groups",
                "n_configs",
                "ours",
                "distances",
                "promises",
                "calibration",
            )
        },
        "folds": folds,
        "regret": {name: method["regret"] for name, method in said["rivals"].items()},
        "differences": said["differences"],
    }


def show_steps(done: int, total: int, text: str) -> None:
    if done % 100 == 0 or done == total:
        print(f"{text}: {done} of {total}", flush=True)


def report(what: str) -> Callable[[TrainingProgress], None]:
    started = time.monotonic()

    def show(progress: TrainingProgress) -> None:
        if progress.step % 100 == 0:
            print(f"{what}: step {progress.step}, {time.monotonic() - started:.0f} s", flush=True)

    return show


if __name__ == "__main__":
    main()
