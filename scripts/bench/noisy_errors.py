"""What it is worth to choose for all that noisy errors might be: regret by the noise that `portfolio` and `joint` reckon with.

In each draw, 60 % of a table's groups answer for the rest. Printed and written, by strategy and noise: mean normalised regret after 1, 3, 5 and
10 configurations, and how much more it is than without noise, with standard errors over groups (mean over draws of each dataset that asked).

    OMP_NUM_THREADS=1 python scripts/bench/noisy_errors.py [TABLE.npz ...] [--history FILE.h5 ...] [--draws 60] [--out FILE.json]

The first table is the whole sources of the shipped history. Distances are the true ones of normalised errors.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from missing_cells import shipped_wholes
from numpy.typing import NDArray
from runs import write_report

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import regret_curve
from warmstart.history_store.history import History
from warmstart.training.evaluation.table import ErrorTable, history_table, read_table

Floats = NDArray[np.float64]
NOISES = (0.0, 0.02, 0.05, 0.08)
AFTER = (1, 3, 5, 10)
ANSWERING = 0.6


def play(table: ErrorTable, strategy: str, draws: int) -> Floats:
    """Return the mean regrets of each dataset over the draws in which it asked: noises x datasets x AFTER."""
    groups, distances = np.array(table.groups), table.true_distances(normalised=True)
    rng, sources = np.random.default_rng(7), np.array(list(dict.fromkeys(table.groups)))
    total, count = np.zeros((len(NOISES), len(groups), len(AFTER))), np.zeros(len(groups))
    for _ in range(draws):
        answering = np.isin(groups, rng.permutation(sources)[: max(2, int(ANSWERING * len(sources)))])
        for row in np.flatnonzero(~answering).tolist():
            count[row] += 1
            for place, noise in enumerate(NOISES):
                far = None if strategy == "portfolio" else distances[row, answering]
                rows = initial_designs(
                    *(table.errors[answering], far, max(AFTER)),
                    strategy=strategy,
                    groups=groups[answering].tolist(),
                    noise=noise,
                )
                total[place, row] += regret_curve(table.errors[row], rows)[np.array(AFTER) - 1]
    return total / count[:, None]


def compare(table: ErrorTable, draws: int) -> dict[str, Any]:
    """Compare the noises of both strategies."""
    found: dict[str, Any] = {"datasets": len(table.groups), "groups": len(set(table.groups))}
    for strategy in ("portfolio", "joint"):
        regrets = play(table, strategy, draws)
        found[strategy] = {}
        for place, noise in enumerate(NOISES):
            more = regrets[place] - regrets[0]
            units = np.array(
                [more[np.array(table.groups) == group].mean(axis=0) for group in dict.fromkeys(table.groups)]
            )
            found[strategy][str(noise)] = {
                "regret": regrets[place].mean(axis=0).round(5).tolist(),
                "more": units.mean(axis=0).round(5).tolist(),
                "se": (units.std(axis=0, ddof=1) / np.sqrt(len(units))).round(5).tolist(),
            }
            print(table.name, strategy, noise, found[strategy][str(noise)], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--history", type=Path, action="append", default=[])
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tables = [shipped_wholes(), *map(read_table, options.tables)]
    for path in options.history:
        with History.open(path) as history:
            tables.append(history_table(history, path.stem))
    found = {table.name: compare(table, options.draws) for table in tables}
    write_report({"after": AFTER, "draws": options.draws, "tables": found}, options.out)


if __name__ == "__main__":
    main()
