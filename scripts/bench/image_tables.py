"""Two more tables of error over the history's datasets: scikit-learn classifiers on their pixels.

Strategies that are tried on one table only are tuned to it. These two have the same datasets as the shipped history and
other learners: 64 support vector machines (linear, radial, polynomial), and 64 nearest-neighbour, forest, extra-trees and
logistic classifiers, each after PCA, on up to 500 training and 400 validation images of half size.
Format as `warmstart evaluate --table` reads it; the meta-features are handcrafted. About three minutes on one core.

    OMP_NUM_THREADS=1 python scripts/bench/image_tables.py HISTORY_WITH_IMAGES.h5 --out FOLDER
"""

import argparse
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from warmstart.history_store.history import History
from warmstart.metafeat.handcrafted import handcrafted

TRAIN, VAL, COMPONENTS = 500, 400, 100
Config = dict[str, Any]


def machines(rng: np.random.Generator, n: int = 64) -> tuple[list[Config], NDArray[np.float64]]:
    """Draw support vector machines; returns them and their points in the unit cube, NaN where inactive."""
    configs, points = [], []
    for number in range(n):
        kernel = ("linear", "rbf", "poly")[number % 3]
        u = rng.random(4)
        configs.append(
            {
                "kernel": kernel,
                "C": 10 ** (7 * u[0] - 4),
                "gamma": 10 ** (5.5 * u[1] - 5),
                "degree": 2 + int(3 * u[2]),
                "pca": (10, 40, 100)[int(3 * u[3])],
            }
        )
        gamma, degree = (math.nan if kernel == "linear" else u[1]), (u[2] if kernel == "poly" else math.nan)
        points.append([*(float(kernel == each) for each in ("linear", "rbf", "poly")), u[0], gamma, degree, u[3]])
    return configs, np.array(points)


def mixture(rng: np.random.Generator, n: int = 64) -> tuple[list[Config], NDArray[np.float64]]:
    """Draw four kinds of classifiers; returns them and their points in the unit cube, NaN where inactive."""
    kinds, configs, points = ("knn", "forest", "extra", "logistic"), [], []
    for number in range(n):
        kind, u = kinds[number % 4], rng.random(7)
        configs.append(
            {
                "kind": kind,
                "k": int(2 ** (6 * u[0])),
                "weights": ("uniform", "distance")[int(2 * u[1])],
                "max_features": 10 ** (2 * u[2] - 2),
                "leaf": int(2 ** (5 * u[3])),
                "depth": int(2 ** (5 * u[4])),
                "C": 10 ** (7 * u[5] - 5),
                "pca": (5, 15, 40, 100)[int(4 * u[6])],
            }
        )
        active = {"knn": (0, 1), "forest": (2, 3, 4), "extra": (2, 3, 4), "logistic": (5,)}[kind]
        values = [u[i] if i in active else math.nan for i in range(6)]
        points.append([*(float(kind == each) for each in kinds), *values, u[6]])
    return configs, np.array(points)


def machine(config: Config) -> ClassifierMixin:
    return SVC(kernel=config["kernel"], C=config["C"], gamma=config["gamma"], degree=config["degree"], max_iter=20_000)


def classifier(config: Config) -> ClassifierMixin:
    if config["kind"] == "knn":
        return KNeighborsClassifier(config["k"], weights=config["weights"])
    if config["kind"] == "logistic":
        return LogisticRegression(C=config["C"], max_iter=60)
    forest = RandomForestClassifier if config["kind"] == "forest" else ExtraTreesClassifier
    return forest(
        30,
        max_features=config["max_features"],
        min_samples_leaf=config["leaf"],
        max_depth=config["depth"],
        random_state=0,
    )


def measure(
    history: History, name: str, families: list[tuple[list[Config], Callable[[Config], ClassifierMixin]]]
) -> list[list[float]]:
    """Compute the validation errors of every configuration on one dataset; NaN where a fit fails."""
    stored, rng = history.images(name), np.random.default_rng(0)
    train = rng.permutation(stored.rows("train"))[:TRAIN]
    val = rng.permutation(stored.rows("val"))[:VAL]
    pixels = np.asarray(stored.array)[np.r_[train, val]][:, ::2, ::2].reshape(len(train) + len(val), -1) / 255
    n, labels = len(train), np.asarray(stored.labels)[np.r_[train, val]]
    pca = PCA(min(COMPONENTS, n - 1), random_state=0).fit(pixels[:n])
    scores = pca.transform(pixels)
    scores /= np.sqrt((scores[:n] ** 2).sum(axis=1).mean()) / 3
    errors = []
    for configs, make in families:
        row = []
        for config in configs:
            x = scores[:, : config["pca"]]
            try:
                row.append(1 - float(make(config).fit(x[:n], labels[:n]).score(x[n:], labels[n:])))
            except ValueError:  # one class, or more neighbours than images
                row.append(math.nan)
        errors.append(row)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for image_svm.npz and image_mixture.npz")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of fits that stop before they converge
    rng = np.random.default_rng(1)
    (svms, svm_points), (others, other_points) = machines(rng), mixture(rng)
    families = [(svms, machine), (others, classifier)]
    errors, features = [], []
    with History.open(options.history) as history:
        kept = [info for info in history.datasets if info.fraction == 1.0]
        for info in kept:
            errors.append(measure(history, info.name, families))
            stored = history.images(info.name)
            train = stored.rows("train")
            images, labels = np.asarray(stored.array)[train], np.asarray(stored.labels)[train]
            features.append(handcrafted(images, labels, rng=np.random.default_rng(0)))
            print(info.name, *(f"{np.nanmin(row):.3f}" for row in errors[-1]), flush=True)
    for number, (name, points) in enumerate((("image_svm", svm_points), ("image_mixture", other_points))):
        np.savez_compressed(
            options.out / f"{name}.npz",
            errors=np.array([each[number] for each in errors]),
            dataset_names=np.array([info.name for info in kept]),
            groups=np.array([info.group for info in kept]),
            X=np.nan_to_num(points),
            active=~np.isnan(points),
            meta_features=np.array(features),
        )


if __name__ == "__main__":
    main()
