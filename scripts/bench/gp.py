"""Seconds of one thread that a suggestion by the Gaussian process takes: rows of the design's table of speeds.

A history of random points of Hartmann's function in six dimensions, one suggestion by integrated expected improvement:
with a new chain at 30 and 100 points, with a chain kept from the point before at 300 and 1,000, and with 100 points pending
at 500, model fitted. Prints JSON.

    OMP_NUM_THREADS=1 python scripts/bench/gp.py [--rows cold-30 kept-1000 pending-500]
"""

import argparse
import json
import time

import numpy as np
from functions import hartmann6

from warmstart.bo.acquisition.improvement_validity_cost import Improvement
from warmstart.bo.acquisition.optimize import optimize_acquisition
from warmstart.bo.acquisition.pending import fantasise
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates import GaussianProcess

PEERS = {
    "cold-30": ("GPyOpt GP_MCMC", 16.1, 20),
    "cold-100": ("GPyOpt GP_MCMC", 18.5, 20),
    "kept-300": ("SMAC BlackBox", 7.2, 5),
    "kept-1000": ("BoTorch, most probable", 11.7, 2),
    "pending-500": ("BoTorch qLogNEI", 2.9, 10),
}
"""Peer, its seconds on the machine of the design, and how many times faster we want to be."""


def history(encoding, n, rng):
    """Make `n` random points and their values."""
    points = encoding.sample(n, design="uniform", rng=rng)
    value = hartmann6().value
    return points, encoding.columns(points), np.array([value(config) for config in encoding.decode(points)])


def suggest(model, encoding, points, X, pending, rng):
    """Return the point that promises most."""
    best = model.predict(X).mean.min(axis=1, keepdims=True)
    fantasies = fantasise(model, pending, best, rng=rng)
    return optimize_acquisition(
        Improvement(fantasies, acquisition="ei"), encoding, around=points[:2], taken=frozenset(), rng=rng
    )


def measure(row, seed=0):
    """Time one row: CPU seconds of the suggestion, and those of what came before it and is not counted."""
    rng = np.random.default_rng(seed)
    encoding = Encoding(hartmann6().space)
    kind, n = row.split("-")
    points, X, y = history(encoding, int(n), rng)
    model, pending = GaussianProcess(), X[:0]
    start = time.process_time()
    if kind == "kept":
        model.fit(X[:-1], y[:-1], rng=rng)
    if kind == "pending":
        model.fit(X, y, rng=rng)
        pending = history(encoding, 100, rng)[1]
    before, start = time.process_time() - start, time.process_time()
    if kind != "pending":
        model.fit(X, y, rng=rng)
    fit = time.process_time() - start
    suggest(model, encoding, points, X, pending, rng)
    return {"seconds": time.process_time() - start, "fit": fit, "before": before}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    measure("cold-30")  # imports
    for row in arguments.rows:
        runs = [measure(row, seed) for seed in range(arguments.repeats)]
        median = {key: round(float(np.median([run[key] for run in runs])), 4) for key in runs[0]}
        peer, theirs, wanted = PEERS[row]
        ratio = round(theirs / median["seconds"], 1)
        print(
            json.dumps({"row": row, **median, "peer": peer, "theirs": theirs, "times faster": ratio, "wanted": wanted})
        )


if __name__ == "__main__":
    main()
