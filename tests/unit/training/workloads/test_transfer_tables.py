"""The protocol's comparison, on tables where the answer is known."""

import numpy as np
import pytest
from logme import logme
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from transfer_tables import Table, best_error, lost, tables


@pytest.fixture(scope="module")
def drawn():
    """Draw datasets of three kinds, told by a landmark; each kind has a feature set of its own that is best."""
    rng = np.random.default_rng(0)
    m, c = 30, 12
    kinds = rng.integers(0, 3, m)
    hard = rng.uniform(0.1, 0.4, m)
    errors = hard[:, None] + 0.1 + 0.02 * rng.normal(size=(m, c))
    errors[np.arange(m), 4 * kinds] -= 0.1
    halves = np.clip(errors[..., None] + 0.002 * rng.normal(size=(m, c, 2)), 0, 1)
    marks = np.column_stack([kinds == kind for kind in range(3)] + [hard]).astype(float)
    names = tuple(map(str, range(m)))
    scores = halves.mean(-1) + 0.001 * rng.normal(size=(m, c))
    axes = rng.random((c, 9))
    return Table(
        names, names, tuple(map(str, range(c))), halves, marks, {"try all": scores}, {"noise": rng.random((m, 3))}, axes
    )


def test_points_lost_are_those_of_the_pick_on_the_other_half():
    errors = np.array([[0.10, 0.12], [0.20, 0.05], [0.30, 0.30]])
    # Half 0 picks row 0 (0.12 there), the best on half 0 too; half 1 picks row 1 (0.20), the best on half 1 too.
    assert lost(errors, [0, 1, 2]) == 0
    assert lost(errors, [2]) == pytest.approx(100 * ((0.30 - 0.12) + (0.30 - 0.20)) / 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_similarity_is_worth_is_seen_and_shuffling_takes_it_away(drawn, monkeypatch):
    monkeypatch.setattr("landmark_siamese.STEPS", 20)  # what a network learns is not asked here
    found = tables(drawn)
    first = found["after 1"]
    gain, shuffled = first["gain of joint over portfolio"], first["gain with shuffled distances"]
    assert gain["mean"] > 2 * gain["se"] > 0
    assert shuffled["mean"] < gain["mean"] / 2
    assert 0.4 < first["share of the true distance's gain"] < 1.5
    lost_by = {name: each["mean"] for name, each in first["points lost"].items()}
    assert lost_by["try all"] <= lost_by["joint"] < lost_by["random"]
    assert lost_by["nearest"] < lost_by["nearest, noise"]


@pytest.mark.slow
def test_the_best_reachable_error_is_told_by_a_landmark_that_tells_it(drawn):
    found = best_error(drawn)
    assert found["rmse"] < found["rmse_blind"] / 2
    assert 0.6 <= found["coverage_80"] <= 1


def test_log_evidence_is_that_of_the_best_priors():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
    X[:, 0] += labels

    def evidence(log_a, log_b, y):
        return multivariate_normal(np.zeros(30), np.eye(30) / np.exp(log_b) + X @ X.T / np.exp(log_a)).logpdf(y) / 30

    targets = np.eye(3)[labels].T
    best = [minimize(lambda p, y=y: -evidence(*p, y), [1.0, 1.0], method="Nelder-Mead", tol=1e-10).fun for y in targets]
    assert logme(X, labels, n_classes=5) == pytest.approx(-np.mean(best), abs=1e-6)


def test_features_that_explain_every_label_have_an_evidence_too():
    labels = np.arange(20) % 2
    assert logme(labels[:, None], labels, n_classes=2) > logme(
        np.random.default_rng(0).normal(size=(20, 3)), labels, n_classes=2
    )
    assert np.isfinite(logme(np.random.default_rng(0).normal(size=(20, 60)), labels, n_classes=2))
