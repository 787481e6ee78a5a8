"""Play the comparison of research/transfer-protocol.md on the shards of the frozen part and write its tables as JSON.

python scripts/bench/transfer_tables.py data_manifests/measured/transfer-frozen --out transfer.json
"""

import argparse
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from landmark_siamese import siamese_distances
from numpy.typing import NDArray

from warmstart.bo.search import search_table
from warmstart.bo.transfer.designs import initial_designs
from warmstart.locations import history_path, model_path
from warmstart.metafeat.pretrained.depths import DEPTHS
from warmstart.metafeat.pretrained.heads import HeadKind, head_specs
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.training.workloads.transfer.frozen import by_chosen_heads

SEEN = ("imagenette", "tinyimagenet_animals", "tinyimagenet_objects")
TIMES = (1, 3)
SHUFFLES = 20
SEARCHES = 5
LANDMARK_SIZES = (64, 32)
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """What was measured.

    Attributes:
        names: `m` datasets.
        groups: `m` groups of siblings.
        settings: `c` feature sets.
        errors: `m x c x 2` on either half, heads chosen with training images left out, mean over splits.
        landmarks: `m x f`.
        tried: by selector, `m x c` scores of feature sets that were tried, the lower the better.
        others: by name, `m x g` features of other kinds.
        axes: `c x q` in [0, 1], what feature sets are made of.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    settings: tuple[str, ...]
    errors: Array
    landmarks: Array
    tried: dict[str, Array]
    others: dict[str, Array]
    axes: Array


def read(folder: Path, manifests: Path) -> Table:
    """Read the shards of datasets that may be evaluated; feature sets that one of them lacks are left out."""
    found = {}
    for path in sorted(folder.glob("*.npz")):
        if path.stem not in SEEN:
            with np.load(path) as arrays:
                found[path.stem] = {key: arrays[key] for key in arrays.files}
    blocks = sorted(set.intersection(*({key.split("/")[0] for key in each} for each in found.values())))
    errors = np.array([np.concatenate([block_errors(each, block) for block in blocks]) for each in found.values()])
    settings = [f"{block}-{depth}-flip{flip}" for block in blocks for depth in DEPTHS for flip in (0, 1)]
    groups = [tomllib.loads((manifests / f"{name}.toml").read_text())["group"] for name in found]
    marks = np.array([_landmarks(each) for each in found.values()])
    tried = {
        name: np.array([np.concatenate([score(each, block) for block in blocks]) for each in found.values()])
        for name, score in SELECTORS.items()
    }
    return Table(
        tuple(found), tuple(groups), tuple(settings), errors, marks, tried, _embedded(list(found)), axes(blocks)
    )


def _left_out(arrays: dict, block: str, kinds: tuple[HeadKind, ...], strength: float | None = None) -> Array:
    """Return the least share of training images missed, left out in turn, by heads of some kinds: `8`, mean over splits."""
    wrong, totals = arrays[f"{block}/wrong"].astype(float)[:, 0], arrays[f"{block}/totals"].astype(float)[:, 0]
    heads = [i for i, s in enumerate(head_specs()) if s.kind in kinds and strength in (None, s.strength)]
    return (wrong[..., heads, 0].min(-1) / totals[:, None, None, 0]).mean(0).reshape(-1)


SELECTORS: dict[str, Callable[[dict, str], Array]] = {
    "try all, nearest neighbours": lambda arrays, block: _left_out(arrays, block, ("knn",), 5.0),
    "try all, every head": lambda arrays, block: _left_out(arrays, block, ("ridge", "knn", "centroid")),
    "try all, LogME": lambda arrays, block: np.repeat(-arrays[f"{block}/logme"].astype(float).mean(0), 2),
}
"""Selectors that look at every feature set, and what they rank it by."""


def axes(blocks: list[str]) -> Array:
    """Describe feature sets: backbone, logarithm of the size, depth and flipped copies, all in [0, 1]."""
    rows = []
    for block in blocks:
        backbone, size = block.rsplit("-", 1)
        own = [float(backbone.endswith(str(n))) for n in range(3)]
        rows += [
            [*own, np.log2(int(size) / 32) / 2, *np.eye(len(DEPTHS))[d], flip]
            for d in range(len(DEPTHS))
            for flip in (0, 1)
        ]
    return np.array(rows, dtype=float)


def _embedded(names: list[str]) -> dict[str, Array]:
    """Return what the shipped history knows of the datasets: handcrafted features, and embeddings by the shipped model."""
    embedded = load_embedded_history(history_path(None), model_path(None))
    rows = [embedded.names.index(name) for name in names]
    references = embedded.references
    assert references is not None, "the shipped history holds the features of its datasets"
    assert references.features is not None, "the shipped history holds the features of its datasets"
    known = [references.names.index(name) for name in names]
    return {"handcrafted": references.features[known], "embedding": embedded.vectors[rows].astype(float)}


def seconds(folder: Path, table: Table) -> dict[str, float]:
    """Compute the mean CPU seconds a dataset of what is tried: one and three feature sets, and all of them, whose features are shared."""
    each, every = [], []
    for name in table.names:
        with np.load(folder / f"{name}.npz") as shard:
            blocks = sorted({key.split("/")[0] for key in shard.files})
            parts, whole = [], 0.0
            for block in blocks:
                train, *halves = shard[f"{block}/totals"][0, 0].tolist()
                image, heads = float(shard[f"{block}/image_seconds"]), shard[f"{block}/head_seconds"][0]
                copies = np.array([0, 1])
                parts.append((image * (train * (1 + copies) + sum(halves)) + heads).reshape(-1))
                whole += image * (2 * train + sum(halves)) + float(heads.sum())
        each.append(np.concatenate(parts))
        every.append(whole)
    cost, groups = np.array(each), np.array(table.groups)
    found = {"all": float(np.mean(every))}
    for strategy in ("portfolio", "joint"):
        for k in TIMES:
            spent = []
            for query, group in enumerate(groups):
                others = np.flatnonzero(groups != group).tolist()
                near = _apart(table.landmarks, others, query) if strategy == "joint" else None
                errors = table.errors[others].mean(-1)
                chosen = initial_designs(errors, near, k, strategy=strategy, groups=groups[others].tolist())
                spent.append(cost[query, chosen].sum())
            found[f"{strategy}, {k}"] = float(np.mean(spent))
    return found


def block_errors(arrays: Mapping[str, NDArray], block: str, part: int = 0) -> Array:
    """Return the errors of the feature sets of a backbone at a size on either half: `8 x 2`, the copies within the depths."""
    wrong, totals = arrays[f"{block}/wrong"].astype(float)[:, part], arrays[f"{block}/totals"].astype(float)[:, part]
    return (by_chosen_heads(wrong)[..., 1:] / totals[:, None, None, 1:]).mean(0).reshape(-1, 2)


def _landmarks(arrays: dict) -> list[float]:
    """Return the landmark features of the protocol; those of sizes that are not there yet are left out."""
    specs = head_specs()
    marks: list[float] = []
    for size in LANDMARK_SIZES:
        block = f"tf_efficientnet_lite0-{size}"
        if f"{block}/wrong" not in arrays:
            continue
        wrong, totals = arrays[f"{block}/wrong"].astype(float), arrays[f"{block}/totals"].astype(float)
        accuracy = 1 - (wrong[:, 0, :3, 0, :, 0] / totals[:, 0, 0, None, None]).mean(0)
        nearest = next(i for i, s in enumerate(specs) if s.kind == "knn" and s.strength == 1 and s.standardise)
        centroid = next(i for i, s in enumerate(specs) if s.kind == "centroid" and s.standardise)
        ridge = [i for i, s in enumerate(specs) if s.kind == "ridge"]
        for depth in range(3):
            marks += [accuracy[depth, nearest], accuracy[depth, centroid], accuracy[depth, ridge].max()]
    block = "tf_efficientnet_lite0-64"
    marks += arrays[f"{block}/landmarks"].mean(0).tolist()
    marks += [float(arrays[f"{block}/largest_share"]), float(np.log(arrays[f"{block}/n_classes"]))]
    return [*marks, float(np.log(arrays[f"{block}/totals"][:, 0, 0].mean())), float(arrays[f"{block}/channels"] == 1)]


def lost(errors: Array, chosen: list[int]) -> float:
    """Compute the points lost by the best of the chosen, picked on one half and measured on the other: `c x 2` errors."""
    points = []
    for half in (0, 1):
        pick = chosen[int(errors[chosen, half].argmin())]
        points.append(errors[pick, 1 - half] - errors[int(errors[:, half].argmin()), 1 - half])
    return 100 * float(np.mean(points))


def learned(table: Table) -> dict[str, list[Array]]:
    """Compute distances by a Siamese network that never saw the query's group, from each dataset to those of other groups."""
    means, both = table.errors.mean(-1), np.hstack([table.landmarks, table.others.get("handcrafted", table.landmarks)])
    targets = {"L1": means, "normalised L1": _normalised(means)}
    found: dict[str, list[Array]] = {}
    for features, marks in {"landmarks": table.landmarks, "landmarks and handcrafted": both}.items():
        for kind, errors in targets.items():
            name = f"joint, Siamese on {features}, {kind}"
            found[name] = []
            for query, group in enumerate(table.groups):
                others = [i for i, other in enumerate(table.groups) if other != group]
                target = np.abs(errors[others, None] - errors[None, others]).mean(-1)
                found[name].append(siamese_distances(marks[others], target, marks[query]))
    return found


