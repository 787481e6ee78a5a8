"""Ways to choose the first configurations: what `joint` does, and what was tried and lost.

For every table each group is held out in turn and the rest chooses for it. Printed: mean normalised regret after 1, 3, 5 and
10 configurations, less the portfolio's, with its standard error over groups. Distances: handcrafted meta-features, the true
ones, and noise (a choice must not lose when they mean nothing). A table is an npz as `warmstart evaluate --table` reads it.

    OMP_NUM_THREADS=1 python scripts/bench/joint.py TABLE.npz [...] [--shards FOLDER] [--hide 0.4] [--out FILE.json]
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.calibration import REACHES, calibrate
from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import regret_curve
from warmstart.bo.transfer.strategies.joint import nearness_weights
from warmstart.bo.transfer.strategies.portfolio import portfolio_rows
from warmstart.bo.transfer.strategies.scenarios import make_scenarios
from warmstart.history_store.error_tables import min_max_normalised
from warmstart.training.evaluation.metrics import feature_metric
from warmstart.training.evaluation.protocol import Fold, folds
from warmstart.training.evaluation.table import ErrorTable, read_table

Matrix = NDArray[np.float64]
TIMES = (1, 3, 5, 10)
Choose = Callable[[Matrix, Matrix, Matrix, list[str], int], list[int]]
"""errors `m x c`, distances `m`, distances `m x m` between those that answer, their groups, t -> rows"""


def filled_regrets(e: Matrix) -> Matrix:
    """Scale errors to [0, 1] by row, missing ones counting as expected."""
    return min_max_normalised(make_scenarios(e).expected_errors(len(e)))


def by_reach(reach: float) -> Choose:
    """Weigh by 1 / (rank + reach)."""
    return lambda e, d, b, g, t: portfolio_rows(e, t, weights=nearness_weights(d, ((reach, 1.0),)))  # noqa: ARG005


def by_exponential(temperature: float, *, ranked: bool = False) -> Choose:
    """Weigh by exp(-d / temperature / median), or by exp(-rank / temperature / m)."""

    def choose(e: Matrix, d: Matrix, b: Matrix, g: list[str], t: int) -> list[int]:  # noqa: ARG001
        x = np.argsort(np.argsort(d)) / len(d) if ranked else (d - d.min()) / np.median(d)
        return portfolio_rows(e, t, weights=np.exp(-x / temperature) + 1e-12)

    return choose


def calibrated(e: Matrix, d: Matrix, b: Matrix, g: list[str], t: int) -> list[int]:
    """Ask the history how far to reach, softly: `joint` with a calibration."""
    return initial_designs(e, d, t, strategy="joint", calibration=calibrate(e, b, g))


def sharp(*, one_error: bool) -> Choose:
    """Take the one best reach, or the longest within a standard error of it."""

    def choose(e: Matrix, d: Matrix, b: Matrix, g: list[str], t: int) -> list[int]:
        shares = np.array(calibrate(e, b, g).shares)
        # exp(-z²/2) of the calibration: within one error means a share of at least exp(-1/2) of the best one's.
        fine = np.flatnonzero(shares >= (np.exp(-0.5) if one_error else 1.0) * shares.max())
        return by_reach(REACHES[int(fine.max())])(e, d, b, g, t)

    return choose


def posterior(reach: float) -> Choose:
    """Move every row by what nearness predicts for the query less what it predicts for the row's own dataset."""

    def choose(e: Matrix, d: Matrix, b: Matrix, g: list[str], t: int) -> list[int]:
        regrets, labels = filled_regrets(e), np.array(g)
        own = np.zeros_like(regrets)
        for i, label in enumerate(labels):
            others = np.flatnonzero(labels != label)
            own[i] = nearness_weights(b[i, others], ((reach, 1.0),)) @ regrets[others]
        weights = nearness_weights(d, ((reach, 1.0),))
        return portfolio_rows(weights @ regrets + regrets - own, t, weights=nearness_weights(d, ((3.0, 1.0),)))

    return choose


def denoised(rank: int) -> Choose:
    """Halve what the first few principal components of the regrets do not explain."""

    def choose(e: Matrix, d: Matrix, b: Matrix, g: list[str], t: int) -> list[int]:
        regrets = filled_regrets(e)
        u, s, v = np.linalg.svd(regrets - regrets.mean(axis=0), full_matrices=False)
        low = regrets.mean(axis=0) + (u[:, :rank] * s[:rank]) @ v[:rank]
        return by_reach(3.0)(0.5 * (regrets + low), d, b, g, t)

    return choose


def worst_where_missing(e: Matrix, d: Matrix, b: Matrix, g: list[str], t: int) -> list[int]:
    """Count a missing cell as its dataset's worst error."""
    worst = np.nanmax(e, axis=1, keepdims=True)
    return by_reach(3.0)(np.where(np.isnan(e), worst, e), d, b, g, t)


def by_loss(power: float) -> Choose:
    """Make the mean of a power of the best regret small."""
    return lambda e, d, b, g, t: by_reach(3.0)(filled_regrets(e) ** power, d, b, g, t)


def per_group(e: Matrix, d: Matrix, b: Matrix, g: list[str], t: int) -> list[int]:  # noqa: ARG001
    """Let a group of siblings weigh as much as one dataset."""
    sizes = np.array([g.count(group) for group in g])
    return portfolio_rows(e, t, weights=nearness_weights(d, ((3.0, 1.0),)) / sizes)


