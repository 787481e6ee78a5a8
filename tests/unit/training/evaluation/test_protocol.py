"""Who is held out together, and who deals with whom."""

import numpy as np
import pytest

from warmstart.history_store.errors import DataError, UsageError
from warmstart.training.evaluation.protocol import deal, folds

NAMES = ["m", "n", "o", "p", "q", "r"]
GROUPS = ["a", "b", "a", "c", "d", "c"]


def test_leave_source_out_holds_each_group_out_once():
    found = folds("leave-source-out", NAMES, GROUPS)
    assert [fold.name for fold in found] == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(found[0].queries, [0, 2])
    np.testing.assert_array_equal(found[0].history, [1, 3, 4, 5])
    assert sorted(np.concatenate([fold.queries for fold in found])) == list(range(6))


def test_in_source_leaves_the_query_alone_out_and_siblings_stay():
    found = folds("in-source", NAMES, GROUPS)
    assert [fold.queries.tolist() for fold in found] == [[row] for row in range(6)]
    assert found[0].history.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("k", [2, 3, 4, 9])
def test_siblings_are_dealt_into_one_part_and_parts_are_even(k):
    parts = deal("leave-source-out", NAMES, GROUPS, k, seed=0)
    assert parts[0] == parts[2]
    assert parts[3] == parts[5]
    assert set(parts) == set(range(min(k, 4)))
    alone = deal("in-source", NAMES, GROUPS, k, seed=0)
    counts = np.bincount(alone)
    assert counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(parts, deal("leave-source-out", NAMES, GROUPS, k, seed=0))


def test_what_cannot_be_held_out_is_told():
    with pytest.raises(DataError, match="at least two groups of siblings, got a"):
        folds("leave-source-out", ["x", "y"], ["a", "a"])
    with pytest.raises(DataError, match="at least two datasets, got x"):
        folds("in-source", ["x"], ["a"])
    with pytest.raises(UsageError, match="one of leave-source-out, in-source, got 'both'"):
        folds("both", NAMES, GROUPS)
    with pytest.raises(UsageError, match="folds: expected at least 2 models"):
        deal("in-source", NAMES, GROUPS, 1, seed=0)
