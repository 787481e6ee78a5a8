"""Is a new dataset like those of the history: in distance, in pixels, in what pictures say of classes?"""

import numpy as np
import pytest
from scipy.stats import norm

from warmstart.bo.transfer.novelty import (
    CHANCE_SCORE,
    SILENT_SHARE,
    TYPICAL_PERCENTILE,
    WHITE,
    judge_novelty,
    signal_limit,
    white_limit,
)
from warmstart.history_store.errors import DataError

NAN = np.nan


class TestJudgeNovelty:
    REFERENCE = np.arange(1.0, 22.0)  # 21 values: the p-th percentile is 1 + p / 5

    @pytest.mark.parametrize(
        ("nearest", "percentile", "typical"),
        [
            (0.0, 0.0, True),
            (11.0, 50.0, True),
            (20.5, 97.5, True),
            (20.8, 99.0, False),
            (99.0, 100.0, False),
        ],
    )
    def test_percentiles_and_verdict(self, nearest, percentile, typical):
        verdict = judge_novelty(nearest, self.REFERENCE)
        assert verdict.percentile == pytest.approx(percentile)
        assert (verdict.nearest <= verdict.limit) is typical
        assert verdict.limit == pytest.approx(20.6)
        assert verdict.nearest == nearest

    def test_verdict_and_percentile_agree_with_ties_too(self):
        rng = np.random.default_rng(1)
        reference = rng.integers(4, size=rng.integers(1, 30)).astype(float)
        for nearest in [*np.linspace(0, 5, 51), *reference]:
            verdict = judge_novelty(float(nearest), reference)
            assert (verdict.nearest <= verdict.limit) == (verdict.percentile <= TYPICAL_PERCENTILE)

    def test_nothing_to_compare_with_has_no_rank(self):
        verdict = judge_novelty(0.5, [NAN, NAN])
        assert verdict.percentile is None
        assert verdict.limit is None

    @pytest.mark.parametrize("nearest", [NAN, -0.1])
    def test_a_distance_that_is_none(self, nearest):
        with pytest.raises(DataError, match=f"expected a distance of 0 or more, got {nearest}"):
            judge_novelty(nearest, [1.0])


class TestSignalLimit:
    def test_many_pictures_have_the_limit_of_chance(self):
        assert signal_limit(1000.0, [0.5, 1.0]) == CHANCE_SCORE
        assert signal_limit(1000.0, []) == CHANCE_SCORE

    @pytest.mark.parametrize("weight", [1.0, 12.0])
    def test_so_many_datasets_score_less(self, weight):
        effects = np.random.default_rng(0).gamma(1.0, 0.7, 50)
        limit = signal_limit(weight, effects)
        assert limit <= CHANCE_SCORE
        assert norm.cdf(limit - weight * effects).mean() <= SILENT_SHARE + 1e-6
        if limit < CHANCE_SCORE:
            assert norm.cdf(limit - weight * effects).mean() == pytest.approx(SILENT_SHARE, abs=1e-6)

    def test_without_weight_only_what_is_below_chance_is_doubted(self):
        assert signal_limit(0.0, [1.0]) == pytest.approx(norm.ppf(SILENT_SHARE), abs=1e-6)


def test_the_limit_of_white_spectra():
    assert white_limit([[1.0, 0.5], [0.4, 2.0]]) == pytest.approx(0.9 * 0.4)
    assert white_limit([]) == WHITE
