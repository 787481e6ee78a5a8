"""A history of very many datasets answers by its nearest, and never holds a distance for each pair."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from all_pairs import nearest_other_group

from warmstart.bo.transfer.novelty import nearest_other_group_of
from warmstart.history_store.errors import DataError, UsageError
from warmstart.suggestions import embedded_history
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.embedded_history import nearest_positions, spread_positions
from warmstart.suggestions.location import EXACT, distances_to

IMAGES = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
DATA = (IMAGES, np.arange(60) % 3)


@pytest.mark.parametrize("m", [1, 2, 5, 300, 700])
def test_blocks_of_distances_are_those_of_all_pairs(m):
    rng = np.random.default_rng(m)
    vectors = rng.normal(3.0, 1.0, (m, 20)).astype(np.float32)
    vectors[: m // 3] = vectors[m - m // 3 :]  # copies, some of them in another group
    groups = rng.integers(0, max(1, m // 4), m).tolist()
    wide = vectors.astype(np.float64)
    between = np.stack([np.linalg.norm(wide - row, axis=1) for row in wide])
    np.testing.assert_array_equal(nearest_other_group_of(vectors, groups), nearest_other_group(between, groups))


def test_refusals():
    with pytest.raises(UsageError, match="one group a dataset"):
        nearest_other_group_of(np.zeros((3, 2)), ["a", "b"])
    with pytest.raises(DataError, match="finite"):
        nearest_other_group_of([[np.nan], [1.0]], ["a", "b"])


def test_no_square_of_the_number_of_datasets_is_held():
    m = 1500
    rng = np.random.default_rng(0)
    vectors, groups = rng.normal(size=(m, 8)).astype(np.float32), list(range(m))
    tracemalloc.start()
    nearest_other_group_of(vectors, groups)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 256 * m * 8 * 8  # blocks of 256 rows, some at a time: an `m x m` of 8 numbers would be more


@pytest.mark.parametrize("m", [1, 2000, 2150, 2200, 2201, 4000])
def test_the_nearest_have_exact_distances_and_come_first(m):
    rng = np.random.default_rng(m)
    vectors, vector = rng.normal(5.0, 1.0, (m, 16)).astype(np.float32), rng.normal(5.0, 1.0, 16).astype(np.float32)
    rows = rng.permutation(m)
    found = distances_to(vector, SimpleNamespace(vectors=vectors), rows)
    expected = np.linalg.norm(vectors[rows].astype(np.float64) - vector, axis=1)
    nearest = np.argsort(expected)[:EXACT]
    np.testing.assert_array_equal(np.argsort(found)[:EXACT], nearest)
    np.testing.assert_allclose(found[nearest], expected[nearest], rtol=1e-14)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_places():
    distances = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    assert nearest_positions(distances).tolist() == [0, 1, 2, 3, 4]
    assert spread_positions(7).tolist() == list(range(7))
    spread = spread_positions(10**6)
    assert len(set(spread.tolist())) == embedded_history.SPREAD
    assert (spread[0], spread[-1]) == (0, 10**6 - 1)


def test_the_nearest_answer_for_a_large_history(monkeypatch):
    whole = Advisor().suggest(DATA, 5, strategy="joint")
    near = Advisor().neighbours(DATA, 12)
    monkeypatch.setattr(embedded_history, "MANY", 12)
    few = Advisor().suggest(DATA, 5, strategy="joint", explain=True)
    names = {neighbour.name for neighbour in near.neighbours}
    assert {design.source for design in few.suggestions} - {None} <= names
    assert few.neighbours[0] == whole.neighbours[0]
    assert len(Advisor().neighbours(DATA, 40).neighbours) == 40  # all of them are known


def test_the_portfolio_of_a_large_history_is_of_datasets_spread_over_it(monkeypatch):
    monkeypatch.setattr(embedded_history, "SPREAD", 30)
    found = Advisor().suggest(DATA, 5, strategy="portfolio")
    assert len({tuple(design.config.values()) for design in found.suggestions}) == 5


def test_a_dataset_of_a_large_history_itself_is_found(monkeypatch, tmp_path):
    from warmstart.history_store.history import History
    from warmstart.locations import history_path

    path = tmp_path / "h.h5"
    with History.open(history_path(None)) as shipped:
        shipped.copy_as_new(path)
    from warmstart.histories.add import DatasetCard, add_source
    from warmstart.suggestions.query import open_query

    with History.open(path, write=True) as history:
        add_source(history, open_query(DATA).source, DatasetCard("mine", "mine"), with_images=False)
        from dataclasses import replace

        best = next(e for e in history.evaluations() if e.error < 0.2)
        history.append(replace(best, dataset="mine", error=0.01, seed=1))
        vectors = history.embeddings(history.model_hashes[0])
        history.set_embeddings(history.model_hashes[0], vectors | {"mine": vectors[history.names[0]]})
    monkeypatch.setattr(embedded_history, "MANY", 10**6)
    whole = Advisor(history=path).suggest(DATA, 3)
    monkeypatch.setattr(embedded_history, "SPREAD", 20)
    few = Advisor(history=path).suggest(DATA, 3, strategy="portfolio")
    assert whole.tuned_before is not None
    assert few.tuned_before is not None
    assert few.suggestions[0].source == whole.suggestions[0].source == "mine"
