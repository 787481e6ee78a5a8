"""Completed rows: exact where rows agree, right in the mean and as wide as the truth where they do not."""

import numpy as np
import pytest

from warmstart.bo.transfer.strategies.scenarios import MOST, make_scenarios

NAN = np.nan


def like_each_other(seed: int, m: int = 30, c: int = 40, noise: float = 0.0) -> np.ndarray:
    """Rows of one profile, each with a level, a spread and a noise of its own."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.1, 1.0, (m, 1))
    return rng.random((m, 1)) + spread * (rng.random(c) + noise * rng.standard_normal((m, c)))


def hide(errors: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(errors.shape) < share, NAN, errors)


def test_a_complete_table_is_its_own_only_scenario() -> None:
    errors = like_each_other(0, noise=0.3)
    found = make_scenarios(errors)
    np.testing.assert_array_equal(found.errors, errors)
    np.testing.assert_array_equal(found.dataset, np.arange(30))
    np.testing.assert_array_equal(found.share, 1.0)
    np.testing.assert_array_equal(found.expected_errors(30), errors)
    assert (found.regrets.min(axis=1) == 0).all()
    assert (found.regrets.max(axis=1) == 1).all()


def test_rows_that_agree_but_for_level_and_spread_are_completed_exactly() -> None:
    errors = like_each_other(1)
    found = make_scenarios(hide(errors, 0.6))
    np.testing.assert_allclose(found.errors, errors[found.dataset], atol=1e-6)


def test_what_is_known_stays_and_shares_sum_to_one() -> None:
    errors = hide(like_each_other(2, noise=0.3), 0.4)
    found = make_scenarios(errors)
    known = ~np.isnan(errors)
    np.testing.assert_array_equal(found.errors[known[found.dataset]], errors[found.dataset][known[found.dataset]])
    assert not np.isnan(found.errors).any()
    np.testing.assert_allclose(np.bincount(found.dataset, weights=found.share), 1.0)
    assert np.bincount(found.dataset).max() == MOST


def test_follows_permutations_of_rows_and_columns() -> None:
    rng = np.random.default_rng(0)
    errors = hide(rng.random((9, 14)), 0.4)
    rows, columns = rng.permutation(9), rng.permutation(14)
    straight = make_scenarios(errors).expected_errors(9)
    permuted = make_scenarios(errors[np.ix_(rows, columns)]).expected_errors(9)
    np.testing.assert_allclose(permuted, straight[np.ix_(rows, columns)], atol=1e-9)


def test_a_row_without_cells_has_no_scenario_and_an_unmeasured_column_stays_open() -> None:
    errors = np.array([[0.1, 0.5, NAN, 0.3], [NAN, NAN, NAN, NAN], [0.2, NAN, NAN, 0.4]])
    found = make_scenarios(errors)
    assert set(found.dataset.tolist()) == {0, 2}
    assert np.isnan(found.errors[:, 2]).all()
    assert not np.isnan(found.errors[:, [0, 1, 3]]).any()
    assert (found.regrets[:, 2] == 1.0).all()
    assert np.isnan(found.expected_errors(3)[1]).all()


@pytest.mark.parametrize(
    "errors",
    [
        [[0.5, 0.5, NAN], [0.5, NAN, 0.5]],
        [[0.1, NAN], [NAN, 0.2]],
        [[0.3, NAN, NAN, NAN], [0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.3, 0.6]],
        [[0.2, NAN, 0.1]],
    ],
)
def test_stands_constant_rows_single_cells_and_rows_that_share_nothing(errors: list[list[float]]) -> None:
    table = np.array(errors)
    with np.errstate(all="raise"):
        found = make_scenarios(table)
    measured = ~np.isnan(table).all(axis=0)
    assert np.isfinite(found.errors[:, measured]).all()
    assert np.isfinite(found.regrets).all()
