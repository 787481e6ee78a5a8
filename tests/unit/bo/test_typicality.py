"""Is a new dataset as near to the history as the history's own datasets are to each other?"""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bo.typicality import TYPICAL_PERCENTILE, judge_typicality, nearest_other_group
from history_store.errors import DataError, UsageError

NAN = np.nan


class TestNearestOtherGroup:
    def test_siblings_are_passed_over(self):
        distances = [[0.0, 0.1, 0.5, 0.9], [0.1, 0.0, 0.4, 0.8], [0.5, 0.4, 0.0, 0.2], [0.9, 0.8, 0.2, 0.0]]
        np.testing.assert_array_equal(nearest_other_group(distances, ["a", "a", "b", "c"]), [0.5, 0.4, 0.2, 0.2])

    def test_equals_a_plain_loop(self):
        rng = np.random.default_rng(0)
        points, groups = rng.normal(size=(20, 5)), rng.integers(6, size=20).tolist()
        distances = cdist(points, points)
        expected = [min(distances[i, j] for j in range(20) if groups[j] != groups[i]) for i in range(20)]
        np.testing.assert_array_equal(nearest_other_group(distances, groups), expected)

    def test_one_group_has_no_other(self):
        np.testing.assert_array_equal(nearest_other_group(np.zeros((2, 2)), ["a", "a"]), [NAN, NAN])
        assert nearest_other_group(np.empty((0, 0)), []).shape == (0,)

    def test_refusals(self):
        with pytest.raises(UsageError, match=r"for 3 groups, got shape \(2, 2\)"):
            nearest_other_group(np.zeros((2, 2)), ["a", "b", "c"])
        for bad in (NAN, np.inf, -1.0):
            with pytest.raises(DataError, match="finite distances"):
                nearest_other_group([[0.0, bad], [bad, 0.0]], ["a", "b"])


class TestJudgeTypicality:
    REFERENCE = np.arange(1.0, 22.0)  # 21 values: the p-th percentile is 1 + p / 5

    @pytest.mark.parametrize(
        ("nearest", "percentile", "typical"),
        [
            (0.0, 0.0, True),
            (1.0, 0.0, True),
            (11.0, 50.0, True),
            (19.5, 92.5, True),
            (20.0, 95.0, True),
            (20.5, 97.5, False),
        ],
    )
    def test_percentiles_and_verdict(self, nearest, percentile, typical):
        verdict = judge_typicality(nearest, self.REFERENCE)
        assert verdict.percentile == pytest.approx(percentile)
        assert verdict.is_typical is typical
        assert verdict.limit == pytest.approx(20.0)
        assert verdict.nearest == nearest

    def test_beyond_all_is_the_hundredth(self):
        assert judge_typicality(99.0, self.REFERENCE).percentile == 100.0

    def test_inverts_numpy_percentile(self):
        reference = np.random.default_rng(0).random(13)
        for percent in np.linspace(0, 100, 41):
            verdict = judge_typicality(float(np.percentile(reference, percent)), reference)
            assert verdict.percentile == pytest.approx(percent, abs=1e-6)

    @pytest.mark.parametrize("seed", range(5))
    def test_verdict_and_percentile_agree_with_ties_too(self, seed):
        rng = np.random.default_rng(seed)
        reference = rng.integers(4, size=rng.integers(1, 30)).astype(float)
        for nearest in [*np.linspace(0, 5, 51), *reference]:
            verdict = judge_typicality(float(nearest), reference)
            assert verdict.is_typical == (verdict.percentile <= TYPICAL_PERCENTILE)

    def test_values_are_plain(self):
        verdict = judge_typicality(np.float32(2.5), self.REFERENCE)
        assert [type(verdict.is_typical), type(verdict.percentile), type(verdict.nearest), type(verdict.limit)] == [
            bool,
            float,
            float,
            float,
        ]

    def test_gaps_in_the_reference_are_left_out(self):
        assert judge_typicality(1.5, [NAN, 1.0, 2.0]) == judge_typicality(1.5, [1.0, 2.0])

    @pytest.mark.parametrize("reference", [[], [NAN, NAN]])
    def test_nothing_to_compare_with_is_not_typical(self, reference):
        verdict = judge_typicality(0.5, reference)
        assert not verdict.is_typical
        assert verdict.percentile is None
        assert verdict.limit is None

    @pytest.mark.parametrize("nearest", [NAN, np.inf, -0.1])
    def test_a_distance_that_is_none(self, nearest):
        with pytest.raises(DataError, match=f"expected a distance of 0 or more, got {nearest}"):
            judge_typicality(nearest, [1.0])

    def test_most_left_out_groups_are_typical_and_other_halves_always(self):
        rng = np.random.default_rng(0)
        points = rng.normal(size=(40, 6))
        groups = np.repeat(np.arange(20), 2)
        typical = []
        for group in range(20):
            rest, held_out = groups != group, groups == group
            between = cdist(points[rest], points[rest])
            own = nearest_other_group(between, groups[rest].tolist())
            nearest = cdist(points[held_out], points[rest]).min(axis=1)
            typical += [judge_typicality(float(distance), own).is_typical for distance in nearest]
            half = points[rest][0] + 0.05 * rng.normal(size=6)
            assert judge_typicality(float(cdist([half], points[rest]).min()), own).is_typical
        assert np.mean(typical) >= 0.8
