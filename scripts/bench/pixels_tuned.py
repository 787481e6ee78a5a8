"""The fine-tunings at the pictures' own pixels: see research/transfer-protocol.md, "At own pixels".

python scripts/bench/pixels_tuned.py --draw                                  # write scripts/bench/pixels_configs.json anew
python scripts/bench/pixels_tuned.py FOLDER_OF_ZIPS --out RUN_FOLDER         # measure, breadth first; run it again and it goes on
python scripts/bench/pixels_tuned.py --out RUN_FOLDER --pack SHARD_FOLDER    # one compact file a dataset

A file named STOP in the run folder ends it after the run that it is at. RUN_FOLDER/runs has a file a run; the probabilities of its end,
which are not packed, lie in RUN_FOLDER/probabilities.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pixels_frozen import SPACES, UNREAD, USUAL_SIZE, logistic_path, native_size, sizes_for
from transfer_frozen import LITE, packed

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers import open_images
from warmstart.history_store.records import Status
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.backbones import find_backbone
from warmstart.metafeat.pretrained.features import compute_features, open_network
from warmstart.metafeat.pretrained.heads import HeadSearch, LinearHead, TrainingFeatures, head_specs, softmax
from warmstart.training.workloads.transfer.budget import TransferBudget
from warmstart.training.workloads.transfer.config import Tuning
from warmstart.training.workloads.transfer.finetune import TrainingClock, TunedNetwork, TuningImages, fine_tune, logits
from warmstart.training.workloads.transfer.frozen import draw_pool, draw_split

CONFIGS = Path(__file__).with_name("pixels_configs.json")
DRAWN, SEED = 22, 2026
POINTS = 8
"""Along a fine-tuning at which all pictures that do not train are asked."""
FLAT_SECONDS, FLAT_POINTS, FLAT_PICTURES = 60.0, 4, 1
"""A run ends early that has had so many CPU seconds and half of its steps, where so many points differ by no more pictures."""
_IMAGE_SECONDS = {"all": 0.11, "last2": 0.075, "last": 0.06}
"""Of a training image of 224 pixels in lite0, on one core: what the number of steps is drawn by."""
_DEARER = {LITE[0]: 1.0, LITE[2]: 1.3}
RECIPE: dict[str, Any] = {
    "backbone": LITE[0],
    "image_size": 224,
    "depth": "full",
    "head": "logistic",
    "steps": 280,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "body_rate": 1e-4,
    "tuned_stages": "all",
    "weight_decay": 1e-2,
    "random_flip": True,
    "crop_scale": 0.8,
    "mixup_alpha": 0.0,
    "label_smoothing": 0.0,
}
USUAL = RECIPE | {
    "depth": "s16+full",
    "head": "ridge",
    "steps": 140,
    "learning_rate": 3e-4,
    "body_rate": 3e-4,
    "random_flip": False,
    "label_smoothing": 0.1,
}
"""What the program does today, at 224 pixels."""


def draw_configs() -> list[dict[str, Any]]:
    """Draw the configurations: the two fixed ones first, then `DRAWN` whose choices are balanced."""
    rng = np.random.default_rng(SEED)

    def balanced(choices: list[Any]) -> list[Any]:
        dealt = [choices[n % len(choices)] for n in range(DRAWN)]
        return [dealt[n] for n in rng.permutation(DRAWN)]

    columns = {
        "backbone": balanced([LITE[0], LITE[0], LITE[2]]),
        "image_size": balanced([96, 128, 160, 224]),
        "depth": balanced(["full", "s16+full"]),
        "tuned_stages": balanced(["all", "all", "last2", "last"]),
        "batch_size": balanced([16, 16, 32]),
        "random_flip": balanced([True, False]),
        "crop_scale": balanced([1.0, 0.8, 0.6]),
        "mixup_alpha": balanced([0.0, 0.0, 0.0, 0.2]),
        "label_smoothing": balanced([0.0, 0.1]),
    }
    seconds, body, head, decay = balanced([60, 90, 180]), *((rng.permutation(DRAWN) + 0.5) / DRAWN for _ in range(3))
    highest = {"all": 3e-4, "last2": 1e-3, "last": 3e-3}
    drawn = []
    for n in range(DRAWN):
        config = {name: column[n] for name, column in columns.items()}
        if config["image_size"] == 224:
            config["batch_size"] = 16  # of 32 there would be twenty steps
        body_rate = _log_between(5e-5, highest[config["tuned_stages"]], body[n])
        config |= {
            "head": "best",
            "body_rate": body_rate,
            "learning_rate": max(_log_between(3e-4, 3e-3, head[n]), body_rate),
            "weight_decay": _log_between(1e-4, 1e-1, decay[n]),
            "steps": 10 * round(max(seconds[n], 90 * (config["image_size"] == 224)) / step_seconds(config) / 10),
        }
        drawn.append({name: config[name] for name in RECIPE})
    return [RECIPE, USUAL, *drawn]


def _log_between(low: float, high: float, share: float) -> float:
    return float(f"{low * (high / low) ** share:.2g}")


def step_seconds(config: dict[str, Any]) -> float:
    """Estimate the CPU seconds of a step."""
    of_image = _IMAGE_SECONDS[config["tuned_stages"]] * _DEARER[config["backbone"]]
    return of_image * (config["image_size"] / 224) ** 2 * config["batch_size"]


class FlatCurve(Exception):  # noqa: N818  no error
    """A curve that changes no more."""


@dataclass(frozen=True)
class AskedImages(TuningImages):
    """Training images, and those that do not train, which are asked whole at every point.

    Attributes:
        n_first: of those asked, as many are the first half.
        seconds: CPU seconds of the run so far.
        points: step, CPU seconds of training, and wrong answers on either half.
        asking: one number, CPU seconds of asking.
    """

    n_first: int = 0
    seconds: Callable[[], float] = time.process_time
    points: list[tuple[float, int, int]] = field(default_factory=list)
    asking: list[float] = field(default_factory=lambda: [0.0])

    def training_seconds(self) -> float:
        """Return the CPU seconds without those of asking."""
        return self.seconds() - self.asking[0]

    def answer(self, network: TunedNetwork, rows: NDArray[np.int64]) -> torch.Tensor:
        """Compute the logits of some images, and count what is wrong on either half of all."""
        spent, began = self.training_seconds(), self.seconds()
        found = logits(network, self.val_images)
        missed = found.argmax(1).numpy() != self.val_labels
        self.asking[0] += self.seconds() - began
        self.points.append((spent, int(missed[: self.n_first].sum()), int(missed[self.n_first :].sum())))
        return found[rows]


def is_flat(points: list[tuple[float, int, int]], share: float) -> bool:
    """Tell whether a curve has changed by `FLAT_PICTURES` at most for so long that the rest is spared."""
    if share < 0.5 or len(points) < FLAT_POINTS or points[-1][0] < FLAT_SECONDS:
        return False
    last = np.array(points[-FLAT_POINTS:])[:, 1:].sum(1)
    return bool(last.max() - last.min() <= FLAT_PICTURES)


def starting_head(rows: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int, kind: str) -> tuple:
    """Fit the head that a fine-tuning starts from; its kind, and the training images that it misses when they are left out.

    ``logistic`` is the one on standardised features. ``best`` is that, the one on centred features or ridge, whichever misses
    fewer; where they miss as many, a logistic one.
    """
    found = {}
    if kind in ("ridge", "best"):
        search = HeadSearch(TrainingFeatures(rows, labels, n_classes), head_specs(("ridge",)))
        found["ridge"] = (int(search.error_counts().min()), search.fit())
    for space in {"logistic": SPACES[:1], "best": SPACES}.get(kind, ()):
        mean, spread, path = logistic_path(rows, labels, n_classes, space)
        best = path.best()
        head = LinearHead(mean, spread, path.weight[best], path.bias[best])
        found[f"logistic, {space}"] = (int(path.wrong[best]), head)
    name = min(sorted(found), key=lambda each: found[each][0])
    return name, *found[name]


def measure(source: ImageSource, config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Fine-tune one configuration on the first split of a dataset: what is packed, and the probabilities at its end."""
    device = torch.device("cpu")
    pool = draw_pool(np.asarray(source.labels))
    labels, size = np.asarray(source.labels)[pool], int(config["image_size"])
    split = draw_split(labels, 0)
    train, asked = split.train[0], np.concatenate(split.halves)
    n_classes, n_first = len(source.class_names), len(split.halves[0])
    images = source.read(pool, size=size).images
    body = open_network(find_backbone(config["backbone"]), size=size, device=device)
    began = time.process_time()
    rows = compute_features(body, images).at(config["depth"])
    kind, left_out, head = starting_head(rows[train], labels[train], n_classes, config["head"])
    seconds_of_head = time.process_time() - began
    wrong = head.scores(rows[asked]).argmax(1) != labels[asked]
    network = TunedNetwork(body, head, config["depth"])
    tuning = Tuning(
        body_lr_multiplier=config["body_rate"] / config["learning_rate"],
        **{name: config[name] for name in Tuning.__dataclass_fields__ if name in config},
    )
    started = time.process_time()
    data = AskedImages(
        images[train], labels[train], images[asked], labels[asked],
        n_first=n_first, seconds=lambda: time.process_time() - started,
    )  # fmt: skip
    steps: list[int] = []

    def report(step: int, _error: float) -> None:
        steps.append(step)
        if is_flat(data.points, step / config["steps"]) and step < config["steps"]:
            raise FlatCurve

    budget = TransferBudget("steps", config["steps"], POINTS)
    status = "flat"
    try:
        with torch.random.fork_rng(devices=[]):
            status = fine_tune(
                network, data, tuning, budget=budget, seed=0, report=report, clock=TrainingClock(data.training_seconds)
            ).status.value
    except FlatCurve:
        pass
    ended = data.points[-1]
    curve = [[step, round(spent, 2), *missed] for step, (spent, *missed) in zip(steps, data.points, strict=False)]
    found = {
        "status": status,
        "head": kind,
        "head_left_out": [left_out, len(train)],
        "totals": [n_first, len(asked) - n_first],
        "head_wrong": [int(wrong[:n_first].sum()), int(wrong[n_first:].sum())],
        "wrong": list(ended[1:]),
        "steps": steps[-1] if steps else 0,
        "seconds": round(ended[0], 2),
        "head_seconds": round(seconds_of_head, 2),
        "asking_seconds": round(data.asking[0], 2),
        "curve": curve,
    }
    if status == Status.DIVERGED.value:
        return found, {}
    tuned = softmax(logits(network, data.val_images).double().numpy()).astype(np.float16)
    frozen = head.probabilities(rows[asked]).astype(np.float16)
    return found, {"tuned": tuned, "head": frozen, "rows": pool[asked].astype(np.uint16)}


