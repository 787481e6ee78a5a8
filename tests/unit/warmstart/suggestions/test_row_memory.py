"""What was computed of rows: once for the same rows, and only the last few are kept."""

import numpy as np

from warmstart.suggestions.row_memory import CAPACITY, RowMemory


def test_a_thing_is_computed_once_for_the_same_rows_even_where_it_is_nothing():
    memory, asked = RowMemory(), []
    compute = lambda: asked.append(1)  # noqa: E731  which returns None
    for _ in range(3):
        assert memory.recall(np.array([0, 2, 5]), compute) is None
    assert asked == [1]
    memory.recall(np.array([0, 2]), compute)
    assert asked == [1, 1]


def test_the_oldest_is_forgotten():
    memory, asked = RowMemory(), []
    for i in [*range(CAPACITY + 1), CAPACITY, 1, 0]:
        memory.recall(np.array([i]), lambda i=i: asked.append(i))
    assert asked == [*range(CAPACITY + 1), 0]
