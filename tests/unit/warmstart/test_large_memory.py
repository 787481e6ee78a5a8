"""A history of very many datasets answers by its nearest."""

import numpy as np
import pytest

from warmstart.locations import history_path
from warmstart.metafeat.cells import build_cells
from warmstart.metafeat.index import DatasetIndex
from warmstart.suggestions import embedded_history, location
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.embedded_history import spread_positions

IMAGES = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
DATA = (IMAGES, np.arange(60) % 3)


@pytest.mark.parametrize("workload", ["cnn", "transfer"])
def test_shipped_histories_are_answered_as_by_all_distances_with_and_without_cells(workload):
    embedded = Advisor(history_path(workload=workload)).embedded
    stored = DatasetIndex(embedded.vectors, cells=build_cells(embedded.vectors))
    for row, vector in enumerate(embedded.vectors):
        rows = embedded.rows_without((embedded.groups[row],), None)
        near, distances = embedded.nearest(vector, rows, len(rows))
        np.testing.assert_array_equal(near, rows)
        every = np.linalg.norm(embedded.vectors.astype(np.float64) - vector, axis=1)
        np.testing.assert_array_equal(distances, every[rows])
        np.testing.assert_array_equal(stored.nearest(vector, 10, among=rows)[1], np.sort(distances)[:10])


def test_an_even_spread():
    assert spread_positions(7).tolist() == list(range(7))
    spread = spread_positions(10**6)
    assert len(set(spread.tolist())) == embedded_history.SPREAD
    assert (spread[0], spread[-1]) == (0, 10**6 - 1)


def test_the_nearest_answer_for_a_large_history(monkeypatch):
    whole = Advisor().suggest(DATA, 5, strategy="joint")
    near = Advisor().neighbours(DATA, 12)
    monkeypatch.setattr(location, "MANY", 12)
    monkeypatch.setattr(location, "NEAREST", 12)
    few = Advisor().suggest(DATA, 5, strategy="joint", explain=True)
    names = {neighbour.name for neighbour in near.neighbours}
    assert {design.source for design in few.suggestions} - {None} <= names
    assert few.neighbours[0] == whole.neighbours[0]
    assert len(Advisor().neighbours(DATA, 40).neighbours) == 40  # all of them are known


def test_what_ignores_distances_uses_a_spread_and_still_lists_the_nearest(monkeypatch):
    near = Advisor().neighbours(DATA, 3).neighbours
    monkeypatch.setattr(embedded_history, "SPREAD", 20)
    spread = Advisor().suggest(DATA, 5, strategy="portfolio", explain=True)
    assert spread.neighbours == near
    assert [reason.name for reason in spread.explanation.neighbours] == [neighbour.name for neighbour in near]
