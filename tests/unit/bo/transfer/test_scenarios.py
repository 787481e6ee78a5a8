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


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_rows_that_agree_but_for_level_and_spread_are_completed_exactly(share: float) -> None:
    errors = like_each_other(1)
    found = make_scenarios(hide(errors, share))
    np.testing.assert_allclose(found.errors, errors[found.dataset], atol=1e-6)


def test_what_is_known_stays_and_shares_sum_to_one() -> None:
    errors = hide(like_each_other(2, noise=0.3), 0.4)
    found = make_scenarios(errors)
    known = ~np.isnan(errors)
    np.testing.assert_array_equal(found.errors[known[found.dataset]], errors[found.dataset][known[found.dataset]])
    assert not np.isnan(found.errors).any()
    np.testing.assert_allclose(np.bincount(found.dataset, weights=found.share), 1.0)
    assert np.bincount(found.dataset).max() == MOST


def test_gaps_are_right_in_the_mean_and_as_uncertain_as_they_are() -> None:
    errors = like_each_other(3, m=60, noise=0.15)
    hidden = hide(errors, 0.3)
    found, gaps = make_scenarios(hidden), np.isnan(hidden)
    scale = np.ptp(errors, axis=1)[found.dataset, None]
    misses = ((found.errors - errors[found.dataset]) / scale)[gaps[found.dataset]]
    assert abs(misses.mean()) < 0.02
    wide = np.concatenate(
        [np.std(found.errors[found.dataset == row][:, gaps[row]], axis=0) / np.ptp(errors[row]) for row in range(60)]
    )
    own = 0.15 / np.mean(np.ptp(errors, axis=1) / 0.6)  # noise ÷ range, roughly
    assert 0.5 * own < wide.mean() < 2 * own
    means = ((found.expected_errors(60) - errors) / np.ptp(errors, axis=1)[:, None])[gaps]
    columns = ((np.nanmean(hidden, axis=0) - errors) / np.ptp(errors, axis=1)[:, None])[gaps]
    assert np.sqrt(np.mean(means**2)) < 0.5 * np.sqrt(np.mean(columns**2))


def test_the_first_scenario_comes_from_the_most_similar_row() -> None:
    rng = np.random.default_rng(4)
    kinds = rng.random((2, 30))
    errors = kinds[np.arange(12) % 2] + 0.001 * rng.standard_normal((12, 30))
    hidden = errors.copy()
    hidden[0, 20:] = NAN
    found = make_scenarios(hidden)
    np.testing.assert_allclose(found.errors[0], errors[0], atol=0.05)


def test_a_part_is_completed_by_its_whole() -> None:
    wholes = like_each_other(5, m=20, noise=0.5)
    truth = 0.2 + 0.5 * wholes[3]
    found = make_scenarios(np.vstack([wholes, np.where(np.arange(40) < 20, truth, NAN)]))
    own, first = found.dataset == 20, int(np.argmax(found.dataset == 20))
    assert found.share[first] == found.share[own].max() > 3 / own.sum()
    misses = np.abs(found.errors[own] - truth)[:, 20:].mean(axis=1)
    assert misses[0] < 0.5 * np.median(misses)


def test_a_gap_can_be_the_best_of_its_row() -> None:
    errors = like_each_other(6, noise=0.02)
    best = int(np.argmin(errors.mean(axis=0)))
    hidden = errors.copy()
    hidden[:10, best] = NAN
    found = make_scenarios(hidden)
    is_best = np.mean(found.errors[np.isnan(hidden[:, best])[found.dataset]].argmin(axis=1) == best)
    assert is_best > 0.8 * np.mean(errors.argmin(axis=1) == best)


def test_what_few_rows_measured_is_drawn_towards_the_middle() -> None:
    rng = np.random.default_rng(7)
    errors = rng.random((20, 30)) + 0.3 * rng.random(30)  # rows hardly agree
    lonely = errors.copy()
    lonely[1:, 0] = NAN
    lonely[:, 1] = errors[:, 1] - errors[:, 1].mean()  # as good, and seen by all
    lonely[0, 0] = lonely[:, 1].mean()
    expected = make_scenarios(lonely).expected_errors(20)
    assert lonely[:, 1].mean() + 0.05 < expected[1:, 0].mean() < np.nanmean(lonely)


@pytest.mark.parametrize("seed", range(4))
def test_follows_permutations_of_rows_and_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = hide(rng.random((9, 14)), 0.4, seed)
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