def collect(data: Path, out: Path, only: list[str] | None, numbers: list[int] | None, limit: int | None) -> None:
    """Measure what is not there yet, breadth first: every dataset under one configuration before the next; those of small pictures last."""
    torch.set_num_threads(1)
    paths = {path.stem: path for path in sorted(data.glob("*.zip")) if path.stem not in UNREAD}
    names = [name for name in paths if only is None or name in only]
    natives = {name: native_size(open_images(paths[name])) for name in names}
    done = 0
    for number, name, config in runs_of(names, natives, json.loads(CONFIGS.read_text())):
        path = out / "runs" / name / f"{number:02}.json"
        if path.exists() or (numbers is not None and number not in numbers):
            continue
        if (out / "STOP").exists() or (limit is not None and done >= limit):
            return
        started = time.time()
        found, probabilities = measure(open_images(paths[name]), config)
        beside = out / "probabilities" / name / f"{number:02}.npz"
        for target, content in ((beside, packed(probabilities)), (path, json.dumps(found).encode())):
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, content)
        done += 1
        told = (
            f"{found['head_wrong']} → {found['wrong']} of {found['totals']}, {found['steps']} steps, {found['status']}"
        )
        took = f"CPU {found['seconds']:.0f} s, {time.time() - started:.0f} s"
        print(f"{time.strftime('%H:%M:%S')} {number} {name} {told}, {took}", flush=True)


