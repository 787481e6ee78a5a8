"""Target distance and CCoV: invariants, hand values, and the traps of both."""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from warmstart.history_store.error_tables import (
    UndefinedCCoVWarning,
    ccov,
    fill_failed,
    min_max_normalised,
    target_distance,
    unit_ranks,
)
from warmstart.history_store.errors import DataError, UsageError


@pytest.fixture
def table() -> np.ndarray:
    return np.random.default_rng(3).random((7, 20))


class TestTargetDistance:
    def test_equals_scipy_city_block(self, table):
        reference = squareform(pdist(table, "cityblock"))
        np.testing.assert_allclose(target_distance(table, "l1"), reference, atol=1e-12)
        np.testing.assert_allclose(target_distance(table, "mean_l1"), reference / 20, atol=1e-12)
        np.testing.assert_allclose(target_distance(table, "sqrt_l1"), np.sqrt(reference), atol=1e-12)

    def test_pairwise_complete_equals_a_double_loop(self):
        rng = np.random.default_rng(1)
        errors = np.where(rng.random((6, 40)) < 0.2, np.nan, rng.random((6, 40)))
        d = target_distance(errors)
        for i, j in itertools.product(range(6), repeat=2):
            assert d[i, j] == pytest.approx(np.nanmean(np.abs(errors[i] - errors[j])))

    def test_normalised_and_rank_by_hand(self):
        errors = [[0.1, 0.2, 0.5], [0.9, 0.5, 0.7], [0.3, 0.3, 0.3], [0.2, 0.2, 0.4]]
        d = target_distance(errors, "normalised")
        assert d[0, 1] == pytest.approx((1 + 0.25 + 0.5) / 3)
        assert d[0, 2] == pytest.approx((0 + 0.25 + 1) / 3), "constant errors are 0 everywhere"
        r = target_distance(errors, "rank")
        assert r[0, 1] == pytest.approx((1 + 0.5 + 0.5) / 3)
        assert r[0, 3] == pytest.approx((0.25 + 0.25 + 0) / 3), "ties share their mean rank"
        np.testing.assert_allclose(target_distance(errors, "sqrt_normalised"), np.sqrt(d))

    def test_half_in_common_is_enough_and_less_is_refused_by_name(self):
        nan = np.nan
        errors = np.array([[0.1, 0.2, 0.3, nan], [nan, 0.2, 0.3, 0.4], [0.5, 0.5, 0.5, 0.5]])
        assert np.isfinite(target_distance(errors)).all()
        errors[0, 2] = nan
        with pytest.raises(DataError, match=r"dataset rows 0 and 1: expected at least half of the 4 .* got 1\."):
            target_distance(errors)
        with pytest.raises(DataError, match="'digits' and 'moths'"):
            target_distance(errors, names=["digits", "moths", "cells"])

    @pytest.mark.parametrize(
        ("errors", "kind", "error", "message"),
        [
            ([[0.1]], "l2", UsageError, "expected kind"),
            ([0.1, 0.2], "l1", UsageError, r"got shape \(2,\)"),
            ([[0.1, np.inf]], "l1", DataError, "infinite"),
            (np.empty((2, 0)), "l1", DataError, "at least one configuration"),
        ],
    )
    def test_refusals(self, errors, kind, error, message):
        with pytest.raises(error, match=message):
            target_distance(errors, kind)


class TestScaledRows:
    def test_min_max_by_hand(self):
        nan = np.nan
        table = [[0.2, nan, 0.4, 0.3], [0.5, 0.5, nan, 0.5], [nan, nan, nan, nan]]
        np.testing.assert_allclose(min_max_normalised(table), [[0, nan, 1, 0.5], [0, 0, nan, 0], [nan] * 4])

    def test_ranks_by_hand(self):
        nan = np.nan
        table = [[0.2, nan, 0.4, 0.2], [0.5, 0.5, nan, 0.5], [nan, 0.1, nan, nan]]
        np.testing.assert_allclose(
            unit_ranks(table), [[0.25, nan, 1, 0.25], [0.5, 0.5, nan, 0.5], [nan, 0.5, nan, nan]]
        )


class TestFillFailed:
    def test_only_failures_without_an_error_become_one(self):
        filled = fill_failed([[0.2, np.nan, np.nan]], [[True, True, False]])
        np.testing.assert_array_equal(filled, [[0.2, 1.0, np.nan]])

    def test_shapes_must_agree(self):
        with pytest.raises(UsageError, match=r"mask of shape \(1, 2\), got \(2,\)"):
            fill_failed([[0.1, 0.2]], [True, False])


class TestCentreOfErrors:
    def test_hand_value(self):
        # θ̃ = 0, 0.5, 1 with errors 1, 1, 2: centre (0 + 0.5 + 2) / 4
        assert ccov([[10.0], [20.0], [30.0]], [[1.0, 1.0, 2.0]])[0, 0] == pytest.approx(0.625)

    def test_missing_cells_and_inactive_values_are_left_out_pairwise(self):
        configs = np.array([[0.0, 0.0], [0.5, np.nan], [1.0, 1.0], [0.25, 0.5]])
        errors = np.array([[0.2, 0.4, np.nan, 0.1], [0.1, 0.2, 0.3, 0.4]])
        centre = ccov(configs, errors)
        assert centre[0, 0] == pytest.approx((0.5 * 0.4 + 0.25 * 0.1) / 0.7)
        assert centre[0, 1] == pytest.approx(0.5 * 0.1 / 0.3)
        assert centre[1, 1] == pytest.approx((0.3 + 0.5 * 0.4) / 0.8)

    def test_constant_hyperparameter_is_nan_with_a_warning(self):
        with pytest.warns(UndefinedCCoVWarning, match=r"columns \[1\]"):
            centre = ccov([[0.0, 3.0], [1.0, 3.0]], [[0.1, 0.3]])
        assert centre[0, 0] == pytest.approx(0.75)
        assert np.isnan(centre[0, 1])

    def test_errors_that_sum_to_zero_are_nan_with_a_warning(self):
        with pytest.warns(UndefinedCCoVWarning, match=r"rows \[1\]"):
            centre = ccov([[0.0], [1.0]], [[0.1, 0.3], [0.0, 0.0]])
        assert np.isfinite(centre[0, 0])
        assert np.isnan(centre[1, 0])

    def test_refusals(self):
        with pytest.raises(UsageError, match="one row a column"):
            ccov([[0.0], [1.0]], [[0.1, 0.2, 0.3]])
        with pytest.raises(DataError, match=r"expected errors of 0 or more, got -0\.2"):
            ccov([[0.0], [1.0]], [[0.1, -0.2]])


def test_a_pair_that_shares_too_little_is_unknown_where_that_is_wanted():
    errors = [[0.1, 0.2, np.nan, np.nan], [np.nan, np.nan, 0.3, 0.4], [0.2, 0.2, 0.2, 0.2]]
    distances = target_distance(errors, partial=True)
    np.testing.assert_array_equal(
        np.isnan(distances), [[False, True, False], [True, False, False], [False, False, False]]
    )
    assert distances[0, 2] == pytest.approx(0.05)
    with pytest.raises(DataError, match="at least half of the 4 configurations"):
        target_distance(errors)
