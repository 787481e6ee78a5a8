"""Held-out evaluation: nothing of the held-out group leaks, and each measure equals its plain definition."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from bo.designs import initial_designs
from bo.regret import paired_interval, regret_curve
from history_store.errors import DataError, UsageError
from history_store.response import target_distance
from training.evaluation import (
    held_out_distances,
    held_out_typical,
    leave_group_out,
    measure_quality,
    rank_correlations,
    regret_curves,
    shuffled_curves,
)

GROUPS = ["a", "b", "a", "c", "d", "e", "d", "f"]
M, C = len(GROUPS), 16


@pytest.fixture
def world():
    """Errors that follow a hidden trait of each dataset, and the traits."""
    rng = np.random.default_rng(0)
    traits, optima = rng.random((M, 2)), rng.random((C, 2))
    return np.clip(cdist(traits, optima) / 1.5 + rng.normal(0, 0.01, (M, C)), 0, 1), traits


class TestFolds:
    def test_hold_out_each_group_once(self):
        folds = leave_group_out(GROUPS)
        assert [fold.group for fold in folds] == ["a", "b", "c", "d", "e", "f"]
        np.testing.assert_array_equal(folds[0].queries, [0, 2])
        np.testing.assert_array_equal(folds[0].history, [1, 3, 4, 5, 6, 7])
        np.testing.assert_array_equal(np.sort(np.concatenate([fold.queries for fold in folds])), np.arange(M))

    def test_one_group_cannot_be_held_out(self):
        with pytest.raises(DataError, match=r"at least two groups, got \['a'\]"):
            leave_group_out(["a", "a"])


class TestHeldOutDistances:
    def test_each_row_comes_from_its_own_fold(self):
        rng = np.random.default_rng(0)
        models = {fold.group: rng.normal(size=(M, 4)) for fold in leave_group_out(GROUPS)}
        distances = held_out_distances(lambda fold: models[fold.group], GROUPS)
        for i in range(M):
            for j in range(M):
                vectors = models[GROUPS[i]]
                expected = np.nan if GROUPS[i] == GROUPS[j] else np.linalg.norm(vectors[i] - vectors[j])
                np.testing.assert_allclose(distances[i, j], expected)

    @pytest.mark.parametrize("vectors", [np.zeros((M - 1, 3)), np.zeros(M), np.full((M, 3), np.nan)])
    def test_refuses_what_is_no_embedding(self, vectors):
        with pytest.raises(DataError, match=f"fold 'a': expected {M} rows of finite numbers"):
            held_out_distances(lambda fold: vectors, GROUPS)


class TestHeldOutTypical:
    def test_a_stranger_is_not_typical_and_the_rest_is(self):
        rng = np.random.default_rng(0)
        vectors = rng.normal(size=(30, 5))
        vectors[7] += 50
        typical = held_out_typical(lambda fold: vectors, list(range(30)))
        assert not typical[7]
        assert typical.mean() >= 0.8

    def test_siblings_neither_answer_nor_set_the_measure(self):
        vectors = np.array([[0.0], [0.1], [10.0], [20.0], [30.0]])
        typical = held_out_typical(lambda fold: vectors, ["a", "a", "b", "c", "d"])
        np.testing.assert_array_equal(typical, [True, True, True, True, True])
        vectors = np.array([[-90.0], [-89.9], [10.0], [20.0], [30.0]])
        typical = held_out_typical(lambda fold: vectors, ["a", "a", "b", "c", "d"])
        np.testing.assert_array_equal(typical, [False, False, True, True, True])


class TestRankCorrelations:
    def test_equals_scipy_over_other_groups(self):
        rng = np.random.default_rng(0)
        distances, target = rng.random((M, M)), rng.random((M, M))
        found = rank_correlations(distances, target, GROUPS)
        others = [j for j in range(M) if GROUPS[j] != "d"]
        assert found[4] == pytest.approx(spearmanr(distances[4, others], target[4, others]).statistic)

    def test_is_one_for_any_growing_function(self, world):
        target = target_distance(world[0])
        np.testing.assert_allclose(rank_correlations(target**2 + 1, target, GROUPS), 1.0)
        np.testing.assert_allclose(rank_correlations(-target, target, GROUPS), -1.0)

    def test_is_undefined_for_equal_distances_or_too_few(self, world):
        target = target_distance(world[0])
        assert np.isnan(rank_correlations(np.ones((M, M)), target, GROUPS)).all()
        assert np.isnan(rank_correlations(target[:3, :3], target[:3, :3], ["a", "b", "c"])).all()


class TestRegretCurves:
    def test_asks_the_other_groups_only(self, world):
        errors, _ = world
        distances = target_distance(errors)
        curves = regret_curves(errors, GROUPS, 5, strategy="nearest", distances=distances)
        others = [1, 3, 4, 5, 6, 7]
        rows = initial_designs(errors[others], distances[0, others], 5, strategy="nearest")
        np.testing.assert_allclose(curves[0], regret_curve(errors[0], rows))

    def test_what_the_held_out_group_measured_changes_nothing_chosen(self, world):
        errors, _ = world
        changed = errors.copy()
        changed[2] = 1 - changed[2]  # the sibling of dataset 0
        before, after = (regret_curves(table, GROUPS, 5, strategy="portfolio") for table in (errors, changed))
        np.testing.assert_array_equal(before[0], after[0])

    def test_distances_within_a_group_may_be_nan(self, world):
        errors, traits = world
        distances = held_out_distances(lambda fold: traits, GROUPS)
        assert np.isfinite(regret_curves(errors, GROUPS, 3, strategy="nearest", distances=distances)).all()

    def test_missing_cells(self, world):
        errors = world[0].copy()
        errors[np.random.default_rng(0).random(errors.shape) < 0.3] = np.nan
        for strategy in ("portfolio", "average-rank"):
            curves = regret_curves(errors, GROUPS, C, strategy=strategy)
            np.testing.assert_allclose(curves[:, -1], 0.0)


class TestShuffledCurves:
    def test_a_useful_distance_loses_by_it(self, world):
        errors, traits = world
        distances = held_out_distances(lambda fold: traits, GROUPS)
        shuffled = shuffled_curves(errors, GROUPS, 3, distances=distances, rng=np.random.default_rng(0), repeats=30)
        straight = regret_curves(errors, GROUPS, 3, strategy="nearest", distances=distances)
        assert straight[:, 0].mean() < shuffled[:, 0].mean()

    def test_keeps_every_history_and_is_seeded(self, world):
        errors, traits = world
        distances = held_out_distances(lambda fold: traits, GROUPS)
        one, two = (
            shuffled_curves(errors, GROUPS, 2, distances=distances, rng=np.random.default_rng(4), repeats=3)
            for _ in range(2)
        )
        np.testing.assert_array_equal(one, two)

    def test_first_step_is_the_mean_over_the_others_bests(self, world):
        errors, traits = world
        distances = held_out_distances(lambda fold: traits, GROUPS)
        curves = shuffled_curves(errors, GROUPS, 1, distances=distances, rng=np.random.default_rng(0), repeats=600)
        for i in (0, 3):
            others = [j for j in range(M) if GROUPS[j] != GROUPS[i]]
            chance = np.mean([regret_curve(errors[i], [int(errors[j].argmin())])[0] for j in others])
            assert curves[i, 0] == pytest.approx(chance, abs=0.06)


class TestMeasureQuality:
    def test_gathers_all_of_it(self, world):
        errors, traits = world
        distances = held_out_distances(lambda fold: traits, GROUPS)
        quality = measure_quality(
            errors,
            target_distance(errors),
            GROUPS,
            distances=distances,
            rng=np.random.default_rng(0),
            times=(1, 3),
            repeats=5,
        )
        assert set(quality.regret) == {"nearest", "shuffled", "portfolio", "random"}
        assert all(values.shape == (M, 2) for values in quality.regret.values())
        assert np.nanmean(quality.spearman) > 0.6
        difference = quality.regret_difference("nearest", "random", 3)
        assert difference == paired_interval(
            quality.regret["nearest"][:, 1], quality.regret["random"][:, 1], groups=GROUPS
        )
        assert difference.n == len(set(GROUPS))
        assert difference.mean < 0
        assert quality.spearman_difference(np.zeros(M)).is_above_zero

    @pytest.mark.parametrize("times", [(), (0, 1), (1, C + 1)])
    def test_refuses_times_outside_the_table(self, world, times):
        errors, _ = world
        with pytest.raises(UsageError, match=rf"times in 1\.\.{C}"):
            measure_quality(
                errors,
                target_distance(errors),
                GROUPS,
                distances=target_distance(errors),
                rng=np.random.default_rng(0),
                times=times,
            )
