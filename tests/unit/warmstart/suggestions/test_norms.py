"""What is usual among a history's datasets: computed once, whatever the query."""

from dataclasses import replace

import numpy as np

from warmstart.suggestions import norms
from warmstart.suggestions.advisor import Advisor


def test_of_a_large_history_some_that_are_evenly_spread_say_what_is_usual(monkeypatch):
    embedded = Advisor().embedded
    every = embedded.rows_without((), None)
    whole = embedded.norms_of(every)
    assert (whole.n_datasets, whole.n_groups) == (len(embedded.names), len(set(embedded.groups)))
    monkeypatch.setattr(norms, "MANY", 20)
    monkeypatch.setattr(norms, "MOST_SAMPLED", 10)
    few = replace(embedded).norms_of(every)  # which begins with nothing remembered
    np.testing.assert_array_equal(few.nearest, whole.nearest[norms.spread_rows(len(every))])
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
