"""Compare strategies for initial designs on tables of error, leaving each group of datasets out in turn.

A table is an npz file with `errors` (m x c, NaN = missing), `groups` (m), `dataset_names` (m) and, where there are
any, `meta_features` (m x p). Strategies: random (exact expectation), portfolio, average-rank, nearest by z-scored
meta-features, and two oracles that no one has on a new dataset: nearest by the true target distance of the errors
as they are, and of the errors scaled to [0, 1] within each dataset.

    OMP_NUM_THREADS=1 python scripts/bench/strategies.py table.npz [more.npz ...] [--out strategies.json]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bo.regret import paired_interval, random_curve
from history_store.response import min_max_normalised, target_distance
from training.evaluation import Fold, held_out_distances, rank_correlations, regret_curves

TIMES = (1, 3, 5, 10, 20)


def z_scored(features: NDArray[np.float64], fold: Fold) -> NDArray[np.float64]:
    """Standardise features by the fold's history; a feature that is constant there is left out."""
    spread = features[fold.history].std(axis=0)
    kept = spread > 0
    scaled: NDArray[np.float64] = (features[:, kept] - features[fold.history][:, kept].mean(axis=0)) / spread[kept]
    return scaled


def compare(table: Mapping[str, NDArray[Any]], times: Sequence[int] = TIMES) -> dict[str, NDArray[np.float64]]:
    """Compute the regret of every strategy: name to `m x len(times)`."""
    errors, groups = np.asarray(table["errors"], dtype=np.float64), table["groups"].tolist()
    t, columns = max(times), np.asarray(times) - 1
    distances = {
        "true distance": target_distance(errors),
        "true distance, normalised": target_distance(min_max_normalised(errors)),
    }
    if "meta_features" in table:
        features = np.asarray(table["meta_features"], dtype=np.float64)
        distances = {"meta-features": held_out_distances(lambda fold: z_scored(features, fold), groups)} | distances
    curves = {"random": np.array([random_curve(row, t) for row in errors])}
    curves |= {name: regret_curves(errors, groups, t, strategy=name) for name in ("portfolio", "average-rank")}
    for name, matrix in distances.items():
        curves[f"nearest by {name}"] = regret_curves(errors, groups, t, strategy="nearest", distances=matrix)
    if "meta-features" in distances:
        rho = rank_correlations(distances["meta-features"], distances["true distance"], groups)
        print(f"Spearman of meta-features with true distance: {np.nanmean(rho):.2f}")
    return {name: curve[:, columns] for name, curve in curves.items()}


def show(regret: Mapping[str, NDArray[np.float64]], groups: Sequence[str], times: Sequence[int]) -> None:
    """Print mean regret, and the difference from the portfolio with its 95 % interval over groups."""
    print(f"{'mean normalised regret after t =':38}" + "".join(f"{t:>8}" for t in times))
    for name, values in regret.items():
        print(f"{name:38}" + "".join(f"{value:8.3f}" for value in values.mean(axis=0)))
    print("less the portfolio's:")
    for name, values in regret.items():
        found = [paired_interval(a, b, groups=groups) for a, b in zip(values.T, regret["portfolio"].T, strict=True)]
        print(f"{name:38}" + "".join(f"  {f.mean:+.3f} [{f.low:+.3f}, {f.high:+.3f}]" for f in found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="JSON file for the means")
    options = parser.parse_args()
    results = {}
    for path in options.tables:
        with np.load(path, allow_pickle=False) as file:
            table = {key: file[key] for key in ("errors", "groups", "meta_features") if key in file.files}
        print(f"\n{path.stem}: {table['errors'].shape[0]} datasets x {table['errors'].shape[1]} configurations")
        regret = compare(table)
        show(regret, table["groups"].tolist(), TIMES)
        results[path.stem] = {
            name: dict(zip(map(str, TIMES), values.mean(axis=0).tolist(), strict=True))
            for name, values in regret.items()
        }
    if options.out:
        options.out.write_text(json.dumps({"times": TIMES, "mean_regret": results}, indent=1))


if __name__ == "__main__":
    main()
