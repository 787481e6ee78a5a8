"""Regret curves and clustered intervals."""

import itertools

import numpy as np
import pytest
from scipy import stats

from warmstart.bo.transfer.regret import clustered_interval, expected_evaluations, random_curve, regret_curve
from warmstart.history_store.errors import DataError, UsageError

NAN = np.nan


class TestRegretCurve:
    def test_hand_values(self):
        np.testing.assert_allclose(regret_curve([0.2, 0.4, 0.6, 0.3], [2, 1, 1, 3, 0]), [1.0, 0.5, 0.5, 0.25, 0.0])

    def test_a_missing_cell_counts_as_the_worst(self):
        np.testing.assert_allclose(regret_curve([NAN, 0.2, 0.6, 0.4], [0, 3, 0, 1]), [1.0, 0.5, 0.5, 0.0])

    def test_constant_errors_leave_no_regret(self):
        np.testing.assert_array_equal(regret_curve([0.3, 0.3, NAN], [0, 1, 2]), [0.0, 0.0, 0.0])

    def test_refusals(self):
        with pytest.raises(UsageError, match="one dataset"):
            regret_curve([[0.1, 0.2]], [0])
        with pytest.raises(UsageError, match=r"rows in 0\.\.1, got 0\.\.2"):
            regret_curve([0.1, 0.2], [0, 2])
        with pytest.raises(UsageError, match=r"got -1\.\.-1"):
            regret_curve([0.1, 0.2], [-1])
        with pytest.raises(DataError, match="at least one known error"):
            regret_curve([NAN, NAN], [0])


class TestRandomCurve:
    def test_equals_all_permutations(self):
        errors = [0.2, 0.9, 0.4, NAN, 0.4]
        curves = [regret_curve(errors, order) for order in itertools.permutations(range(5))]
        np.testing.assert_allclose(random_curve(errors, 5), np.mean(curves, axis=0), atol=1e-12)

    @pytest.mark.parametrize("t", [0, 4])
    def test_refuses_impossible_lengths(self, t):
        with pytest.raises(UsageError, match=rf"in 1\.\.3, got t={t}"):
            random_curve([0.1, 0.2, 0.3], t)


class TestExpectedEvaluations:
    def test_is_the_mean_over_all_orders(self):
        errors = [0.0, 0.04, 0.5, 1.0, 0.9]
        regrets = np.array(errors)
        for t in (1, 2, 3, 5):
            firsts = [
                next((s for s, row in enumerate(order[:t], 1) if regrets[row] <= 0.05), t + 1)
                for order in itertools.permutations(range(5))
            ]
            assert expected_evaluations(errors, t, goal=0.05) == pytest.approx(np.mean(firsts))

    def test_a_constant_dataset_is_reached_at_once(self):
        assert expected_evaluations([0.3, 0.3, np.nan], 2, goal=0.05) == 1.0

    def test_more_draws_than_configurations_are_refused(self):
        with pytest.raises(UsageError, match=r"draws in 1\.\.3, got t=4"):
            expected_evaluations([0.1, 0.2, 0.3], 4, goal=0.05)


class TestClusteredInterval:
    def test_without_siblings_is_scipys_t_interval(self):
        level = 0.9
        values = np.random.default_rng(0).normal(size=12)
        found, plain = clustered_interval(values, groups=range(12), level=level), stats.ttest_1samp(values, 0.0)
        assert (found.low, found.high) == pytest.approx(tuple(plain.confidence_interval(level)))
        assert (found.mean, found.standard_error) == pytest.approx((values.mean(), stats.sem(values)))
        assert (found.n, found.level) == (12, level)

    def test_every_dataset_weighs_alike_in_the_mean(self):
        assert clustered_interval([0.0, 0.0, 3.0], groups=["a", "a", "b"]).mean == 1.0

    def test_what_is_not_defined_is_left_out(self):
        found = clustered_interval([1.0, np.nan, 3.0], groups=["a", "b", "c"])
        assert (found.mean, found.n) == (2.0, 2)
        assert np.isnan(clustered_interval([np.nan], groups=["a"]).mean)
        alone = clustered_interval([1.0, 2.0], groups=["a", "a"])
        assert alone.mean == 1.5
        assert np.isnan([alone.low, alone.high, alone.standard_error]).all()

    def test_lengths_must_fit(self):
        with pytest.raises(UsageError, match=r"one value a dataset \(2\), got shape \(3,\)"):
            clustered_interval([1.0, 2.0, 3.0], groups=["a", "b"])
