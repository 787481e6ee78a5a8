"""Algorithm 3 and its three ways with duplicates."""

import numpy as np
import pytest

from warmstart.bo.transfer.designs import designs, initial_designs
from warmstart.bo.transfer.strategies import Choice, Query
from warmstart.bo.transfer.strategies.nearest import nearest
from warmstart.history_store.errors import UsageError

NAN = np.nan
# Datasets 0 and 1 share their best configuration (2); dataset 2 has another one (0).
SIBLINGS = np.array([[0.5, 0.3, 0.1, 0.4], [0.6, 0.5, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4]])


@pytest.mark.parametrize(
    ("dedupe", "rows", "neighbours"),
    [
        ("next_best", [2, 3, 0], [0, 1, 2]),
        ("next_neighbour", [2, 0, 1], [0, 2, None]),
        ("keep", [2, 2, 0], [0, 1, 2]),
    ],
)
def test_duplicates(dedupe, rows, neighbours):
    choices = designs(SIBLINGS, [0.1, 0.2, 0.3], 3, strategy="nearest", dedupe=dedupe)
    assert [choice.row for choice in choices] == rows
    assert [choice.neighbour for choice in choices] == neighbours


def test_ties_go_by_row():
    assert initial_designs([[0.2, 0.1, 0.1]], [0.0], 2, strategy="nearest") == [1, 2]
    assert initial_designs(SIBLINGS, [0.0, 0.0, 0.0], 2, strategy="nearest") == [2, 3]


def test_a_gap_counts_as_the_error_to_be_expected():
    # The nearest has not measured what is best on all that are like it; the next nearest that has is named.
    errors = [[NAN, 0.5, 0.7, 0.9], [0.1, 0.5, 0.7, 0.9], [0.2, 0.6, 0.8, 1.0], [0.9, 0.5, 0.3, 0.1]]
    first, second = designs(errors, [0.0, 2.0, 1.0, 3.0], 2, strategy="nearest")
    assert first == Choice(0, 2, 1.0, 0.2)
    assert second == Choice(1, 2, 1.0, 0.6)
    assert initial_designs([[NAN, 0.2, 0.3, 0.9], [0.8, 0.2, 0.3, 0.9]], [0.0, 1.0], 1, strategy="nearest") == [1]


def test_a_neighbour_with_nothing_left_gives_way_to_the_next():
    errors = [[0.1, NAN, NAN], [0.2, NAN, NAN], [0.3, 0.4, NAN]]
    choices = designs(errors, [0.0, 1.0, 2.0], 3, strategy="nearest")
    assert [(choice.neighbour, choice.row) for choice in choices] == [(0, 0), (2, 1), (None, 2)]


def test_equals_a_plain_loop():
    rng = np.random.default_rng(1)
    for _ in range(20):
        errors, distances = rng.random((7, 9)), rng.random(7)
        expected: list[int] = []
        for dataset in sorted(range(7), key=lambda i: distances[i]):
            expected.append(next(s for s in sorted(range(9), key=lambda s: errors[dataset, s]) if s not in expected))
        assert initial_designs(errors, distances, 5, strategy="nearest") == expected[:5]


def test_needs_distances():
    with pytest.raises(UsageError, match="strategy 'nearest' needs distances"):
        nearest(Query(SIBLINGS, None, 2))
