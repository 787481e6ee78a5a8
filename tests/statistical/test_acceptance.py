"""Acceptance checks of the optimiser on published problems: networks, the grid tables, conditional spaces, prior means.

The Gaussian process on Branin and Hartmann-6, workers side by side and an infeasible disc are in `test_optimiser.py`, the UCI
sets in `test_uci.py`. What was observed stands beside each limit.
"""

from pathlib import Path

import numpy as np
import pytest
from dngo import pending
from functions import branin, layers
from runs import search
from snoek2015 import read_grid, run_grid

from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates import GaussianProcess

GRIDS = Path(__file__).parents[3] / "shared" / "tables" / "grids"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
needs_grids = pytest.mark.skipif(not GRIDS.is_dir(), reason=f"no measured grids at {GRIDS}")


@pytest.mark.parametrize(
    ("surrogate", "problem", "t", "seeds", "limit"),
    [
        ("dngo", branin, 60, 5, 0.41),
        ("bohamiann", branin, 60, 3, 0.5),
    ],
)
def test_networks_find_the_minimum(surrogate, problem, t, seeds, limit):
    made = problem()
    found = [search(made.space, made.value, t, surrogate=surrogate, seed=seed).best_at(t) for seed in range(seeds)]
    assert np.median(found) <= limit, found


@needs_grids
@pytest.mark.parametrize(
    ("grid", "t", "surrogate", "seeds", "limit"),
    [("lda", 50, "dngo", 20, 1267.5), ("svm", 100, "gp", 10, 0.2420), ("logreg", 100, "gp", 5, 0.0700)],
)
def test_measured_grids(grid, t, surrogate, seeds, limit):
    table = read_grid(GRIDS, grid)
    found = [run_grid(table, t, surrogate=surrogate, seed=seed).best_at(t) for seed in range(seeds)]
    assert np.mean(found) <= limit, found


@needs_grids
def test_improvement_per_second_saves_time():
    """Hours on the clock of the measured durations until an error of 0.25."""
    table, t, seeds = read_grid(GRIDS, "svm"), 150, range(20)
    plain, per_second = (
        np.mean(
            [
                run_grid(table, t, timed=True, until=0.25, acquisition=acquisition, seed=seed).reached(0.25)[1]
                or np.inf
                for seed in seeds
            ]
        )
        for acquisition in ("ei", "ei-per-second")
    )
    assert per_second < plain


def test_eight_hundred_pending():
    figures = pending()
    assert figures["suggest_s"] <= 60.0
    assert figures["peak_gb"] < 4.0


def test_arcs_predict_conditional_functions_better_than_values_at_random():
    problem = layers()
    encoding, rng = Encoding(problem.space), np.random.default_rng(0)
    points = encoding.sample(400, design="uniform", rng=rng)
    configs = encoding.decode(points)
    keep = [i for i, config in enumerate(configs) if config["layers"] > 0][:150]  # the second layer half the time
    X, y = encoding.columns(points)[keep], np.array([problem.value(configs[i]) for i in keep])
    filled = np.where(np.isnan(X), rng.random(X.shape), X)
    errors = np.zeros(2)
    for fold in range(10):
        test = np.arange(len(X)) % 10 == fold
        for i, (columns, conditional) in enumerate([(X, encoding.conditional), (filled, ())]):
            model = GaussianProcess(conditional=conditional)
            model.fit(columns[~test], y[~test], rng=np.random.default_rng(fold))
            errors[i] += np.mean((model.predict(columns[test]).mean.mean(axis=0) - y[test]) ** 2) / y.var()
    assert errors[0] <= 0.9 * errors[1], errors / 10
