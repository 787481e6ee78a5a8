"""Table 1 of [Swersky2013raiders]: predicting errors of networks of 0 to 5 layers, whose hyperparameters exist with their layers.

    OMP_NUM_THREADS=1 python scripts/bench/swersky2013.py --networks FILE.jsonl --runs FILE.jsonl [--n 250] [--folds 10] [--out FILE.json]

Networks with up to 23 hyperparameters, drawn at random, are trained on half of scikit-learn's digits (that paper: MNIST, networks that
searches came by). Then ten folds: normalised squared error of the validation errors, and of their logarithms, by one model for all
numbers of layers or by one for each; `arc` knows what is inactive, the others see values at random there. Every network and every
fold is a line of its file; the same command goes on where it was stopped.
"""

import argparse
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from runs import resume, write_report

from warmstart.bo.space.encoding import Encoding
from warmstart.bo.space.papers import layered_space
from warmstart.bo.surrogates import GaussianProcess

EPOCHS, BATCH = 10, 50
METHODS = ("separate linear", "separate gp", "separate arc", "linear", "gp", "arc")
PAPER = {
    "raw": dict(zip(METHODS, (0.812, 0.546, 0.535, 0.876, 0.481, 0.421), strict=True)),
    "log": dict(zip(METHODS, (0.737, 0.446, 0.440, 0.834, 0.401, 0.335), strict=True)),
}


@cache
def sampled(n: int) -> tuple[Encoding, np.ndarray]:
    """Draw networks."""
    encoding = Encoding(layered_space())
    return encoding, encoding.sample(n, design="uniform", rng=np.random.default_rng(0))


def train(i: int, n: int) -> dict[str, Any]:
    """Train the i-th network by stochastic gradient descent, and give its validation error."""
    import torch
    from sklearn.datasets import load_digits

    torch.set_num_threads(1)
    encoding, points = sampled(n)
    config = encoding.decode(points[i : i + 1])[0]
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(i)
    X, y = load_digits(return_X_y=True)
    order = rng.permutation(len(X))
    X, y = torch.tensor(X[order] / 16.0, dtype=torch.float32), torch.tensor(y[order])
    half, width, layers, groups = len(X) // 2, X.shape[1], [], []
    for layer in range(1, int(config["num_layers"]) + 1):
        linear = torch.nn.Linear(width, int(config[f"units_{layer}"]))
        torch.nn.init.normal_(linear.weight, std=float(config[f"init_sd_{layer}"]), generator=generator)
        torch.nn.init.zeros_(linear.bias)
        layers += [(linear, float(config[f"dropout_{layer}"]))]
        groups += [{"params": linear.parameters(), "weight_decay": float(config[f"weight_decay_{layer}"])}]
        width = linear.out_features
    last = torch.nn.Linear(width, 10)
    torch.nn.init.normal_(last.weight, std=0.01, generator=generator)
    torch.nn.init.zeros_(last.bias)
    groups += [{"params": last.parameters()}]
    optimiser = torch.optim.SGD(groups, lr=float(config["learning_rate"]), momentum=float(config["momentum"]))

    def logits(x: Any, *, training: bool) -> Any:
        for linear, dropout in layers:
            x = torch.relu(linear(x))
            if training:
                x = x * (torch.rand(x.shape, generator=generator) >= dropout) / (1.0 - dropout)
        return last(x)

    for _ in range(EPOCHS):
        for rows in torch.randperm(half, generator=generator).split(BATCH):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits(X[rows], training=True), y[rows]).backward()
            optimiser.step()
    with torch.inference_mode():
        right = logits(X[half:], training=False).argmax(dim=1) == y[half:]
    return {"error": 1.0 - float(right.float().mean())}


def predicted(
    method: str, X: np.ndarray, y: np.ndarray, new: np.ndarray, *, conditional: np.ndarray, seed: int
) -> np.ndarray:
    """Fit `n x d` points, NaN = inactive, and predict new ones; `conditional` tells which of the d columns can be inactive."""
    rng = np.random.default_rng(seed)
    if method.startswith("separate "):
        patterns, which = np.unique(np.isnan(np.concatenate([X, new])), axis=0, return_inverse=True)
        which, found = which.ravel(), np.full(len(new), y.mean())
        for pattern in range(len(patterns)):
            here, there = which[: len(X)] == pattern, which[len(X) :] == pattern
            if here.sum() >= 3 and there.any():
                active = ~patterns[pattern]
                name = method.removeprefix("separate ")
                part = {"conditional": conditional[active], "seed": seed}
                found[there] = predicted(name, X[here][:, active], y[here], new[there][:, active], **part)
        return found
    if method == "arc":
        model = GaussianProcess(conditional=np.flatnonzero(conditional).tolist()).fit(X, y, rng=rng)
        return model.predict(new).mean.mean(axis=0)
    X, new = (np.where(np.isnan(part), rng.random(part.shape), part) for part in (X, new))
    if method == "gp":
        return GaussianProcess().fit(X, y, rng=rng).predict(new).mean.mean(axis=0)
    A, B = (np.column_stack([np.ones(len(part)), part]) for part in (X, new))
    return B @ np.linalg.lstsq(A, y, rcond=None)[0]


def fold(method: str, targets: str, fold: int, n: int, *, errors: np.ndarray, folds: int) -> dict[str, Any]:
    """Predict one fold: squared errors over the variance of all targets."""
    encoding, points = sampled(n)
    X, y = encoding.columns(points), errors if targets == "raw" else np.log(np.maximum(errors, 1e-3))
    test = np.arange(n) % folds == fold
    conditional = np.isin(np.arange(encoding.d), encoding.conditional)
    gaps = predicted(method, X[~test], y[~test], X[test], conditional=conditional, seed=fold) - y[test]
    return {"nmse": float(np.square(gaps).mean() / y.var())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--n", type=int, default=250)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--done", type=int, help="folds to run now")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    networks = resume(options.networks, [{"i": i, "n": options.n} for i in range(options.n)], train)
    errors = np.array([line["error"] for line in networks])
    jobs = [
        {"method": method, "targets": targets, "fold": i, "n": options.n}
        for i in range(options.done or options.folds)
        for targets in PAPER
        for method in options.methods
    ]
    lines = resume(options.runs, jobs, partial(fold, errors=errors, folds=options.folds))
    report: dict[str, Any] = {"networks": options.n, "paper": PAPER}
    for targets in PAPER:
        for method in options.methods:
            found = [
                each["nmse"] for each in lines if (each["job"]["targets"], each["job"]["method"]) == (targets, method)
            ]
            report.setdefault(targets, {})[method] = {
                "nmse": round(float(np.mean(found)), 4),
                "standard_error": round(float(np.std(found) / len(found) ** 0.5), 4),
                "folds": len(found),
            }
    write_report(report, options.out)


if __name__ == "__main__":
    main()
