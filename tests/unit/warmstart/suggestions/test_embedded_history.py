"""What is computed of the rows of a history: once for the same rows, and the same whatever the query."""

from dataclasses import replace

import numpy as np

from warmstart.suggestions import references
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.embedded_history import CAPACITY, RowMemory


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


def test_of_a_large_history_some_that_are_evenly_spread_say_what_is_usual(monkeypatch):
    embedded = Advisor().embedded
    every = embedded.rows_without((), None)
    whole = embedded.norms_of(every)
    assert (whole.n_datasets, whole.n_groups) == (len(embedded.names), len(set(embedded.groups)))
    monkeypatch.setattr(references, "MANY", 20)
    monkeypatch.setattr(references, "MOST_SAMPLED", 10)
    few = replace(embedded).norms_of(every)  # which begins with nothing remembered
    np.testing.assert_array_equal(few.nearest, whole.nearest[references.spread_rows(len(every))])
    assert (few.nearest.shape, few.n_datasets) == ((10,), whole.n_datasets)


def test_without_some_datasets_the_others_say_it():
    embedded = Advisor().embedded
    rows = embedded.rows_without((embedded.groups[0],), embedded.names[-1])
    nearest = embedded.norms_of(rows).nearest
    for row, distance in zip(rows.tolist(), nearest.tolist(), strict=True):
        others = rows[embedded.group_numbers[rows] != embedded.group_numbers[row]]
        assert distance == embedded.distances_to(embedded.vectors[row], others).min()


def test_as_few_pictures_are_known_as_distances_were_measured_with():
    embedded = Advisor().embedded
    every = embedded.rows_without((), None)
    assert min(about.n_train for about in embedded.about) > 50
    assert embedded.norms_of(every).fewest_images == 50
    bare = replace(embedded, references=None)
    assert bare.norms_of(every).fewest_images == min(about.n_train for about in embedded.about)
