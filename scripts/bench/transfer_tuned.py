"""The fine-tuning part of research/transfer-protocol.md: measure it, and say whether it gains over frozen features. Run it again and it goes on.

OMP_NUM_THREADS=1 python scripts/bench/transfer_tuned.py FOLDER_OF_NPZ --out data_manifests/measured/transfer-tuned --configs 64 --seeds 1
python scripts/bench/transfer_tuned.py --out data_manifests/measured/transfer-tuned --tables tuned.json --frozen data_manifests/measured/transfer-frozen
"""

import argparse
import json
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transfer_tables import lost, summary

from warmstart.bo.transfer.designs import initial_designs
from warmstart.history_store.images import ImageSource
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.readers import open_images
from warmstart.history_store.records import Config
from warmstart.metafeat.files import replace_file
from warmstart.training.workloads import Dataset, Member
from warmstart.training.workloads.transfer import Transfer, transfer_space
from warmstart.training.workloads.transfer.frozen import draw_pool, draw_split

SOURCES = [
    "mnist",
    "omniglot_greek",
    "pacs_sketch",
    "animal_silhouettes",
    "hand_letters",
    "dtd10",
    "neu_steel",
    "breast_ultrasound",
    "wbc_types",
    "olivetti",
    "smiles",
    "cats_dogs",
    "gtsrb",
]
"""Those of the pilot but imagenette, whose pictures the weights were trained on."""
Array = NDArray[np.float64]


class Pool(Dataset):
    """The images that the frozen part was measured on, in its first split: both halves are the validation part."""

    def __init__(self, source: ImageSource) -> None:
        self._source, self._rows = source, draw_pool(np.asarray(source.labels))
        self.location, self.class_names, self.size = source.location, tuple(source.class_names), None
        self.test_is_spare = False
        self.labels = np.asarray(source.labels)[self._rows]
        self.halves = draw_split(self.labels, 0).halves
        self.split = np.zeros(len(self.labels), np.int8)
        self.split[np.concatenate(self.halves)] = 1

    def images(self, size: int) -> NDArray[np.uint8]:
        """Decode all images."""
        return self._source.read(self._rows, size=size).images

    def fingerprint(self) -> str:
        """Name the images."""
        return f"pool {self._source.fingerprint('content')}"


def tuned_configs(n: int) -> list[Config]:
    """Draw n configurations that fine-tune: the same for every dataset, whatever n."""
    space = transfer_space("full", backbones=["tf_efficientnet_lite0"], image_sizes=[32, 64], steps=[0, 40, 120])
    found = [config for config in sobol_configs(space, 4 * n) if config["steps"] > 0]
    return found[:n]


def measure(dataset: Pool, prepared: Any, config: Config, seed: int) -> dict[str, Any]:
    """Train a configuration; count what it misses on either half, and what the ridge head missed that it started from."""
    result = prepared.train(config, seed=seed, budget=Transfer().budget("steps"), keep=True)
    classifier = prepared.combine([Member(0, config, seed, result.error)], [result.model])
    images = dataset.images(int(config["image_size"]))
    wrong = [int((classifier.predict(images[rows]).argmax(1) != dataset.labels[rows]).sum()) for rows in dataset.halves]
    return {
        "wrong": wrong,
        "totals": [len(half) for half in dataset.halves],
        "seconds": round(result.duration, 2),
        "status": result.status.value,
        "curve": [[step, round(error, 5)] for step, error in result.curve],
    }


def collect(data: Path, out: Path, n_configs: int, n_seeds: int) -> None:
    """Measure what is not there yet, breadth first: every dataset under one configuration before the next."""
    import torch

    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    configs = tuned_configs(n_configs)
    replace_file(out / "configs.json", json.dumps(configs, indent=1).encode())
    pools = {name: Pool(open_images(data / f"{name}.npz")) for name in SOURCES if (data / f"{name}.npz").exists()}
    for seed in range(n_seeds):
        for number, config in enumerate(configs):
            for name, pool in pools.items():
                path = out / f"{name}.json"
                known = json.loads(path.read_text()) if path.exists() else {}
                if f"{number}/{seed}" in known:
                    continue
                started = time.time()
                found = measure(pool, Transfer().prepare(pool, device="cpu"), config, seed)
                replace_file(path, json.dumps({**known, f"{number}/{seed}": found}).encode())
                print(f"{time.strftime('%H:%M:%S')} {name} {number} {time.time() - started:.1f} s", flush=True)


