"""What is computed of the rows of a history: once for the same rows, and the same whatever the query."""

from dataclasses import replace

import numpy as np
import pytest

from warmstart.history_store.file import table
from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo, Evaluation, Status
from warmstart.history_store.space import load_space
from warmstart.locations import history_path, model_path
from warmstart.suggestions import embeddings, references
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
    few = replace(embedded, norms=RowMemory()).norms_of(every)
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
    bare = replace(embedded, references=None, norms=RowMemory())
    assert bare.norms_of(every).fewest_images == min(about.n_train for about in embedded.about)


class TestFollowing:
    """A large history in memory gets the runs that others add, without being read again."""

    @pytest.fixture
    def large(self, tmp_path, monkeypatch):
        monkeypatch.setattr(table, "LAZY_ROWS", 1)
        path = tmp_path / "h.h5"
        with History.open(history_path()) as shipped:
            shipped.compact(path=path)
        monkeypatch.setattr(embeddings, "_cache", {})
        return path

    def read_anew(self, path):
        embeddings._cache.clear()
        return embeddings.load_embedded_history(path, model_path())

    def same(self, followed, anew):
        for one, other in zip(followed.outcomes(), anew.outcomes(), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(followed.has_runs, anew.has_runs)
        assert followed.measured_with == anew.measured_with
        assert followed.names == anew.names

    def test_runs_that_were_added_are_those_of_the_file(self, large):
        first = embeddings.load_embedded_history(large, model_path())
        before, names, configs = first.errors(), first.names, first.configs
        with History.open(large, write=True) as history:
            history.append(Evaluation(names[3], configs[1], error=0.125, seed=1001, origin="here"))
            second = embeddings.load_embedded_history(large, model_path())
            history.extend(
                [
                    Evaluation(names[3], configs[1], error=0.375, seed=1002, origin="here"),
                    Evaluation(names[0], configs[2], error=float("nan"), status=Status.OOM, seed=1003, origin="there"),
                ]
            )
            third = embeddings.load_embedded_history(large, model_path())
        assert second.about is first.about is third.about  # nothing was read anew
        assert second.index is third.index
        np.testing.assert_array_equal(first.errors(), before)
        changed = np.argwhere((third.errors() != before) & ~(np.isnan(third.errors()) & np.isnan(before)))
        assert changed.tolist() == [[3, 1]]
        self.same(third, self.read_anew(large))

    def test_anything_else_is_read_anew(self, large):
        first = embeddings.load_embedded_history(large, model_path())
        new = dict(load_space(first.space_json).sample_configuration())
        with History.open(large, write=True) as history:
            history.set_result("own", {"value": 1})
            second = embeddings.load_embedded_history(large, model_path())
            assert second.about is not first.about
            history.add_dataset(DatasetInfo("zz later", "later", 10, 0, 0, 2, 1))
            history.append(Evaluation("zz later", first.configs[0], error=0.5, seed=1))
            third = embeddings.load_embedded_history(large, model_path())
            assert third.about is not second.about
            history.append(Evaluation(first.names[0], new, error=0.5, seed=1))
            fourth = embeddings.load_embedded_history(large, model_path())
            assert len(fourth.configs) == len(third.configs) + 1
            history.compact()
            fifth = embeddings.load_embedded_history(large, model_path())
            assert fifth.about is not fourth.about
        self.same(fifth, self.read_anew(large))
