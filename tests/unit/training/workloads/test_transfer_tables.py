"""The protocol's comparison, on tables where the answer is known."""

import numpy as np
import pytest
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
    return Table(names, names, tuple(map(str, range(c))), halves, marks)


def test_points_lost_are_those_of_the_pick_on_the_other_half():
    errors = np.array([[0.10, 0.12], [0.20, 0.05], [0.30, 0.30]])
    # Half 0 picks row 0 (0.12 there), the best on half 0 too; half 1 picks row 1 (0.20), the best on half 1 too.
    assert lost(errors, [0, 1, 2]) == 0
    assert lost(errors, [2]) == pytest.approx(100 * ((0.30 - 0.12) + (0.30 - 0.20)) / 2)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_similarity_is_worth_is_seen_and_shuffling_takes_it_away(drawn):
    found = tables(drawn)
    first = found["after 1"]
    gain, shuffled = first["gain of joint over portfolio"], first["gain with shuffled distances"]
    assert gain["mean"] > 2 * gain["se"] > 0
    assert shuffled["mean"] < gain["mean"] / 2
    assert 0.4 < first["share of the true distance's gain"] < 1.5
    assert first["points lost"]["random"]["mean"] > first["points lost"]["joint"]["mean"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_best_reachable_error_is_told_by_a_landmark_that_tells_it(drawn):
    found = best_error(drawn)
    assert found["rmse"] < found["rmse_blind"] / 2
    assert 0.6 <= found["coverage_80"] <= 1