def tables(out: Path, frozen: Path, manifests: Path) -> dict[str, Any]:
    """Compare the best of frozen features, and of both, chosen on one half and measured on the other; and the strategies."""
    known = {path.stem: json.loads(path.read_text()) for path in sorted(out.glob("*.json")) if path.stem in SOURCES}
    numbers = sorted(set.intersection(*(set(runs) for runs in known.values())), key=_order)
    groups = tuple(tomllib.loads((manifests / f"{name}.toml").read_text())["group"] for name in known)
    tuned = np.array([[_share(runs[number]) for number in numbers] for runs in known.values()])
    fixed = np.array([frozen_errors(frozen / f"{name}.npz") for name in known])
    gain = [100 * (_best(one) - _best(np.vstack([one, other]))) for one, other in zip(fixed, tuned, strict=True)]
    head = np.array([[runs[number]["curve"][0][1] for number in numbers] for runs in known.values()])
    found: dict[str, Any] = {
        "datasets": len(known),
        "configurations": len(numbers),
        "points gained over frozen features, both searched whole": summary(np.array(gain), groups),
        "points gained over its own head, mean over configurations": summary(
            100 * (head - tuned.mean(2)).mean(1), groups
        ),
        "share of runs better than their head": float((tuned.mean(2) < head).mean()),
        "CPU seconds a run": float(np.mean([run["seconds"] for runs in known.values() for run in runs.values()])),
    }
    for k in (1, 3):
        losses = [_losses(tuned, groups, query, k) for query in range(len(tuned))]
        found[f"after {k}"] = {name: summary(np.array([each[name] for each in losses]), groups) for name in losses[0]}
    return found


def _order(key: str) -> tuple[int, int]:
    number, seed = key.split("/")
    return int(seed), int(number)


def _share(run: dict[str, Any]) -> list[float]:
    return [wrong / total for wrong, total in zip(run["wrong"], run["totals"], strict=True)]


def frozen_errors(path: Path) -> Array:
    """Return the errors of all feature sets on either half of the first split, heads chosen by training images left out: `c x 2`."""
    with np.load(path) as arrays:
        blocks = sorted({key.split("/")[0] for key in arrays.files})
        rows = []
        for block in blocks:
            wrong, totals = arrays[f"{block}/wrong"].astype(float)[0, 0], arrays[f"{block}/totals"].astype(float)[0, 0]
            chosen = wrong[..., 0].argmin(-1)[..., None, None]
            missed = np.take_along_axis(wrong, chosen, axis=-2)[..., 0, 1:]
            rows.append((missed / totals[1:]).reshape(-1, 2))
    return np.concatenate(rows)


def _best(errors: Array) -> float:
    """Return the error of what is best on one half, measured on the other: mean of both ways, `c x 2` errors."""
    return float(np.mean([errors[int(errors[:, half].argmin()), 1 - half] for half in (0, 1)]))


def _losses(errors: Array, groups: tuple[str, ...], query: int, k: int) -> dict[str, float]:
    """Compute the points lost by the portfolio and by `joint` under the true distances, which is all that similarity could win."""
    others = [i for i, group in enumerate(groups) if group != groups[query]]
    known, siblings = errors[others].mean(-1), [groups[i] for i in others]
    portfolio = initial_designs(known, None, k, strategy="portfolio", groups=siblings)
    points = []
    for half in (0, 1):
        true = np.abs(known - errors[query, :, half]).mean(1)
        chosen = initial_designs(known, true, k, strategy="joint", groups=siblings)
        pick = chosen[int(errors[query, chosen, half].argmin())]
        points.append(errors[query, pick, 1 - half] - errors[query, int(errors[query, :, half].argmin()), 1 - half])
    return {"portfolio": lost(errors[query], portfolio), "joint-true": 100 * float(np.mean(points))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--configs", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--frozen", type=Path, default=Path("data_manifests/measured/transfer-frozen"))
    parser.add_argument("--manifests", type=Path, default=Path("data_manifests"))
    given = parser.parse_args()
    if given.tables is not None:
        text = json.dumps(tables(given.out, given.frozen, given.manifests), indent=1)
        given.tables.write_text(text + "\n")
        print(text)
    else:
        collect(given.data, given.out, given.configs, given.seeds)