CHOICES: dict[str, Choose] = {
    "nearest [paper]": lambda e, d, b, g, t: initial_designs(e, d, t, strategy="nearest"),  # noqa: ARG005
    "joint": by_reach(3.0),
    "joint, calibrated": calibrated,
    **{f"1/(rank+{reach:g})": by_reach(reach) for reach in (0.3, 1.0, 10.0)},
    **{f"exp(-d/{x})": by_exponential(x) for x in (0.1, 0.35, 1.0)},
    **{f"exp(-rank/{x})": by_exponential(x, ranked=True) for x in (0.05, 0.1, 0.2)},
    "best reach": sharp(one_error=False),
    "one-standard-error reach": sharp(one_error=True),
    "posterior of the row": posterior(3.0),
    "denoised, 5 components": denoised(5),
    "groups weigh alike": per_group,
    "missing is worst": worst_where_missing,
    "square root of the regret": by_loss(0.5),
    "square of the regret": by_loss(2.0),
}


def play(table: ErrorTable, metric: Callable[[Fold], Matrix], choose: Choose, t: int, *, hide: float) -> Matrix:
    """Compute regret curves, `m x t`; a share of the cells is hidden from the choice."""
    curves = np.empty((len(table.errors), t))
    known = np.where(np.random.default_rng(1).random(table.errors.shape) < hide, np.nan, table.errors)
    for fold in folds("leave-source-out", table.datasets, table.groups):
        matrix, history = metric(fold), fold.history
        groups = [table.groups[row] for row in history]
        for row in fold.queries:
            rows = choose(known[history], matrix[row, history], matrix[np.ix_(history, history)], groups, t)
            curves[row] = regret_curve(table.errors[row], rows)
    return curves


def compare(table: ErrorTable, hide: float) -> dict[str, Any]:
    """Play every choice under every kind of distances."""
    rng = np.random.default_rng(0)
    m, t = len(table.errors), max(TIMES)
    true = table.true_distances(normalised=True)
    noise = rng.random((m, m))
    metrics: dict[str, Callable[[Fold], Matrix]] = {"true": lambda _: true, "noise": lambda _: noise}
    if table.meta_features is not None:
        metrics["meta-features"] = feature_metric(table.meta_features)
    uniform: Choose = lambda e, d, b, g, t: initial_designs(e, None, t, strategy="portfolio")  # noqa: ARG005, E731
    reference = play(table, metrics["noise"], uniform, t, hide=hide)
    groups = np.array(table.groups)
    result: dict[str, Any] = {"portfolio": {str(time): float(reference[:, time - 1].mean()) for time in TIMES}}
    print(f"\n{table.name}: portfolio " + ", ".join(f"{reference[:, time - 1].mean():.4f}" for time in TIMES))
    for name, metric in metrics.items():
        print(f"  distances: {name}")
        for label, choose in CHOICES.items():
            gaps = play(table, metric, choose, t, hide=hide) - reference
            units = np.array([gaps[groups == group].mean(axis=0) for group in dict.fromkeys(table.groups)])
            mean, error = units.mean(axis=0), units.std(axis=0, ddof=1) / np.sqrt(len(units))
            columns = [time - 1 for time in TIMES]
            result.setdefault(name, {})[label] = {
                "less_portfolio": mean[columns].tolist(),
                "se": error[columns].tolist(),
            }
            print(f"    {label:26}" + "".join(f"  {mean[i]:+.4f} ± {error[i]:.4f}" for i in columns), flush=True)
    return result


def shards_table(folder: Path) -> ErrorTable:
    """Read the whole sources of a folder of shards as a table."""
    configs = len(json.loads((folder / "collection.json").read_text())["configs"])
    names, groups, errors = [], [], []
    for file in sorted(folder.glob("*.jsonl")):
        head, *runs = map(json.loads, file.read_text().splitlines())
        if head["dataset"]["fraction"] == 1.0:
            row = np.full(configs, np.nan)
            for run in runs:
                row[run["config"]] = np.nan if run["error"] is None else run["error"]
            names.append(head["dataset"]["name"])
            groups.append(head["dataset"]["group"])
            errors.append(row)
    table = np.array(errors)
    return ErrorTable(folder.name, table[:, ~np.isnan(table).all(axis=0)], tuple(names), tuple(groups))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--shards", type=Path, help="measured shards, as another table")
    parser.add_argument(
        "--features", type=Path, help="a table of the same datasets, whose meta-features the shards get"
    )
    parser.add_argument("--hide", type=float, default=0.0, help="share of the cells that the choice does not see")
    parser.add_argument("--only", action="append", default=[], help="a choice by name; default all")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for name in set(CHOICES) - set(options.only or CHOICES):
        del CHOICES[name]
    tables = [read_table(path) for path in options.tables]
    if options.shards:
        table = shards_table(options.shards)
        if options.features:
            other = read_table(options.features)
            assert other.meta_features is not None
            order = [other.datasets.index(name) for name in table.datasets]
            table = ErrorTable(
                table.name, table.errors, table.datasets, table.groups, meta_features=other.meta_features[order]
            )
        tables.append(table)
    result = {table.name: compare(table, options.hide) for table in tables}
    if options.out:
        options.out.write_text(json.dumps({"times": TIMES, "tables": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
