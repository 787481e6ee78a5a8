"""Joint choice: weights by hand, the definition written out, its two limits."""

import numpy as np

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.strategies import Choice, Query
from warmstart.bo.transfer.strategies.joint import expected_regrets, joint, nearness_weights
from warmstart.history_store.error_tables import min_max_normalised


def test_weights_fall_with_the_rank():
    weights = nearness_weights(np.array([5.0, 0.1, 7.0]), ((3.0, 1.0),))
    np.testing.assert_allclose(weights, np.array([1 / 4, 1 / 3, 1 / 5]) / (1 / 3 + 1 / 4 + 1 / 5))


def test_reaches_are_averaged_by_their_shares():
    distances = np.array([3.0, 1.0, 2.0])
    near, far = nearness_weights(distances, ((1.0, 1.0),)), nearness_weights(distances, ((np.inf, 5.0),))
    np.testing.assert_allclose(far, [1 / 3] * 3)
    np.testing.assert_allclose(nearness_weights(distances, ((1.0, 0.25), (np.inf, 0.75))), 0.25 * near + 0.75 * far)


def test_each_choice_lowers_the_weighted_best_regret_most():
    rng = np.random.default_rng(0)
    errors, distances = rng.random((12, 18)), rng.random(12)
    weights = 1 / (np.argsort(np.argsort(distances)) + 3)
    regrets, chosen = min_max_normalised(errors), []
    for _ in range(4):
        scores = {row: weights @ regrets[:, [*chosen, row]].min(axis=1) for row in set(range(18)).difference(chosen)}
        chosen.append(min(scores, key=scores.__getitem__))
    assert initial_designs(errors, distances, 4) == chosen


def test_a_perfect_metric_that_is_trusted_gives_the_nearest_datasets_best():
    errors = np.random.default_rng(1).random((10, 30))
    query = Query(errors, np.arange(10.0), 1, reach=((1e-9, 1.0),))
    assert joint(query) == [Choice(int(errors[0].argmin()), 0, 0.0, float(errors[0].min()))]


def test_expected_regrets_by_hand():
    errors, distances = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5]]), np.array([1.0, 2.0])
    near, far = (1 / 3) / (1 / 3 + 1 / 4), (1 / 4) / (1 / 3 + 1 / 4)
    np.testing.assert_allclose(
        expected_regrets(Query(errors, distances, 3), [2, 0, 1]), [0.5, 0.5 * far, 0.0], atol=1e-12
    )
    np.testing.assert_allclose(expected_regrets(Query(errors, None, 3), [0, 1]), [0.5, 0.0])
    assert near > far
