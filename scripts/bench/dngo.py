"""Time DNGO: fits and predictions, growth with the data at fixed epochs, a suggestion with 800 pending points.

    OMP_NUM_THREADS=1 python scripts/bench/dngo.py [--out FILE.json] [--skip-growth]

Figures are CPU seconds of one thread on random points of Hartmann-6; errors are root mean squares on 2,000 others in units of
their standard deviation, densities mean log densities per point. The bars are those of the design: fit of 100 points ≤ 1.0 s,
predicting 10,000 ≤ 0.076 s, fit(10,000)/fit(1,000) ≤ 12 at an error ≤ 1.3 x the Gaussian process's, 800 pending of 2,500 in
eleven dimensions ≤ 60 s and < 4 GB.
"""

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from warmstart.bo.acquisition.pending import fantasise
from warmstart.bo.acquisition.scores import integrate_log, log_expected_improvement
from warmstart.bo.surrogates import DNGO, GaussianProcess, Surrogate

CURVATURES = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])


def hartmann6(X: np.ndarray) -> np.ndarray:
    return -(WEIGHTS * np.exp(-(CURVATURES * np.square(X[:, None, :6] - CENTRES)).sum(axis=2))).sum(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--skip-growth", action="store_true")
    parser.add_argument("--epochs", type=int, default=500)
    args = parser.parse_args()
    report: dict[str, Any] = {"small": small()}
    print(json.dumps(report["small"]), flush=True)
    report["pending"] = pending()
    print(json.dumps(report["pending"]), flush=True)
    if not args.skip_growth:
        report["growth"] = growth(args.epochs)
    text = json.dumps(report, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


def points(n: int, d: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).random((n, d))
    return X, hartmann6(X)


def quality(model: Surrogate) -> dict[str, float]:
    X, y = points(2000, seed=99)
    prediction = model.predict(X)
    density = norm.pdf(y, prediction.mean, np.sqrt(prediction.var + prediction.noise[:, None])).mean(axis=0)
    error = np.sqrt(np.mean((prediction.mean.mean(axis=0) - y) ** 2)) / y.std()
    return {"nrmse": round(float(error), 3), "log_density": round(float(np.log(density + 1e-300).mean()), 3)}


def timed_fit(model: Surrogate, n: int, seed: int) -> float:
    X, y = points(n, seed=seed)
    start = time.process_time()
    model.fit(X, y, rng=np.random.default_rng(seed))
    return time.process_time() - start


def small(repeats: int = 3) -> dict[str, Any]:
    """100 points: fit, predict 10,000, and how well, beside the Gaussian process."""
    X, fits, predictions, found, peer = points(10_000, seed=5)[0], [], [], [], []
    for seed in range(repeats):
        model = DNGO()
        fits.append(timed_fit(model, 100, seed))
        start = time.process_time()
        model.predict(X)
        predictions.append(time.process_time() - start)
        found.append(quality(model))
        process = GaussianProcess()
        timed_fit(process, 100, seed)
        peer.append(quality(process))
    return {
        "fit_100_s": round(min(fits), 3),
        "fit_bar_s": 1.0,
        "predict_10000_s": round(min(predictions), 4),
        "predict_bar_s": 0.076,
        "dngo": found,
        "gp": peer,
    }


def pending(n: int = 2500, j: int = 800, d: int = 11) -> dict[str, float]:
    """One suggestion among 4,096 candidates with 800 pending, 10 samples and 16 fantasies, networks trained before."""
    X, y = points(n, d)
    rng = np.random.default_rng(0)
    start = time.process_time()
    model = DNGO().fit(X, y, rng=rng)
    fitted = time.process_time()
    best = np.full((len(model.predict(X[:1]).mean), 1), y.min())
    fantasies = fantasise(model, rng.random((j, d)), best, rng=rng, n=16)
    scores = np.concatenate(
        [
            integrate_log(
                log_expected_improvement(*fantasies.model.predict(block), fantasies.best).reshape(-1, len(block))
            )
            for block in np.array_split(rng.random((4096, d)), 8)
        ]
    )
    end = time.process_time()
    return {
        "fit_s": round(fitted - start, 2),
        "suggest_s": round(end - fitted, 2),
        "bar_s": 60.0,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "best_log_ei": round(float(scores.max()), 2),
    }


def growth(epochs: int) -> dict[str, Any]:
    """Fits of 1,000 and 10,000 points at one number of epochs; the process's error at 1,000."""
    rows: dict[str, Any] = {"epochs": epochs}
    for n in (1000, 10_000):
        model = DNGO(epochs=epochs)
        rows[f"fit_{n}_s"] = round(timed_fit(model, n, 0), 2)
        rows[f"dngo_{n}"] = quality(model)
    process = GaussianProcess(inference="evidence", restarts=1)
    rows["gp_fit_1000_s"] = round(timed_fit(process, 1000, 0), 2)
    rows["gp_1000"] = quality(process)
    rows["ratio"] = round(rows["fit_10000_s"] / rows["fit_1000_s"], 2)
    return rows


if __name__ == "__main__":
    main()
