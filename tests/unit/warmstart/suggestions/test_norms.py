"""What is usual among a history's datasets: computed once, whatever the query."""

from dataclasses import replace

import numpy as np
from all_pairs import nearest_other_group

from warmstart.suggestions import norms
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.norms import Norms, spread_rows


def test_of_a_small_history_all_datasets_say_what_is_usual():
    vectors = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    groups, names = [f"g{i // 2}" for i in range(30)], [f"d{i}" for i in range(30)]
    found = Norms.of(vectors, groups=groups, names=names, fewest_images=7, references=None)
    between = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2)
    np.testing.assert_allclose(found.nearest, nearest_other_group(between, groups))
    assert (found.n_groups, found.fewest_images, found.names[3]) == (15, 7, "d3")


def test_of_a_large_one_some_that_are_evenly_spread_do_each_against_all(monkeypatch):
    monkeypatch.setattr(norms, "MANY", 20)
    monkeypatch.setattr(norms, "MAX_SAMPLED", 10)
    vectors = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    names = [f"d{i}" for i in range(30)]
    found = Norms.of(vectors, groups=names, names=names, fewest_images=7, references=None)
    between = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2)
    rows = spread_rows(30)
    assert rows.tolist() == [0, 3, 6, 9, 12, 16, 19, 22, 25, 29]
    np.testing.assert_allclose(found.nearest, nearest_other_group(between, names)[rows])


def test_as_few_pictures_are_known_as_distances_were_measured_with():
    embedded = Advisor().embedded
    every = embedded.rows_without((), None)
    assert min(about.n_train for about in embedded.about) > 50
    assert embedded.norms_of(every).fewest_images == 50
    bare = replace(embedded, references=None)  # which begins with nothing remembered
    assert bare.norms_of(every).fewest_images == min(about.n_train for about in embedded.about)


def test_the_same_rows_are_looked_at_once():
    embedded = Advisor().embedded
    every = embedded.rows_without((), None)
    assert embedded.norms_of(every) is embedded.norms_of(every.copy())
    assert embedded.norms_of(every[1:]) is not embedded.norms_of(every)
