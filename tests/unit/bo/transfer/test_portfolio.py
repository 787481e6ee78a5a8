"""Greedy portfolio and average rank."""

import numpy as np
import pytest
from scipy.stats import rankdata

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.strategies.average_rank import average_rank_rows, scaled_ranks
from warmstart.bo.transfer.strategies.portfolio import portfolio_rows
from warmstart.history_store.errors import DataError, UsageError

NAN = np.nan


def greedy_reference(errors: np.ndarray, k: int) -> list[int]:
    """Complete tables, no ties: the definition, written out."""
    regrets = [(row - row.min()) / (row.max() - row.min()) for row in errors]
    chosen: list[int] = []
    for _ in range(k):
        scores = {
            s: np.mean([min(regret[t] for t in [*chosen, s]) for regret in regrets])
            for s in range(errors.shape[1])
            if s not in chosen
        }
        chosen.append(min(scores, key=scores.get))
    return chosen


def test_equals_the_definition():
    errors = np.random.default_rng(0).random((12, 30))
    assert portfolio_rows(errors, 4) == greedy_reference(errors, 4)


def test_when_all_bests_are_in_the_order_goes_on_by_mean_regret():
    assert portfolio_rows(np.array([[0.0, 0.9, 0.3, 0.6, 1.0]]), 5) == [0, 2, 3, 1, 4]


def test_weights_speak_for_some_datasets():
    errors = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5]])
    assert portfolio_rows(errors, 1, weights=[0.9, 0.1]) == [0]
    assert portfolio_rows(errors, 1, weights=[0.1, 0.9]) == [1]
    assert portfolio_rows(errors, 3, weights=[1, 1]) == portfolio_rows(errors, 3)


def test_weights_are_checked():
    errors = np.array([[0.1, 0.2], [0.2, 0.1]])
    with pytest.raises(UsageError, match=r"one weight a dataset \(2\), got shape \(3,\)"):
        portfolio_rows(errors, 1, weights=[1, 1, 1])
    for weights in ([0, 0], [1, -1], [1, NAN], [1, np.inf]):
        with pytest.raises(DataError, match="weights ≥ 0, not all 0"):
            portfolio_rows(errors, 1, weights=weights)


def test_start_is_kept_in_mind_and_not_chosen_again():
    errors = np.array([[0.0, 0.1, 1.0], [1.0, 0.2, 0.0]])
    assert portfolio_rows(errors, 1) == [1]
    assert portfolio_rows(errors, 3, start=[0]) == [2, 1]


def test_ranks_equal_scipy():
    values = np.array([0.3, 0.1, 0.1, NAN, 0.7, 0.3, 0.3])
    expected = (rankdata(values, nan_policy="omit") - 0.5) / 6
    np.testing.assert_allclose(scaled_ranks(values), expected)
    np.testing.assert_allclose(scaled_ranks(np.array([0.3, NAN, 0.1, 0.3])), [2 / 3, NAN, 1 / 6, 2 / 3])
    np.testing.assert_array_equal(scaled_ranks(np.array([NAN, 0.5])), [NAN, 0.5])
    np.testing.assert_array_equal(scaled_ranks(np.array([NAN, NAN])), [NAN, NAN])


def test_average_rank_orders_by_mean_rank():
    errors = np.array([[0.1, 0.2, 0.3], [0.1, 0.3, 0.2], [0.9, 0.1, 0.2]])
    np.testing.assert_array_equal(
        average_rank_rows(errors), np.argsort(rankdata(errors, axis=1).mean(axis=0), kind="stable")
    )
    assert initial_designs(errors, k=3, strategy="average-rank") == [0, 1, 2]


def test_average_rank_expects_of_a_missing_cell_what_the_others_say():
    # Rows agree but for their scale; configuration 1 is the best wherever it was measured.
    errors = np.array([[0.3, 0.1, 0.2], [0.6, 0.2, 0.4], [0.35, NAN, 0.25], [NAN, NAN, NAN]])
    assert average_rank_rows(errors) == [1, 2, 0]
    assert average_rank_rows(np.array([[0.3, NAN, 0.2]])) == [2, 0]
