"""Target distance and CCoV: invariants, hand values, and the traps of both."""

import itertools
import warnings
from typing import get_args

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata

from warmstart.history_store.error_tables import (
    TargetKind,
    UndefinedCCoVWarning,
    ccov,
    fill_failed,
    min_max_normalised,
    target_distance,
    unit_ranks,
)
from warmstart.history_store.errors import DataError, UsageError

KINDS = get_args(TargetKind)

UNIT_SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


@pytest.fixture
def table() -> np.ndarray:
    return np.random.default_rng(3).random((7, 20))


class TestTargetDistance:
    def test_equals_scipy_city_block(self, table):
        reference = squareform(pdist(table, "cityblock"))
        np.testing.assert_allclose(target_distance(table, "l1"), reference, atol=1e-12)
        np.testing.assert_allclose(target_distance(table, "mean_l1"), reference / 20, atol=1e-12)
        np.testing.assert_allclose(target_distance(table, "sqrt_l1"), np.sqrt(reference), atol=1e-12)

    def test_default_is_the_mean(self, table):
        np.testing.assert_array_equal(target_distance(table), target_distance(table, "mean_l1"))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("seed", range(5))
    def test_is_a_metric_on_complete_data(self, kind, seed):
        errors = np.random.default_rng(seed).random((8, 12))
        d = target_distance(errors, kind)
        np.testing.assert_array_equal(d, d.T)
        np.testing.assert_array_equal(np.diag(d), 0.0)
        assert np.all(d[:, None, :] <= d[:, :, None] + d[None, :, :] + 1e-12)
        assert d.max() <= {"l1": 12, "sqrt_l1": np.sqrt(12)}.get(kind, 1)

    def test_largest_distance_is_n(self):
        assert target_distance([[0.0] * 9, [1.0] * 9], "l1")[0, 1] == 9.0

    def test_permuting_configurations_together_changes_nothing(self, table):
        order = np.random.default_rng(0).permutation(20)
        np.testing.assert_allclose(target_distance(table[:, order]), target_distance(table), atol=1e-15)

    def test_kinds_agree_on_the_order_of_neighbours(self, table):
        orders = [np.argsort(target_distance(table, kind), axis=1) for kind in ("l1", "mean_l1", "sqrt_l1")]
        np.testing.assert_array_equal(orders[0], orders[1])
        np.testing.assert_array_equal(orders[0], orders[2])

    def test_missing_cells_are_left_out_pairwise(self):
        nan = np.nan
        errors = [[0.1, 0.2, nan, 0.4], [0.2, nan, 0.3, 0.8], [0.0, 0.0, 0.0, 0.0]]
        d = target_distance(errors, "l1")
        assert d[0, 1] == pytest.approx((0.1 + 0.4) / 2 * 4)  # both have configurations 0 and 3
        assert d[0, 2] == pytest.approx((0.1 + 0.2 + 0.4) / 3 * 4)
        assert d[1, 2] == pytest.approx((0.2 + 0.3 + 0.8) / 3 * 4)

    def test_pairwise_complete_equals_a_double_loop(self):
        rng = np.random.default_rng(1)
        errors = np.where(rng.random((6, 40)) < 0.2, np.nan, rng.random((6, 40)))
        d = target_distance(errors)
        for i, j in itertools.product(range(6), repeat=2):
            assert d[i, j] == pytest.approx(np.nanmean(np.abs(errors[i] - errors[j])))

    @pytest.mark.parametrize("kind", ["normalised", "rank"])
    def test_scaling_uses_every_known_cell_of_a_dataset_whoever_it_is_compared_with(self, kind):
        rng = np.random.default_rng(1)
        errors = np.where(rng.random((6, 40)) < 0.2, np.nan, rng.random((6, 40)))
        alone = np.full_like(errors, np.nan)
        for row, row_errors in zip(alone, errors, strict=True):
            is_known = np.isfinite(row_errors)
            low, high = row_errors[is_known].min(), row_errors[is_known].max()
            row[is_known] = (
                (row_errors[is_known] - low) / (high - low)
                if kind == "normalised"
                else (rankdata(row_errors[is_known]) - 1) / (is_known.sum() - 1)
            )
        d = target_distance(errors, kind)
        for i, j in itertools.product(range(6), repeat=2):
            assert d[i, j] == pytest.approx(np.nanmean(np.abs(alone[i] - alone[j])))

    def test_normalised_and_rank_by_hand(self):
        errors = [[0.1, 0.2, 0.5], [0.9, 0.5, 0.7], [0.3, 0.3, 0.3], [0.2, 0.2, 0.4]]
        d = target_distance(errors, "normalised")
        assert d[0, 1] == pytest.approx((1 + 0.25 + 0.5) / 3)
        assert d[0, 2] == pytest.approx((0 + 0.25 + 1) / 3), "constant errors are 0 everywhere"
        r = target_distance(errors, "rank")
        assert r[0, 1] == pytest.approx((1 + 0.5 + 0.5) / 3)
        assert r[0, 3] == pytest.approx((0.25 + 0.25 + 0) / 3), "ties share their mean rank"
        np.testing.assert_allclose(target_distance(errors, "sqrt_normalised"), np.sqrt(d))

    @pytest.mark.parametrize("kind", ["normalised", "sqrt_normalised", "rank"])
    def test_an_affine_map_of_one_datasets_errors_changes_nothing(self, table, kind):
        table[1, 3] = np.nan
        mapped = table.copy()
        mapped[2] = 0.1 + 0.03 * table[2]
        np.testing.assert_allclose(target_distance(mapped, kind), target_distance(table, kind), atol=1e-12)
        assert not np.allclose(target_distance(mapped), target_distance(table))

    def test_rank_sees_the_order_of_the_errors_alone(self, table):
        table[0, :5] = table[0, 0]
        mapped = table.copy()
        mapped[0] = np.exp(3 * table[0])
        np.testing.assert_array_equal(target_distance(mapped, "rank"), target_distance(table, "rank"))
        assert not np.allclose(target_distance(mapped, "normalised"), target_distance(table, "normalised"))

    def test_opposite_orders_are_as_far_apart_as_ranks_can_be(self):
        n = 11
        errors = np.stack((np.arange(n), np.arange(n)[::-1])) / n
        assert target_distance(errors, "rank")[0, 1] == pytest.approx((n**2 - 1) / 2 / (n * (n - 1)))

    def test_half_in_common_is_enough_and_less_is_refused_by_name(self):
        nan = np.nan
        errors = np.array([[0.1, 0.2, 0.3, nan], [nan, 0.2, 0.3, 0.4], [0.5, 0.5, 0.5, 0.5]])
        assert np.isfinite(target_distance(errors)).all()
        errors[0, 2] = nan
        with pytest.raises(DataError, match=r"dataset rows 0 and 1: expected at least half of the 4 .* got 1\."):
            target_distance(errors)
        with pytest.raises(DataError, match="'digits' and 'moths'"):
            target_distance(errors, names=["digits", "moths", "cells"])

    def test_one_dataset_is_at_distance_zero(self):
        np.testing.assert_array_equal(target_distance([[0.5, 0.4]]), [[0.0]])

    @pytest.mark.parametrize("kind", KINDS)
    def test_input_is_not_changed(self, table, kind):
        before = table.copy()
        target_distance(table, kind)
        np.testing.assert_array_equal(table, before)

    @pytest.mark.parametrize(("kind", "floor", "tolerance"), [("l1", 0.239, 1e-3), ("sqrt_l1", 0.0, 1e-4)])
    def test_only_the_root_embeds_the_unit_square(self, kind, floor, tolerance):
        """The corners as four datasets with two configurations: no Euclidean map keeps their L1 distances."""
        pairs = np.triu_indices(4, k=1)
        distances = target_distance(UNIT_SQUARE, kind)[pairs]

        def residual(flat):
            return pdist(flat.reshape(4, 3)) - distances

        rng = np.random.default_rng(0)
        fits = [least_squares(residual, rng.normal(size=12), xtol=1e-12, ftol=1e-12) for _ in range(8)]
        rms = min(float(np.sqrt(np.mean(fit.fun**2))) for fit in fits)
        assert rms == pytest.approx(floor, abs=tolerance)

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

    def test_ranks_equal_scipy(self, table):
        np.testing.assert_allclose(unit_ranks(table.round(1)), (rankdata(table.round(1), axis=1) - 1) / 19)

    @pytest.mark.parametrize("scale", [min_max_normalised, unit_ranks])
    def test_both_stay_in_the_unit_interval_and_do_not_turn_the_order_round(self, table, scale):
        result = scale(table)
        assert (result.min(), result.max()) == (0, 1)
        np.testing.assert_array_equal(np.argsort(result, axis=1), np.argsort(table, axis=1))