def by_method(
    table: Table, query: int, k: int, rng: np.random.Generator, trained: dict[str, list[Array]]
) -> dict[str, float]:
    """Compute what each method loses on one dataset, answered by the other groups."""
    others = [i for i, group in enumerate(table.groups) if group != table.groups[query]]
    groups = [table.groups[i] for i in others]
    errors, own = table.errors[others].mean(-1), table.errors[query]
    near = _apart(table.landmarks, others, query)
    normal = _normalised(table.errors[others].mean(-1))

    def ask(strategy: str, distances: Array | None = None) -> float:
        return lost(own, initial_designs(errors, distances, k, strategy=strategy, groups=groups))

    def oracle() -> float:
        points = []
        for half in (0, 1):
            true = np.linalg.norm(normal - _normalised(own[None, :, half]), axis=1)
            chosen = initial_designs(errors, true, k, strategy="joint", groups=groups)
            pick = chosen[int(own[chosen, half].argmin())]
            points.append(own[pick, 1 - half] - own[int(own[:, half].argmin()), 1 - half])
        return 100 * float(np.mean(points))

    def cold(seed: int) -> float:
        """Search from nothing by a Gaussian process, told the errors on one half, measured on the other."""
        points = []
        for half in (0, 1):
            rows = search_table(table.axes, own[:, half], initial=[], t=k, rng=np.random.default_rng([seed, query]))
            points.append(
                own[rows[int(own[rows, half].argmin())], 1 - half] - own[int(own[:, half].argmin()), 1 - half]
            )
        return 100 * float(np.mean(points))

    largest = np.lexsort((-table.axes[:, -1], -table.axes[:, -3], -table.axes[:, 3], -table.axes[:, :3] @ [0, 1, 2]))
    return {
        "portfolio": ask("portfolio"),
        "average-rank": ask("average-rank"),
        "nearest": ask("nearest", near),
        **{f"nearest, {name}": ask("nearest", _apart(each, others, query)) for name, each in table.others.items()},
        **{name: lost(own, scores[query].argsort(kind="stable")[:k].tolist()) for name, scores in table.tried.items()},
        "largest first": lost(own, largest[:k].tolist()),
        "cold GP": float(np.mean([cold(seed) for seed in range(SEARCHES)])),
        "joint": ask("joint", near),
        **{name: ask("joint", distances[query]) for name, distances in trained.items()},
        "joint-shuffled": float(np.mean([ask("joint", rng.permutation(near)) for _ in range(SHUFFLES)])),
        "joint-true": oracle(),
        "random": float(np.mean([lost(own, rng.choice(len(own), k, replace=False).tolist()) for _ in range(200)])),
    }


