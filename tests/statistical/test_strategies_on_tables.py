"""Strategies on the public tables beside the repository: the figures that the design quotes come out again."""

from pathlib import Path

import numpy as np
import pytest

from bo.regret import random_curve
from history_store.response import min_max_normalised, target_distance
from training.evaluation import held_out_distances, regret_curves

TABLES = Path(__file__).parents[3] / "shared" / "tables"
TIMES = np.array([1, 3, 5, 10, 20])

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TABLES / "svm_tst.npz").exists(), reason="the public tables are not beside this checkout"),
]


@pytest.fixture(scope="module")
def table():
    with np.load(TABLES / "svm_tst.npz", allow_pickle=False) as file:
        return {key: file[key] for key in ("errors", "groups", "meta_features")}


def means(table, strategy, distances=None) -> np.ndarray:
    groups = table["groups"].tolist()
    return regret_curves(table["errors"], groups, 20, strategy=strategy, distances=distances).mean(axis=0)[TIMES - 1]


def test_portfolio_average_rank_and_random(table):
    np.testing.assert_allclose(means(table, "portfolio"), [0.173, 0.098, 0.078, 0.054, 0.044], atol=0.001)
    np.testing.assert_allclose(means(table, "average-rank"), [0.205, 0.131, 0.091, 0.074, 0.057], atol=0.001)
    random = np.mean([random_curve(row, 20) for row in table["errors"]], axis=0)[TIMES - 1]
    np.testing.assert_allclose(random, [0.544, 0.286, 0.194, 0.110, 0.064], atol=0.001)


def test_nearest_by_handcrafted_features(table):
    features = table["meta_features"].astype(float)

    def z_scored(fold):
        history = features[fold.history]
        return (features - history.mean(axis=0)) / np.where(history.std(axis=0) > 0, history.std(axis=0), np.inf)

    distances = held_out_distances(z_scored, table["groups"].tolist())
    np.testing.assert_allclose(means(table, "nearest", distances), [0.299, 0.108, 0.084, 0.061, 0.034], atol=0.001)


def test_nearest_by_true_distances_of_normalised_errors(table):
    oracle = target_distance(min_max_normalised(table["errors"].astype(float)))
    np.testing.assert_allclose(means(table, "nearest", oracle), [0.155, 0.067, 0.053, 0.045, 0.027], atol=0.001)
