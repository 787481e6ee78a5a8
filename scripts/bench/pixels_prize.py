"""What similarity, size and several heads together are worth at own pixels: see research/transfer-protocol.md, "At own pixels".

    python scripts/bench/pixels_prize.py data_manifests/measured/pixels-frozen --probabilities RUN_FOLDER/probabilities \\
        --out scripts/bench/results/pixels-prize.json

Plays on what is measured so far; the probabilities may be left out.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from landmark_siamese import siamese_distances
from numpy.typing import NDArray
from pixels_frozen import HEADS, SIZES
from transfer_tables import TIMES, lost, summary

from warmstart.bo.transfer.designs import initial_designs
from warmstart.metafeat.pretrained.depths import DEPTHS
from warmstart.metafeat.pretrained.heads import head_specs
from warmstart.training.workloads.transfer.frozen import by_chosen_heads, draw_split

CLASSES = {"all": (0, 10_000), "below 128": (0, 128), "128 to 223": (128, 224), "224 and more": (224, 10_000)}
"""Of native sizes, in pixels: from, and below."""
SIX = [(f"tf_efficientnet_lite{n}", size) for n in (0, 2) for size in (128, 160, 224)]
SHUFFLES = 20
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """What was measured.

    Attributes:
        names: `m` datasets.
        groups: `m` groups of siblings.
        native: `m` pixels.
        blocks: backbones and sizes; 8 feature sets each, the copies within the depths.
        errors: `m x c x 2` on either half, heads chosen with training images left out, means over splits; NaN where there is no measurement.
        by_head: by kind of heads, `m x c` means of both halves.
        landmarks: `m x f`.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    native: NDArray[np.int64]
    blocks: tuple[tuple[str, int], ...]
    errors: Array
    by_head: dict[str, Array]
    landmarks: Array

    def sizes(self) -> NDArray[np.int64]:
        """Return the image size of each feature set, `c`."""
        return np.repeat([size for _, size in self.blocks], 2 * len(DEPTHS))


HEAD_KINDS = {
    "all": list(range(len(HEADS))),
    "without logistic": list(range(len(head_specs()))),
    "ridge": [n for n, spec in enumerate(head_specs()) if spec.kind == "ridge"],
    "logistic": list(range(len(head_specs()), len(HEADS))),
    "logistic, standardised": [len(head_specs())],
    "logistic, centred": [len(head_specs()) + 1],
}


def read(folder: Path) -> Table:
    """Read the shards of datasets that have landmarks; what a dataset has no block for is NaN."""
    about = json.loads((folder / "collection.json").read_text())["datasets"]
    shards = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            shards[path.stem] = {key: arrays[key] for key in arrays.files}
    blocks = sorted({key.split("/")[0] for shard in shards.values() for key in shard})
    named = tuple((block.rpartition("-")[0], int(block.rpartition("-")[2])) for block in blocks)
    halves = {kind: np.full((len(shards), len(blocks), 2 * len(DEPTHS), 2), np.nan) for kind in HEAD_KINDS}
    for row, shard in enumerate(shards.values()):
        for column, block in enumerate(blocks):
            if f"{block}/wrong" not in shard:
                continue
            wrong, totals = shard[f"{block}/wrong"][:, 0].astype(float), shard[f"{block}/totals"][:, 0].astype(float)
            for kind, heads in HEAD_KINDS.items():
                missed = by_chosen_heads(wrong[..., heads, :])[..., 1:] / totals[:, None, None, 1:]
                halves[kind][row, column] = missed.mean(0).reshape(-1, 2)
    flat = {kind: each.reshape(len(shards), -1, 2) for kind, each in halves.items()}
    marks = [shard.get("tf_efficientnet_lite0-64/all_landmarks") for shard in shards.values()]
    known = next((each for each in marks if each is not None), np.zeros((1, 1)))
    return Table(
        names=tuple(shards),
        groups=tuple(about[name]["group"] for name in shards),
        native=np.array([about[name]["native_size"] for name in shards]),
        blocks=named,
        errors=flat["all"],
        by_head={kind: each.mean(-1) for kind, each in flat.items()},
        landmarks=np.array([np.full(known.shape[1], np.nan) if each is None else each.mean(0) for each in marks]),
    )


def apart(features: Array, others: list[int], query: int) -> Array:
    """Compute distances from a dataset to others, each feature divided by its spread over these."""
    spread = features[others].std(0)
    return np.linalg.norm((features[others] - features[query]) / np.where(spread > 0, spread, 1), axis=1)


