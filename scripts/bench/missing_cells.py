"""What missing cells cost each strategy: choices with cells hidden, paired against those of the full matrix.

For every table each group is held out in turn; the rest, with a share of its cells hidden, chooses for it. Printed and written: mean
normalised regret after three configurations with everything known, and how much more it is with cells hidden, with standard errors over groups.

    OMP_NUM_THREADS=1 python scripts/bench/missing_cells.py [TABLE.npz ...] [--repeats 2] [--share 0.3] [--out FILE.json]

The first table is the whole sources of the shipped history. Distances are the true ones of normalised errors.
"""

import argparse
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import regret_curve
from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.history_store.history import History
from warmstart.training.evaluation.table import ErrorTable, history_table, read_table

Matrix = NDArray[np.float64]
AFTER = 3
HOW = ("at random", "half of the configurations", "a stretch of each dataset", "most of some configurations")


def hidden(shape: tuple[int, int], how: str, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw which cells are hidden."""
    m, c = shape
    if how == "at random":
        return rng.random(shape) < share
    if how == "half of the configurations":
        rows = rng.random(m) < min(2 * share, 0.75)
        return rows[:, None] & np.isin(np.arange(c), rng.permutation(c)[: c // 2])
    if how == "a stretch of each dataset":
        return (rng.permutation(c) - rng.integers(c, size=(m, 1))) % c < share * c
    return (rng.random(shape) < 0.8) & (rng.random(c) < share / 0.8)


def regrets(table: ErrorTable, known: Matrix, distances: Matrix, strategy: str) -> Matrix:
    """Compute each dataset's regret after a few choices of those outside its group."""
    groups, found = np.array(table.groups), []
    for row, group in enumerate(groups):
        rest = np.flatnonzero(groups != group)
        rows = initial_designs(
            known[rest], distances[row, rest], AFTER, strategy=strategy, groups=groups[rest].tolist()
        )
        found.append(regret_curve(table.errors[row], rows)[-1])
    return np.array(found)


def compare(table: ErrorTable, shares: list[float], repeats: int) -> dict[str, Any]:
    """Hide cells in every way from every strategy."""
    distances, groups = table.true_distances(normalised=True), np.array(table.groups)
    result: dict[str, Any] = {}
    for strategy in STRATEGIES:
        full = regrets(table, table.errors, distances, strategy)
        result[strategy] = {"full": float(full.mean()), "more": {}}
        print(f"{table.name} {strategy}: {full.mean():.4f}")
        for how in HOW:
            for share in shares:
                costs = []
                for seed in range(repeats):
                    mask = hidden(table.errors.shape, how, share, np.random.default_rng(seed))
                    known = np.where(mask, np.nan, table.errors)
                    costs.append(regrets(table, known, distances, strategy) - full)
                cost = np.mean(costs, axis=0)
                units = np.array([cost[groups == group].mean() for group in dict.fromkeys(table.groups)])
                mean, error = float(units.mean()), float(units.std(ddof=1) / np.sqrt(len(units)))
                result[strategy]["more"][f"{how}, {share:g}"] = {"mean": mean, "se": error}
                print(f"  {how}, {share:g}: {mean:+.4f} ± {error:.4f}", flush=True)
    return result


def shipped_wholes() -> ErrorTable:
    """Read the whole sources of the shipped history."""
    with History.open(str(resources.files("warmstart") / "defaults" / "history.h5")) as history:
        table = history_table(history, "history")
    rows = [row for row, name in enumerate(table.datasets) if "@" not in name]
    return ErrorTable(
        table.name,
        table.errors[rows],
        tuple(table.datasets[row] for row in rows),
        tuple(table.groups[row] for row in rows),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--share", type=float, action="append", help="of the cells; default 0.1, 0.3 and 0.6")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tables = [shipped_wholes(), *map(read_table, options.tables)]
    result = {table.name: compare(table, options.share or [0.1, 0.3, 0.6], options.repeats) for table in tables}
    if options.out:
        options.out.write_text(
            json.dumps({"after": AFTER, "repeats": options.repeats, "tables": result}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
