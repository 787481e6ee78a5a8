"""Readers of the three grid tables that the optimisation papers search [Snoek2012practical, Snoek2015scalable].

A table is a CSV, one row a configuration that its authors measured, with seconds. Every hyperparameter is ordered and its
values evenly spaced for the model, which is a logarithmic scale where the grid is geometric. Rows that repeat a
configuration are left out: the first measurement counts.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ConfigSpace import ConfigurationSpace, OrdinalHyperparameter
from numpy.typing import NDArray

ERRORS = {"lda": "perplexity", "svm": "error", "logreg": "val"}
"""The column that is minimised."""
HYPERPARAMETERS = {"lda": 3, "svm": 3, "logreg": 4}


@dataclass(frozen=True, slots=True)
class Grid:
    """A measured grid: `n` configurations with their errors and seconds."""

    name: str
    space: ConfigurationSpace
    configs: tuple[dict[str, float], ...]
    errors: NDArray[np.float64]
    seconds: NDArray[np.float64]


def read_grid(root: Path, name: str) -> Grid:
    """Read `<root>/<name>_on_grid.csv`, name one of `lda`, `svm`, `logreg`."""
    with (root / f"{name}_on_grid.csv").open(newline="", encoding="utf-8") as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    names = list(rows[0])[: HYPERPARAMETERS[name]]
    first: dict[tuple[float, ...], dict[str, float]] = {}
    for row in rows:
        first.setdefault(tuple(row[key] for key in names), row)
    space = ConfigurationSpace(name=f"{name}-grid")
    space.add(*(OrdinalHyperparameter(key, sorted({row[key] for row in rows})) for key in names))
    return Grid(
        name,
        space,
        tuple({key: row[key] for key in names} for row in first.values()),
        np.array([row[ERRORS[name]] for row in first.values()]),
        np.array([row["seconds"] for row in first.values()]),
    )
