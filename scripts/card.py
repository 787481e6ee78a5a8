"""Print the figures and the table of the shipped history's card: python scripts/card.py [HISTORY [QUALITY.json]] > card.md"""

import json
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from history_noise import history_noise
from numpy.typing import NDArray
from scipy.stats import rankdata

from warmstart.history_store.error_tables import target_distance
from warmstart.history_store.history import History

DEFAULTS = Path(str(resources.files("warmstart") / "defaults"))


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULTS / "history.h5"
    quality = json.loads((Path(sys.argv[2]) if len(sys.argv) > 2 else DEFAULTS / "quality.json").read_text())
    with History.open(path) as history:
        lines = [*figures(history), "", *quality_tables(quality), "", *dataset_table(history)]
    print("\n".join(lines))


def figures(history: History) -> Iterator[str]:
    """Say how much was measured, how long it took, how the errors spread and how alike the datasets rank them."""
    errors, runs = history.errors, history.evaluations()
    seconds = np.nansum([run.duration for run in runs])
    parts = sum(info.fraction < 1 for info in history.datasets)
    yield (
        f"{len(history.names)} datasets ({parts} of them parts of others) of {len(set(history.groups))} groups, "
        f"{errors.shape[1]} configurations, {len(runs)} evaluations, {seconds / 3600:.1f} CPU hours, "
        f"{np.isnan(errors).sum()} cells missing."
    )
    far = target_distance(errors, names=history.names)[np.triu_indices(len(errors), 1)]
    yield f"Mean target distance of two datasets: {far.mean():.3f}."
    spread = np.nanmax(errors, axis=1) - np.nanmin(errors, axis=1)
    yield f"Worst less best error of a dataset: median {np.median(spread):.2f}, {spread.min():.2f} to {spread.max():.2f}."
    yield f"Rank correlation of two datasets: {quartiles(rank_correlations(errors))}."
    good = np.nanmean(np.array([rankdata(row, nan_policy="omit") for row in errors]), axis=0)
    better = np.argsort(good)[: errors.shape[1] // 2]
    yield f"Over the better half of the configurations: {quartiles(rank_correlations(errors[:, better]))}."
    best = np.bincount(np.nanargmin(errors, axis=1), minlength=errors.shape[1])
    yield f"{np.count_nonzero(best)} configurations are best somewhere; the most frequent on {best.max()} datasets."
    yield from noise(history)


def rank_correlations(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlate the ranks of every two complete datasets."""
    complete = errors[~np.isnan(errors).any(axis=1)]
    ranks = np.array([rankdata(row) for row in complete])
    found: NDArray[np.float64] = np.corrcoef(ranks)[np.triu_indices(len(ranks), 1)]
    return found


def quartiles(values: NDArray[np.float64]) -> str:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"median {middle:.2f}, quartiles {low:.2f} and {high:.2f}"


def noise(history: History) -> Iterator[str]:
    """Say how noisy the best quarter of each whole source is, by the seed and by the validation part."""
    found = [one for one in history_noise(history) if history.dataset(one.name).fraction == 1]
    repeated = [one for one in found if one.median == one.median]
    if repeated:
        yield (
            f"Standard error of a mean over seeds / range, best quarter of each whole source: median of the sources' medians "
            f"{np.median([one.median for one in repeated]):.3f}, root mean square {np.sqrt(np.mean([one.rms**2 for one in repeated])):.3f}; "
            f"{sum(one.median <= 0.015 for one in repeated)} of {len(found)} sources at 0.015 or below, {len(repeated)} repeated."
        )
    yield (
        "Standard error of an error because of the finite validation part / range: "
        f"{quartiles(np.array([one.sampling for one in found]))}."
    )


def quality_tables(quality: Mapping[str, Any]) -> Iterator[str]:
    """Tabulate the held-out quality."""
    names = ("spearman", "spearman_normalised", "recall@5", "recall@5_normalised")
    yield "| distance | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for metric, found in quality["distances"].items():
        yield f"| {metric} | " + " | ".join(between(found[name], 2) for name in names) + " |"
    times = list(next(iter(quality["regret"].values())))
    yield ""
    yield "| mean normalised regret after | " + " | ".join(times) + " |"
    yield "|---" * (len(times) + 1) + "|"
    for method, found in quality["regret"].items():
        yield f"| {method} | " + " | ".join(f"{found[t]['mean']:.4f}" for t in times) + " |"
    for other in quality["regret"]:
        row = [d for d in quality["differences"] if d["second"] == other and d["measure"].startswith("regret@")]
        if row:
            yield f"| {quality['ours']} less {other} | " + " | ".join(between(d, 4) for d in row) + " |"
    for method, promised in quality["promises"].items():
        yield ""
        yield f"| {method} | " + " | ".join(promised) + " |"
        yield "|---" * (len(promised) + 1) + "|"
        yield "| promised | " + " | ".join(f"{one['promised']:.4f}" for one in promised.values()) + " |"
        yield "| seen | " + " | ".join(f"{one['seen']:.4f}" for one in promised.values()) + " |"
        yield (
            "| seen less promised | "
            + " | ".join(between(one["seen_less_promised"], 4) for one in promised.values())
            + " |"
        )


def between(found: Mapping[str, Any], digits: int) -> str:
    return f"{found['mean']:.{digits}f} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"


def dataset_table(history: History) -> Iterator[str]:
    """Tabulate the sources; their parts differ in size alone."""
    yield "| dataset | group | classes | training images | best error | median | worst | source | licence |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for info, row in zip(history.datasets, history.errors, strict=True):
        if info.fraction < 1:
            continue
        low, middle, high = np.nanmin(row), np.nanmedian(row), np.nanmax(row)
        yield (
            f"| {info.name} | {info.group} | {info.n_classes} | {info.n_train} | {low:.3f} | {middle:.3f} | {high:.3f} "
            f"| {info.source} | {info.licence} |"
        )


if __name__ == "__main__":
    main()
