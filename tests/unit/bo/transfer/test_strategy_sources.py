"""Siblings and parts weigh together as one source."""

import numpy as np
import pytest

from warmstart.bo.transfer.designs import designs, initial_designs
from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.bo.transfer.strategies.joint import nearness_weights
from warmstart.bo.transfer.strategies.query import equal_weights, turns
from warmstart.history_store.errors import UsageError

REACH = ((3.0, 1.0),)


def test_equal_weights_by_hand() -> None:
    np.testing.assert_allclose(equal_weights(4, np.array([7, 7, 2, 7])), [1 / 6, 1 / 6, 1 / 2, 1 / 6])
    np.testing.assert_allclose(equal_weights(3, None), 1 / 3)


def test_sources_take_turns() -> None:
    order, groups = np.array([4, 0, 1, 3, 2]), np.array([0, 0, 1, 2, 0])
    assert turns(order, groups).tolist() == [4, 3, 2, 0, 1]
    assert turns(order, None).tolist() == order.tolist()


def test_a_source_has_the_rank_of_its_nearest_and_splits_its_weight() -> None:
    weights = nearness_weights(np.array([1.0, 2.0, 3.0]), REACH, groups=np.array([0, 1, 0]))
    first, second = (1 / 3) / (1 / 3 + 1 / 4), (1 / 4) / (1 / 3 + 1 / 4)
    np.testing.assert_allclose(weights, [first * 4 / 7, second, first * 3 / 7])
    np.testing.assert_allclose(
        nearness_weights(np.array([1.0, 2.0, 3.0]), ((np.inf, 1.0),), groups=np.array([0, 1, 0])), [0.25, 0.5, 0.25]
    )


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_copies_of_a_source_change_no_choice(strategy: str) -> None:
    rng = np.random.default_rng(0)
    errors, distances = rng.random((8, 15)), rng.random(8)
    groups = [f"s{row}" for row in range(8)]
    copies = [0, 0, 0, 5, 5]
    more = initial_designs(
        np.vstack([errors, errors[copies]]),
        np.append(distances, distances[copies]),
        6,
        strategy=strategy,
        groups=[*groups, *(groups[row] for row in copies)],
    )
    assert more == initial_designs(errors, distances, 6, strategy=strategy, groups=groups)


def test_the_nearest_of_every_source_come_before_second_siblings() -> None:
    errors = np.random.default_rng(2).random((4, 12))
    found = designs(errors, [0.1, 0.2, 0.3, 0.4], 4, strategy="nearest", groups=["a", "a", "b", "c"])
    assert [choice.neighbour for choice in found] == [0, 2, 3, 1]


def test_groups_are_checked() -> None:
    with pytest.raises(UsageError, match=r"expected one group a dataset \(2\), got 1"):
        initial_designs([[0.1, 0.2], [0.2, 0.1]], None, 1, groups=["a"])