class TestFillFailed:
    def test_only_failures_without_an_error_become_one(self):
        filled = fill_failed([[0.2, np.nan, np.nan]], [[True, True, False]])
        np.testing.assert_array_equal(filled, [[0.2, 1.0, np.nan]])

    def test_failures_move_datasets_apart(self):
        errors = [[0.2, np.nan, 0.3, 0.1], [0.2, 0.4, 0.3, 0.1]]
        assert target_distance(errors)[0, 1] == 0.0
        assert target_distance(fill_failed(errors, np.isnan(errors)))[0, 1] == pytest.approx(0.6 / 4)

    def test_shapes_must_agree(self):
        with pytest.raises(UsageError, match=r"mask of shape \(1, 2\), got \(2,\)"):
            fill_failed([[0.1, 0.2]], [True, False])


class TestCentreOfErrors:
    def test_hand_value(self):
        # θ̃ = 0, 0.5, 1 with errors 1, 1, 2: centre (0 + 0.5 + 2) / 4
        assert ccov([[10.0], [20.0], [30.0]], [[1.0, 1.0, 2.0]])[0, 0] == pytest.approx(0.625)

    def test_uniform_errors_give_the_middle_on_a_full_factorial(self):
        grid = np.array(list(itertools.product([0, 1, 2], [-1.0, 0.0, 1.0, 2.0])))
        np.testing.assert_allclose(ccov(grid, np.full((2, 12), 0.3)) - 0.5, 0.0, atol=1e-15)

    def test_uniform_errors_give_the_design_mean_on_a_random_sample(self):
        configs = np.random.default_rng(5).random((15, 3)) ** 2
        scaled = (configs - configs.min(0)) / (configs.max(0) - configs.min(0))
        centre = ccov(configs, np.full((1, 15), 0.4))
        np.testing.assert_allclose(centre[0], scaled.mean(axis=0))
        assert np.all(np.abs(centre - 0.5) > 0.01)

    def test_scale_of_errors_and_of_hyperparameters_changes_nothing(self, table):
        configs = np.random.default_rng(2).normal(size=(20, 4))
        reference = ccov(configs, table)
        np.testing.assert_allclose(ccov(configs, 1e-8 * table), reference)
        np.testing.assert_allclose(ccov(100 * configs - 7, table), reference)
        assert reference.min() >= 0.0
        assert reference.max() <= 1.0

    def test_turning_a_hyperparameter_round_turns_its_centre_round(self, table):
        configs = np.random.default_rng(2).random((20, 4))
        np.testing.assert_allclose(ccov(1 - configs, table), 1 - ccov(configs, table))
        np.testing.assert_allclose(ccov(-configs, table) - 0.5, 0.5 - ccov(configs, table), atol=1e-15)

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

    def test_a_hyperparameter_that_is_never_active_is_nan(self):
        with pytest.warns(UndefinedCCoVWarning):
            assert np.isnan(ccov([[np.nan], [np.nan]], [[0.1, 0.3]])).all()

    def test_defined_centres_warn_of_nothing(self, table):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ccov(np.random.default_rng(2).random((20, 2)), table)

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