def learned(table: Table) -> list[Array]:
    """Compute the distances from each dataset to all by a Siamese network on landmarks and native size that never saw its group; NaN within it."""
    marks, found = np.hstack([table.landmarks, np.log(table.native.astype(float))[:, None]]), []
    means = table.errors.mean(-1)
    wanted = np.array([[_distance(one, other) for other in means] for one in means])
    for query, group in enumerate(table.groups):
        others = [row for row, each in enumerate(table.groups) if each != group]
        near = np.full(len(marks), np.nan)
        near[others] = siamese_distances(marks[others], wanted[np.ix_(others, others)], marks[query])
        found.append(near)
    return found


def losses_of(
    table: Table, query: int, k: int, rng: np.random.Generator, trained: list[Array] | None
) -> dict[str, float]:
    """Compute the points that each method loses on one dataset, answered by the other groups."""
    others = [row for row, group in enumerate(table.groups) if group != table.groups[query]]
    columns = np.flatnonzero(np.isfinite(table.errors[query, :, 0]) & np.isfinite(table.errors[others, :, 0]).any(0))
    others = [row for row in others if np.isfinite(table.errors[row, columns, 0]).any()]
    groups, own = [table.groups[row] for row in others], table.errors[query, columns]
    errors = table.errors[others][:, columns].mean(-1)

    def ask(strategy: str, distances: Array | None = None) -> float:
        return lost(own, initial_designs(errors, distances, k, strategy=strategy, groups=groups))

    def oracle() -> float:
        """Lose as `joint` under the true distances: on the half that it is told, of errors scaled to [0, 1]."""
        points = []
        for half in (0, 1):
            told = own[:, half]
            true = np.array([_distance(told, each) for each in errors])
            chosen = initial_designs(errors, true, k, strategy="joint", groups=groups)
            pick = chosen[int(told[chosen].argmin())]
            points.append(own[pick, 1 - half] - own[int(told.argmin()), 1 - half])
        return 100 * float(np.mean(points))

    found = {"portfolio": ask("portfolio"), "average-rank": ask("average-rank"), "joint-true": oracle()}
    found["random"] = float(np.mean([lost(own, rng.permutation(len(own))[:k].tolist()) for _ in range(200)]))
    if trained is not None:
        found["joint, Siamese"] = ask("joint", trained[query][others])
    native = np.log(table.native.astype(float))[:, None]
    for name, marks in {"": table.landmarks, ", native size too": np.hstack([table.landmarks, native])}.items():
        if not np.isfinite(marks[[query, *others]]).all():
            continue
        near = apart(marks, others, query)
        found |= {f"joint{name}": ask("joint", near), f"nearest{name}": ask("nearest", near)}
        if not name:
            found["joint-shuffled"] = float(np.mean([ask("joint", rng.permutation(near)) for _ in range(SHUFFLES)]))
    return found


def _distance(one: Array, other: Array) -> float:
    """Compute the distance of two rows of errors, each scaled to [0, 1], where both are measured."""
    both = np.isfinite(one) & np.isfinite(other)
    a, b = ((each - each.min()) / max(float(np.ptp(each)), 1e-12) for each in (one[both], other[both]))
    return float(np.sqrt(np.square(a - b).mean()))


def prize(table: Table) -> dict:
    """Compute what methods lose, by native size, and what they gain over the portfolio."""
    rng = np.random.default_rng(0)
    found: dict = {}
    trained = learned(table) if np.isfinite(table.landmarks).all() else None
    for k in TIMES:
        rows = [losses_of(table, query, k, rng, trained) for query in range(len(table.names))]
        methods = [name for name in rows[0] if all(name in row for row in rows)]
        losses = {name: np.array([row[name] for row in rows]) for name in methods}
        found[f"after {k}"] = {}
        for title, (low, high) in CLASSES.items():
            asked = np.flatnonzero((table.native >= low) & (table.native < high))
            groups = tuple(table.groups[row] for row in asked)
            if len(set(groups)) < 2:
                continue
            found[f"after {k}"][title] = {
                "datasets": len(asked),
                "points lost": {name: summary(each[asked], groups) for name, each in losses.items()},
                "gain over portfolio": {
                    name: summary((losses["portfolio"] - each)[asked], groups)
                    for name, each in losses.items()
                    if name != "portfolio"
                },
            }
    return found


