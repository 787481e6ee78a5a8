"""So many minutes on a folder of pictures, five ways: `warmstart tune --workload transfer --time`, and what people do without it.

    python scripts/bench/transfer_live.py --folder WORK --dataset PATH[=GROUP] [...] [--minutes 10] [--threads 2] [--out FILE.json]

Of each dataset at most 800 pictures may be used by a method, as it likes, and at most 1,500 others are asked afterwards; all
are at most 128 pixels a side. The rivals: ridge on the features of the whole network, its penalty by training images left
out (a minute at most, no search); fine-tuning of the whole network by a recipe as people use it with timm (AdamW,
layer decay 0.75, warm-up and cosine over all of the time, random crops, flips, label smoothing 0.1); and the paper's CNN,
tuned from nothing for as long. Both tunings save the average of their five best. Beside them, not at equal pixels and not
counted, a ridge on pictures of up to 224 pixels a side. GROUP is the dataset's sibling group in the history; it does not answer. A killed run goes on
with the same command: `WORK/runs.jsonl` holds a line a run.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runs import resume

from warmstart.history_store.images import ImageSet
from warmstart.history_store.picture import square_arrays
from warmstart.history_store.readers import open_images
from warmstart.history_store.splits import stratified_split, stratified_subsample
from warmstart.training.workloads import load_classifier

GIVEN, ASKED, SIZE = 800, 1500, 128
BATCH = 32
Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


def draw(path: str, seed: int, size: int = SIZE) -> tuple[ImageSet, Images, Labels]:
    """Return the pictures that a method may use, and those that are asked afterwards with their labels."""
    source = open_images(path)
    labels = np.asarray(source.labels)
    most = min(GIVEN + ASKED, len(labels))
    pool = stratified_subsample(labels, most / len(labels), seed=seed)
    share = min(0.7, GIVEN / len(pool))
    codes = stratified_split(labels[pool], (share, 1 - share, 0.0), seed=seed)
    read = [source.read(pool[codes == code], size=size) for code in (0, 1)]
    given, asked = read
    return given, asked.images, asked.labels


def tuned(workload: str, *more: str) -> Callable[..., NDArray[np.int64]]:
    """Make a method of `warmstart tune`."""

    def method(
        given: ImageSet, asked: Images, *, minutes: float, threads: int, folder: Path, group: str | None
    ) -> NDArray[np.int64]:
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed: its study would go on
        folder.mkdir(parents=True)
        np.savez(folder / "given.npz", images=given.images, labels=given.labels)
        saved = folder / "classifier.safetensors"
        command = [
            sys.executable,
            "-m",
            "warmstart",
            "tune",
            "--dataset",
            "given.npz",
            "--workload",
            workload,
            "--ensemble",
            "5",
        ]
        command += ["--time", f"{minutes * 60:g}s", "--workers", str(threads), "--save-model", saved.name, *more]
        command += [] if group is None else [part for name in group.split("+") for part in ("--exclude-group", name)]
        subprocess.run(
            command, cwd=folder, check=True, env=os.environ | {"WARMSTART_CACHE": str(folder.resolve() / "cache")}
        )
        if not saved.exists():  # no trial ended in time: the most frequent class
            return np.full(len(asked), np.bincount(given.labels).argmax())
        classifier = load_classifier(saved)
        images = asked if classifier.size == SIZE else square_arrays(asked, classifier.size)
        return np.concatenate([classifier.predict(images[i : i + 64]).argmax(1) for i in range(0, len(images), 64)])

    return method


def ridge(backbone: str) -> Callable[..., NDArray[np.int64]]:
    """Make the method of a ridge on the features of a whole network."""

    def method(given: ImageSet, asked: Images, *, threads: int, **_: Any) -> NDArray[np.int64]:
        import torch

        from warmstart.metafeat.pretrained.backbones import find_backbone
        from warmstart.metafeat.pretrained.features import compute_features, open_network
        from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures, head_specs

        torch.set_num_threads(threads)
        network = open_network(find_backbone(backbone), size=given.images.shape[1], device=torch.device("cpu"))
        rows = compute_features(network, given.images).full
        search = HeadSearch(TrainingFeatures(rows, given.labels, len(given.class_names)), head_specs(("ridge",)))
        return search.fit().scores(compute_features(network, asked).full).argmax(1)

    return method


def recipe(
    given: ImageSet, asked: Images, *, minutes: float, threads: int, backbone: str = "tf_efficientnet_lite0", **_: Any
) -> NDArray[np.int64]:
    """Fine-tune a whole network for so long, by timm's optimiser and transforms."""
    import torch
    from PIL import Image
    from timm.data import create_transform
    from timm.optim import create_optimizer_v2

    from warmstart.metafeat.pretrained.backbones import build_backbone, find_backbone, normalisation

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    began = time.monotonic()
    found = find_backbone(backbone)
    mean, std = normalisation(found)
    network = build_backbone(found, size=SIZE)
    network.reset_classifier(len(given.class_names))
    optimizer = create_optimizer_v2(network, opt="adamw", lr=1e-3, weight_decay=0.05, layer_decay=0.75)
    rates = [group["lr"] * group.get("lr_scale", 1.0) for group in optimizer.param_groups]
    look = {"input_size": (3, SIZE, SIZE), "mean": mean, "std": std}
    change = create_transform(
        **look, is_training=True, scale=(0.5, 1.0), hflip=0.5, auto_augment=None, color_jitter=None
    )
    plain = create_transform(**look, crop_pct=1.0)
    shown = [Image.fromarray(np.broadcast_to(image, (SIZE, SIZE, 3))) for image in given.images]
    loss_of, rng = torch.nn.CrossEntropyLoss(label_smoothing=0.1), np.random.default_rng(0)
    labels, order, share = torch.from_numpy(given.labels), np.zeros(0, np.int64), 0.0
    network.train()
    while share < 1:
        order = rng.permutation(len(shown)) if len(order) < BATCH else order
        rows, order = order[:BATCH], order[BATCH:]
        share = (time.monotonic() - began) / (57 * minutes)  # three seconds a minute are left for the answers
        height = min(share / 0.05, 0.5 * (1 + np.cos(np.pi * min(share, 1))))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * height
        loss = loss_of(network(torch.stack([change(shown[row]) for row in rows])), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()
    answers = []
    with torch.inference_mode():
        for start in range(0, len(asked), 64):
            batch = [
                plain(Image.fromarray(np.broadcast_to(each, (SIZE, SIZE, 3)))) for each in asked[start : start + 64]
            ]
            answers.append(network(torch.stack(batch)).argmax(1).numpy())
    return np.concatenate(answers)


METHODS: dict[str, Callable[..., NDArray[np.int64]]] = {
    "warmstart": tuned("transfer"),
    "ridge, lite0": ridge("tf_efficientnet_lite0"),
    "ridge, lite2": ridge("tf_efficientnet_lite2"),
    "timm recipe, lite0": recipe,
    "CNN tuned cold": tuned("cnn", "--no-warm"),
    "ridge, lite0, 224 pixels": ridge("tf_efficientnet_lite0"),
}
LARGER = {"ridge, lite0, 224 pixels": 224}
"""Methods that are shown beside the others, and the pixels a side of their pictures."""
RIVALS = tuple(name for name in METHODS if name != "warmstart" and name not in LARGER)


def run(dataset: str, method: str, seed: int, minutes: float, threads: int, folder: Path) -> dict[str, Any]:
    """Play one method on one dataset."""
    path, _, group = dataset.partition("=")
    given, asked, labels = draw(path, seed, LARGER.get(method, SIZE))
    began = time.monotonic()
    place = folder / f"{Path(path).name}-{method.replace(' ', '-').replace(',', '')}-{seed}"
    found = METHODS[method](given, asked, minutes=minutes, threads=threads, folder=place, group=group or None)
    return {
        "error": round(float((found != labels).mean()), 5),
        "n_given": len(given.labels),
        "n_asked": len(labels),
        "wall_s": round(time.monotonic() - began, 1),
    }


def report(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Put errors side by side, and count where ours is below the best rival."""
    errors: dict[str, dict[str, float]] = {}
    asked: dict[str, list[int]] = {}
    for line in lines:
        job = line["job"]
        name = f"{Path(job['dataset'].partition('=')[0]).name}, seed {job['seed']}"
        errors.setdefault(name, {})[job["method"]] = line["error"]
        asked[name] = [line["n_given"], line["n_asked"]]
    whole = {name: each for name, each in errors.items() if set(each) >= {"warmstart", *RIVALS}}
    gains = [min(each[rival] for rival in RIVALS) - each["warmstart"] for each in whole.values()]
    return {
        "errors": errors,
        "given, asked": asked,
        "complete": len(whole),
        "below the best rival": sum(gain > 0 for gain in gains),
        "not above it": sum(gain >= 0 for gain in gains),
        "points below the best rival, mean": round(100 * float(np.mean(gains)), 2) if gains else None,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--dataset", action="append", required=True, metavar="PATH[=GROUP]")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=2, help="of the rivals; workers of ours")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        {"dataset": dataset, "method": method, "seed": seed, "minutes": options.minutes, "threads": options.threads}
        for seed in range(options.seeds)
        for dataset in options.dataset
        for method in options.methods
    ]
    lines = resume(options.folder / "runs.jsonl", jobs, lambda **job: run(**job, folder=options.folder / "work"))
    asked = {"minutes": options.minutes, "threads": options.threads, "seeds": options.seeds}
    found = {"machine": platform.processor() or platform.machine(), **asked, **report(lines)}
    text = json.dumps(found, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