def _apart(features: Array, others: list[int], query: int) -> Array:
    """Compute distances from a dataset to others, each feature divided by its spread over these."""
    spread = features[others].std(0)
    return np.linalg.norm((features[others] - features[query]) / np.where(spread > 0, spread, 1), axis=1)


def _normalised(errors: Array) -> Array:
    low, high = errors.min(1, keepdims=True), errors.max(1, keepdims=True)
    return (errors - low) / np.where(high > low, high - low, 1)


def summary(values: Array, groups: tuple[str, ...]) -> dict[str, float]:
    """Compute a mean over datasets with its standard error over groups."""
    means = np.array([values[[g == group for g in groups]].mean() for group in sorted(set(groups))])
    return {"mean": float(values.mean()), "se": float(means.std(ddof=1) / np.sqrt(len(means)))}


def best_error(table: Table) -> dict[str, float]:
    """Predict the best reachable error from the landmarks, groups left out: ridge on logits, intervals from left-out residuals."""
    from sklearn.linear_model import RidgeCV

    best = table.errors.mean(-1).min(1)
    target = np.log((best + 0.005) / (1 - best + 0.005))
    groups = np.array(table.groups)

    def predict(train: NDArray[np.bool_], asked: NDArray[np.bool_]) -> Array:
        x = table.landmarks
        spread = np.where(x[train].std(0) > 0, x[train].std(0), 1)
        ready = (x - x[train].mean(0)) / spread
        return RidgeCV(np.logspace(-1, 3, 13)).fit(ready[train], target[train]).predict(ready[asked])

    found, low, high = (np.empty(len(best)) for _ in range(3))
    for group in sorted(set(table.groups)):
        asked = groups == group
        residuals = []
        for other in sorted(set(table.groups) - {group}):
            inner = groups == other
            residuals += (target[inner] - predict(~asked & ~inner, inner)).tolist()
        found[asked] = predict(~asked, asked)
        low[asked], high[asked] = (found[asked] + np.quantile(residuals, q) for q in (0.1, 0.9))
    inverse = lambda z: np.clip(1.01 / (1 + np.exp(-z)) - 0.005, 0, 1)  # noqa: E731
    blind = np.array([best[groups != group].mean() for group in table.groups])
    return {
        "rmse": float(np.sqrt(((inverse(found) - best) ** 2).mean())),
        "rmse_blind": float(np.sqrt(((blind - best) ** 2).mean())),
        "coverage_80": float(((low <= target) & (target <= high)).mean()),
    }


def tables(table: Table, *, seed: int = 0) -> dict:
    """Compute all tables."""
    rng = np.random.default_rng(seed)
    found: dict = {"datasets": len(table.names), "groups": len(set(table.groups)), "settings": len(table.settings)}
    trained = learned(table)
    for k in TIMES:
        rows = [by_method(table, query, k, rng, trained) for query in range(len(table.names))]
        losses = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        gain = losses["portfolio"] - losses["joint"]
        true_gain = losses["portfolio"] - losses["joint-true"]
        found[f"after {k}"] = {
            "points lost": {name: summary(values, table.groups) for name, values in losses.items()},
            "gain of joint over portfolio": summary(gain, table.groups),
            "gain with shuffled distances": summary(losses["portfolio"] - losses["joint-shuffled"], table.groups),
            "share of the true distance's gain": float(gain.mean() / true_gain.mean()) if true_gain.mean() else None,
        }
    return {**found, "best reachable error": best_error(table)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--manifests", type=Path, default=Path("data_manifests"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    measured = read(given.shards, given.manifests)
    result = {**tables(measured), "CPU seconds": seconds(given.shards, measured)}
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