def sizes(table: Table) -> dict:
    """Compute, by native size, the error of what the first half chooses at each size, and how often a size is best; the six smallest only where measured."""
    found: dict = {}
    for title, (low, high) in CLASSES.items():
        rows = np.flatnonzero((table.native >= low) & (table.native < high))
        if not len(rows):
            continue
        by_size = np.array([[_chosen(table, row, size) for size in SIZES] for row in rows])
        known = np.isfinite(by_size).all(0)
        least = np.nanmin(np.where(known, by_size, np.nan), axis=1, keepdims=True) if known.any() else np.nan
        found[title] = {
            "datasets": len(rows),
            "mean error": {
                str(size): float(by_size[:, n].mean()) for n, size in enumerate(SIZES) if known[n]
            },
            "best or as good": {
                str(size): int((by_size[:, n] <= least[:, 0] + 1e-9).sum()) for n, size in enumerate(SIZES) if known[n]
            },
        }  # fmt: skip
    return found


def _chosen(table: Table, row: int, size: int) -> float:
    """Return the error on either half of the feature set at a size that is best on the other, mean of both; NaN where there is none."""
    errors = table.errors[row, table.sizes() == size]
    errors = errors[np.isfinite(errors[:, 0])]
    if not len(errors):
        return np.nan
    return float(np.mean([errors[int(errors[:, half].argmin()), 1 - half] for half in (0, 1)]))


def heads(table: Table) -> dict:
    """Compare kinds of heads on all feature sets that are measured: mean error, and what logistic gains over ridge by depth."""
    groups = table.groups
    found: dict = {
        "mean error": {
            kind: summary(np.nanmean(each, axis=1), groups) for kind, each in table.by_head.items()
        }
    }  # fmt: skip
    gain = 100 * (table.by_head["ridge"] - table.by_head["logistic"])
    depth_of = np.tile(np.repeat(np.arange(len(DEPTHS)), 2), len(table.blocks))
    found["points that logistic gains over ridge"] = {
        depth: summary(np.nanmean(gain[:, depth_of == d], axis=1), groups) for d, depth in enumerate(DEPTHS)
    }
    return found


def together(table: Table, folder: Path, kind: str, depth: str = "full", copies: int = 1) -> dict:
    """Compare the mean of six heads' probabilities with each of them and with the one chosen by training images left out."""
    d, rows, kept = DEPTHS.index(depth), [], []
    for row, name in enumerate(table.names):
        paths = [folder / name / f"{backbone}-{size}.npz" for backbone, size in SIX]
        if not all(path.exists() for path in paths):
            continue
        loaded = []
        for path in paths:
            with np.load(path) as arrays:
                labels = arrays["labels"].astype(np.int64)
                loaded.append(arrays[kind][:, d, copies].astype(float))
        each = np.array(loaded)
        errors = []
        for seed in range(each.shape[1]):
            split = draw_split(labels, seed)
            train, asked = split.train[0], np.concatenate(split.halves)
            missed = (each[:, seed].argmax(2) != labels).astype(float)
            chosen = int(missed[:, train].mean(1).argmin())
            mean = (each[:, seed].mean(0).argmax(1) != labels)[asked].mean()
            errors.append([*missed[:, asked].mean(1), missed[chosen, asked].mean(), mean])
        rows.append(np.mean(errors, axis=0))
        kept.append(table.groups[row])
    if len(set(kept)) < 2:
        return {"datasets": len(kept)}
    values, groups = np.array(rows), tuple(kept)
    titles = [*(f"{backbone}-{size}" for backbone, size in SIX), "chosen by left-out images", "mean of the six"]
    return {
        "datasets": len(kept),
        "error": {title: summary(values[:, n], groups) for n, title in enumerate(titles)},
        "points that the mean gains over": {
            title: summary(100 * (values[:, n] - values[:, -1]), groups) for n, title in enumerate(titles[:-1])
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--probabilities", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    measured = read(given.shards)
    result = {
        "datasets": len(measured.names),
        "groups": len(set(measured.groups)),
        "blocks": {
            f"{backbone}-{size}": int(np.isfinite(measured.errors[:, 8 * n, 0]).sum())
            for n, (backbone, size) in enumerate(measured.blocks)
        },
        "prize": prize(measured),
        "sizes": sizes(measured),
        "heads": heads(measured),
    }
    if given.probabilities is not None:
        result["together"] = {kind: together(measured, given.probabilities, kind) for kind in ("logistic", "ridge")}
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
