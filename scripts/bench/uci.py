"""Regression on four UCI sets with their standard splits: test log-likelihood of BOHAMIANN, one setting for all of them.

The comparison of [Springenberg2016bayesian] Table 1. Inputs are scaled to [0, 1] by the training rows. Each fit is one line of
the file --runs; the same command goes on where it was stopped. The likelihood is that of the mixture over networks; of the
normal distribution with its moments too.

    OMP_NUM_THREADS=1 python scripts/bench/uci.py --root ../shared/tables/uci --runs uci.jsonl \
        [--splits 10] [--variant NAME ...] [--out scripts/bench/results/uci.json]
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.bo.surrogates.bohamiann.model import Bohamiann

SETS = ("bostonHousing", "yacht", "concrete", "wine-quality-red")
PAPER = {"bostonHousing": -2.536, "yacht": -1.107, "concrete": -3.384, "wine-quality-red": -1.041}
"""The paper's row `scale-adapted`."""
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "sghmc": {"sampler": "sghmc"},
    "sgld": {"sampler": "sgld"},
    "psgld": {"sampler": "psgld"},
    "hyperprior": {"hyperprior": True},
    "heteroscedastic": {"heteroscedastic": True},
    "three layers": {"hidden": (50, 50, 50)},
}


def scored(root: Path, name: str, split: int, *, options: dict[str, Any]) -> dict[str, float]:
    """Fit the training rows of a split and score its test rows, in the units of the targets."""
    with np.load(root / f"{name}.npz") as file:
        X, y, train, test = file["X"], file["y"], file["train"][split], file["test"][split]
    low, high = X[train].min(axis=0), X[train].max(axis=0)
    unit = (X - low) / np.where(high > low, high - low, 1.0)
    start = time.process_time()
    model = Bohamiann(**options).fit(unit[train], y[train], rng=np.random.default_rng(split))
    seconds = time.process_time() - start
    mean, noise = model.networks(unit[test])
    each = log_normal(y[test], mean, noise)
    centre, var = mean.mean(axis=0), mean.var(axis=0) + noise.mean(axis=0)
    return {
        "log_likelihood": float(np.logaddexp.reduce(each, axis=0).mean() - np.log(len(mean))),
        "log_likelihood_of_moments": float(log_normal(y[test], centre, var).mean()),
        "rmse": float(np.sqrt(np.square(y[test] - centre).mean())),
        "effective_samples": model.ess,
        "cpu_s": seconds,
    }


def log_normal(y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Compute log N(y; mean, var)."""
    return -0.5 * (np.square(y - mean) / var + np.log(2.0 * np.pi * var))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--variant", nargs="+", default=["default"], choices=[*VARIANTS])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = options.runs.read_text().splitlines() if options.runs.exists() else []
    runs = {(run["variant"], run["set"], run["split"]): run for run in map(json.loads, lines)}
    for split in range(options.splits):
        for variant in options.variant:
            for name in SETS:
                if (variant, name, split) in runs:
                    continue
                score = scored(options.root, name, split, options=VARIANTS[variant])
                run = {"variant": variant, "set": name, "split": split, **score}
                runs[variant, name, split] = run
                with options.runs.open("a") as file:
                    file.write(json.dumps(run) + "\n")
    table: dict[str, dict[str, Any]] = {}
    for variant in dict.fromkeys(key[0] for key in runs):
        for name in SETS:
            found = [run for key, run in runs.items() if key[:2] == (variant, name)]
            if not found:
                continue
            values = {k: np.array([run[k] for run in found]) for k in found[0] if k not in {"variant", "set", "split"}}
            row: dict[str, Any] = {k: round(float(v.mean()), 4) for k, v in values.items()}
            row |= {"sd": round(float(values["log_likelihood"].std()), 4), "splits": len(found), "paper": PAPER[name]}
            table.setdefault(variant, {})[name] = row
            print(
                f"{variant:16} {name:18} {row['log_likelihood']:8.3f} ± {row['sd']:.3f}  (paper {PAPER[name]:.3f})  "
                f"rmse {row['rmse']:.3f}  ess {row['effective_samples']:.0f}  {row['cpu_s']:.2f} s  n={len(found)}"
            )
    if options.out:
        options.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
