"""References of a history: computed from its images, kept in it, refused when damaged."""

import shutil

import numpy as np
import pytest

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.history import History
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.history_refresh import compute_references
from warmstart.suggestions.references import (
    FEATURES_KEY,
    References,
    read_features,
    read_references,
    references_key,
    store_references,
)

SOME = References(("a", "b"), np.array([0.5, 1.5]), np.array([[1.0, 2.0], [3.0, 4.0]]), (50, 200), (0.2, 0.1))


def test_they_come_back():
    back = References.from_dict(SOME.to_dict())
    assert back.to_dict() == SOME.to_dict()
    assert back.names == ("a", "b")


def test_movement_is_interpolated_and_held_at_the_ends():
    assert SOME.movement(100) == pytest.approx(0.15)
    assert (SOME.movement(2), SOME.movement(400)) == (0.2, 0.1)
    assert References((), np.zeros(0), np.zeros((0, 2))).movement(50) is None


def test_a_history_keeps_them(tiny, tmp_path):
    path = shutil.copy(tiny.history, tmp_path / "h.h5")
    model = read_header(tiny.model)
    with History.open(path, write=True) as history:
        assert read_references(history, model.hash) is None
        found = compute_references(history, model)
        assert set(found.names) == set(history.names)
        assert found.sizes == ()  # 24 pictures: no draws of 50
        store_references(history, found, model.hash)
    with History.open(path) as history:
        back = read_references(history, model.hash)
    assert back.names == found.names
    np.testing.assert_allclose(back.pixels, found.pixels, atol=1e-4)


def test_embedding_stores_those_that_are_lacking(tiny, tmp_path):
    path = shutil.copy(tiny.history, tmp_path / "h.h5")
    model = read_header(tiny.model)
    with History.open(path, write=True) as history:
        n_statistics = compute_references(history, model).pixels.shape[1]
        kept = References(
            ("stripes0",), np.array([9.0]), np.full((1, n_statistics), 7.0), (50,), (0.5,), np.zeros((1, len(FEATURES)))
        )
        store_references(history, kept, model.hash)
    Advisor(path, tiny.model).refresh()
    with History.open(path) as history:
        found = read_references(history, model.hash)
        assert found.names == ("stripes0", *(name for name in history.names if name != "stripes0"))
    assert (found.effects[0], found.pixels[0, 0], found.sizes) == (9.0, 7.0, (50,)), "those that were there stay"


@pytest.mark.parametrize("damage", [{"names": ["a"]}, {"effects": [1.0, None]}, {"movements": [0.1]}])
def test_damaged_ones_are_refused(tiny, tmp_path, damage):
    path = shutil.copy(tiny.history, tmp_path / "h.h5")
    with History.open(path, write=True) as history:
        history.set_result(references_key("x"), SOME.to_dict() | damage)
        with pytest.raises(HistoryDamagedError, match="expected references of model x"):
            read_references(history, "x")


def test_a_removed_dataset_leaves_nothing_for_the_next_of_its_name(tiny, tmp_path, cli):
    path = shutil.copy(tiny.history, tmp_path / "h.h5")
    model = read_header(tiny.model)
    with History.open(path, write=True) as history:
        store_references(history, compute_references(history, model), model.hash)
        history.set_result(FEATURES_KEY, read_references(history, model.hash).to_dict())
    assert cli("history", "remove", str(path), "stripes0", "--yes").code == 0
    with History.open(path) as history:
        for left in (read_references(history, model.hash), read_features(history)):
            assert left.names == tuple(history.names)
            assert len(left.pixels) == len(left.features) == len(history.names)
