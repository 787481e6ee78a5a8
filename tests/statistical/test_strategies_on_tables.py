"""Strategies on the public tables beside the repository: the figures of research/benchmarks.md come out again."""

from pathlib import Path

import numpy as np
import pytest

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import regret_curve
from warmstart.training.evaluation.methods import choose_methods, make_methods
from warmstart.training.evaluation.metrics import feature_metric
from warmstart.training.evaluation.replay import ReplaySettings, evaluate
from warmstart.training.evaluation.report import make_report
from warmstart.training.evaluation.table import read_table

TABLES = Path(__file__).parents[3] / "shared" / "tables"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TABLES / "svm_tst.npz").exists(), reason="the public tables are not beside this checkout"),
]


@pytest.fixture(scope="module")
def regret():
    table = read_table(TABLES / "svm_tst.npz")
    metrics = {"handcrafted": feature_metric(table.meta_features)}
    names = ("random", "portfolio", "average-rank", "nearest-handcrafted", "oracle-nearest")
    methods = choose_methods(make_methods(list(metrics), "handcrafted", has_unit=True), names)
    outcome = evaluate(table, methods, metrics=metrics, settings=ReplaySettings(protocol="leave-source-out"))
    report = make_report(outcome, reference="portfolio")
    return {name: [found["mean"] for found in method["regret"].values()] for name, method in report["rivals"].items()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("portfolio", [0.182, 0.104, 0.082, 0.056, 0.035]),
        ("average-rank", [0.216, 0.131, 0.093, 0.071, 0.058]),
        ("random", [0.544, 0.286, 0.194, 0.110, 0.064]),
        ("nearest-handcrafted", [0.299, 0.105, 0.084, 0.058, 0.035]),
        ("oracle-nearest", [0.155, 0.067, 0.053, 0.045, 0.030]),
    ],
)
def test_mean_regret_after_1_3_5_10_20_evaluations(regret, name, expected):
    np.testing.assert_allclose(regret[name], expected, atol=0.001)


def test_where_no_dataset_has_siblings_the_figures_are_those_of_0_1():
    """Three pairs of the 50 datasets are siblings, which weigh as one source since 0.2."""
    table = read_table(TABLES / "svm_tst.npz")
    errors, groups = np.asarray(table.errors), np.array(table.groups)
    curves = []
    for query in range(len(errors)):
        others = np.flatnonzero(groups != groups[query])
        alone = [str(row) for row in others]
        rows = initial_designs(errors[others], None, 20, strategy="portfolio", groups=alone)
        curves.append(regret_curve(errors[query], rows)[[0, 2, 4, 9, 19]])
    np.testing.assert_allclose(np.mean(curves, axis=0), [0.173, 0.098, 0.078, 0.054, 0.044], atol=0.001)
