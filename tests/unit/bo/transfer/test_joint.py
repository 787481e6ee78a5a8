"""Joint choice: weights by hand, the definition written out, its two limits."""

import itertools

import numpy as np
import pytest

from warmstart.bo.transfer.designs import designs, initial_designs
from warmstart.bo.transfer.strategies import Choice, Query
from warmstart.bo.transfer.strategies.joint import expected_regrets, nearness_weights
from warmstart.history_store.error_tables import min_max_normalised

NAN = np.nan
ONLY_NEAREST = ((1e-9, 1.0),)


def test_weights_fall_with_the_rank():
    weights = nearness_weights(np.array([5.0, 0.1, 7.0]), ((3.0, 1.0),))
    np.testing.assert_allclose(weights, np.array([1 / 4, 1 / 3, 1 / 5]) / (1 / 3 + 1 / 4 + 1 / 5))


def test_equal_distances_share_their_mean_rank():
    weights = nearness_weights(np.array([1.0, 2.0, 2.0, 9.0]), ((1.0, 1.0),))
    np.testing.assert_allclose(weights / weights[0], [1, 1 / 2.5, 1 / 2.5, 1 / 4])


def test_reaches_are_averaged_by_their_shares():
    distances = np.array([3.0, 1.0, 2.0])
    near, far = nearness_weights(distances, ((1.0, 1.0),)), nearness_weights(distances, ((np.inf, 5.0),))
    np.testing.assert_allclose(far, [1 / 3] * 3)
    np.testing.assert_allclose(nearness_weights(distances, ((1.0, 0.25), (np.inf, 0.75))), 0.25 * near + 0.75 * far)


@pytest.mark.parametrize("seed", range(5))
def test_only_the_order_of_distances_counts(seed):
    rng = np.random.default_rng(seed)
    errors, distances = rng.random((15, 20)), rng.random(15)
    assert initial_designs(errors, distances, 5) == initial_designs(errors, np.exp(9 * distances), 5)


@pytest.mark.parametrize("seed", range(5))
def test_distances_that_are_all_equal_give_the_portfolio(seed):
    errors = np.random.default_rng(seed).random((15, 20))
    assert initial_designs(errors, np.full(15, 0.7), 8) == initial_designs(errors, k=8, strategy="portfolio")


@pytest.mark.parametrize("seed", range(5))
def test_each_choice_lowers_the_weighted_best_regret_most(seed):
    rng = np.random.default_rng(seed)
    errors, distances = rng.random((12, 18)), rng.random(12)
    weights = 1 / (np.argsort(np.argsort(distances)) + 3)
    regrets, chosen = min_max_normalised(errors), []
    for _ in range(4):
        scores = {row: weights @ regrets[:, [*chosen, row]].min(axis=1) for row in set(range(18)).difference(chosen)}
        chosen.append(min(scores, key=scores.__getitem__))
    assert initial_designs(errors, distances, 4) == chosen


def test_greedy_choice_is_near_the_best_pair():
    rng = np.random.default_rng(0)
    errors, distances = rng.random((12, 18)), rng.random(12)
    query = Query(errors, distances, 2)
    ours = expected_regrets(query, initial_designs(errors, distances, 2))[-1]
    best = min(expected_regrets(query, pair)[-1] for pair in itertools.combinations(range(18), 2))
    assert best <= ours <= best + (1 - best) / np.e  # the gain is submodular


def test_a_perfect_metric_that_is_trusted_gives_the_nearest_datasets_best():
    errors = np.random.default_rng(1).random((10, 30))
    choices = Query(errors, np.arange(10.0), 1, reach=ONLY_NEAREST)
    from warmstart.bo.transfer.strategies.joint import joint

    assert joint(choices) == [Choice(int(errors[0].argmin()), 0, 0.0, float(errors[0].min()))]


def test_a_choice_names_the_dataset_it_helps_most():
    errors = np.array([[0.1, 0.9, 0.9], [0.1, 0.9, 0.9], [0.9, 0.9, 0.2]])
    first, second = designs(errors, [1.0, 2.0, 3.0], 2, strategy="joint")
    assert first == Choice(0, 0, 1.0, 0.1)
    assert second == Choice(2, 2, 3.0, 0.2)


def test_no_dataset_is_named_that_did_not_measure_it():
    rng = np.random.default_rng(2)
    errors = np.where(rng.random((8, 12)) < 0.6, NAN, rng.random((8, 12)))
    for choice in designs(errors, rng.random(8), 12, strategy="joint"):
        assert choice.neighbour is None or not np.isnan(errors[choice.neighbour, choice.row])


def test_expected_regrets_by_hand():
    errors, distances = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5]]), np.array([1.0, 2.0])
    near, far = (1 / 3) / (1 / 3 + 1 / 4), (1 / 4) / (1 / 3 + 1 / 4)
    np.testing.assert_allclose(
        expected_regrets(Query(errors, distances, 3), [2, 0, 1]), [0.5, 0.5 * far, 0.0], atol=1e-12
    )
    np.testing.assert_allclose(expected_regrets(Query(errors, None, 3), [0, 1]), [0.5, 0.0])
    assert near > far