def runs_of(
    names: list[str], natives: dict[str, int], configs: list[dict[str, Any]]
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """List configurations and datasets in the order in which they are measured, at sizes that the frozen part has."""
    parts = (
        [name for name in names if natives[name] >= USUAL_SIZE],
        [name for name in names if natives[name] < USUAL_SIZE],
    )
    for part in parts:
        for number, config in enumerate(configs):
            for name in part:
                if any(config["image_size"] in sizes for sizes in sizes_for(natives[name])):
                    yield number, name, config


def pack(out: Path, shards: Path) -> None:
    """Write one file a dataset, by number of the configuration, and the configurations."""
    shards.mkdir(parents=True, exist_ok=True)
    for folder in sorted((out / "runs").iterdir()):
        runs = {str(int(path.stem)): json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
        text = ",\n".join(f"{json.dumps(number)}: {json.dumps(run)}" for number, run in runs.items())
        replace_file(shards / f"{folder.name}.json", f"{{\n{text}\n}}\n".encode())
    replace_file(shards / "configs.json", CONFIGS.read_bytes())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--numbers", type=int, nargs="*")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    if given.draw:
        CONFIGS.write_text(json.dumps(draw_configs(), indent=1) + "\n")
    elif given.pack is not None:
        pack(given.out, given.pack)
    else:
        collect(given.data, given.out, given.only, given.numbers, given.limit)
