"""Measure the held-out quality of a history and of embeddings of its datasets.

Every group of siblings is held out in turn and its datasets ask the rest of the history, with the embeddings of a
model that never saw the group. Reported, as means over datasets, with 95 % intervals over groups: Spearman of
embedding distance and target distance; regret after 1, 3 and 5 evaluations of the nearest datasets' bests, less that
with shuffled embeddings, of the portfolio and of random configurations; the share of datasets that count as typical.

    python scripts/quality.py HISTORY.h5 held_out.npz [--baseline random_network.npz] [--out quality.json]

The npz holds one array a group, named like the group: the embeddings (datasets x 256) of *all* datasets by that
group's model, in the order of the array `names`. From Python: `held_out_quality(history, embed)`.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bo.regret import Interval
from history_store.errors import DataError
from history_store.history import History
from history_store.response import fill_failed, target_distance
from training.evaluation import Fold, held_out_distances, held_out_typical, measure_quality, rank_correlations

Embed = Callable[[Fold], ArrayLike]


def held_out_quality(
    history: History, embed: Embed, *, baseline: Embed | None = None, times: Sequence[int] = (1, 3, 5), seed: int = 0
) -> dict[str, Any]:
    """Measure what embeddings are worth on the held-out datasets of a history.

    Configurations that fewer than half of the datasets have are left out, as in training.

    Args:
        history: with at least two groups.
        embed: fold to embeddings, `m x p` in the order of `history.names`, by a model that never saw the fold's group.
        baseline: the same of a fixed random network, to compare Spearman with.
        times: numbers of evaluations at which to read regret.
        seed: of the shuffling.

    Returns: a report of JSON types.
    """
    errors, groups = fill_failed(history.errors, history.failed), history.groups
    errors = errors[:, np.isfinite(errors).mean(axis=0) >= 0.5]
    target = target_distance(errors, names=history.names)
    distances = held_out_distances(embed, groups)
    quality = measure_quality(errors, target, groups, distances=distances, rng=np.random.default_rng(seed), times=times)
    report: dict[str, Any] = {
        "n_datasets": len(groups),
        "n_groups": len(set(groups)),
        "n_configs": errors.shape[1],
        "spearman": _mean(quality.spearman),
        "spearman_by_dataset": dict(zip(history.names, _plain(quality.spearman), strict=True)),
        "typical_share": float(held_out_typical(embed, groups).mean()),
        "regret": {
            name: dict(zip(map(str, times), values.mean(axis=0).tolist(), strict=True))
            for name, values in quality.regret.items()
        },
        "nearest_less": {
            other: {str(t): _interval(quality.regret_difference("nearest", other, t)) for t in times}
            for other in ("shuffled", "portfolio", "random")
        },
    }
    if baseline is not None:
        rho = rank_correlations(held_out_distances(baseline, groups), target, groups)
        report["spearman_baseline"] = _mean(rho)
        report["spearman_less_baseline"] = _interval(quality.spearman_difference(rho))
    return report


def from_file(path: Path, names: Sequence[str]) -> Embed:
    """Read held-out embeddings from an npz file and bring their rows into the order of `names`."""
    with np.load(path, allow_pickle=False) as file:
        arrays: Mapping[str, Any] = {key: file[key] for key in file.files}
    stored = arrays["names"].tolist() if "names" in arrays else []
    if sorted(stored) != sorted(names):
        msg = f"{path}: expected embeddings of the history's {len(names)} datasets, got names={stored}. Embed the same history."
        raise DataError(msg)
    order = [stored.index(name) for name in names]

    def embed(fold: Fold) -> ArrayLike:
        if str(fold.group) not in arrays:
            msg = f"{path}: expected an array for the held-out group {fold.group!r}, got {sorted(arrays)}. Train a model without it."
            raise DataError(msg)
        vectors: ArrayLike = arrays[str(fold.group)][order]
        return vectors

    return embed


def _interval(found: Interval) -> dict[str, float | None]:
    low, high = _plain(np.array([found.low, found.high]))
    return {"mean": found.mean, "low": low, "high": high}


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", type=Path)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--baseline", type=Path, help="embeddings of a fixed random network, in the same form")
    parser.add_argument("--out", type=Path, help="write the JSON here instead of to the terminal")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with History.open(options.history) as history:
        baseline = from_file(options.baseline, history.names) if options.baseline else None
        report = held_out_quality(
            history, from_file(options.embeddings, history.names), baseline=baseline, seed=options.seed
        )
    text = json.dumps(report, indent=1, allow_nan=False)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
