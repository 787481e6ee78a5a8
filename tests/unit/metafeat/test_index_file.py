"""The stored index of very many datasets: it finds the nearest, follows the history, and is never answered from when it does not fit."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from warmstart.history_store.history import History
from warmstart.locations import model_path, shipped_history
from warmstart.metafeat import cells, index_file
from warmstart.metafeat.index import DatasetIndex
from warmstart.metafeat.index_file import IndexFile
from warmstart.suggestions.advisor import Advisor

M, D = 3000, 6
GROUPS = np.arange(M) // 3


@pytest.fixture
def vectors():
    """Make clusters of datasets, some of them equal."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, D))[rng.integers(60, size=M)] + rng.normal(0, 0.2, (M, D))
    points[:10] = points[10:20]
    return points.astype(np.float32)


@pytest.fixture
def file(vectors, tmp_path, monkeypatch):
    """Store their index."""
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    made = IndexFile.of("history", "model", vectors.shape, "mark")
    made.write(vectors, norms_of(vectors))
    return made


def norms_of(vectors):
    """Return a function of cells that computes distances to other groups."""
    return lambda made: DatasetIndex(vectors, cells=made).nearest_of_another_group(np.arange(0, 900, 50), GROUPS)


def recall(index, exact, queries):
    """Return the share of the ten nearest that an index finds."""
    return np.mean([len(np.intersect1d(index.nearest(q, 10)[0], exact.nearest(q, 10)[0])) / 10 for q in queries])


def test_the_nearest_are_found_and_their_distances_are_exact(vectors, file):
    index, exact = DatasetIndex(vectors, file=file), DatasetIndex(vectors)
    queries = vectors[::30] + np.float32(0.01)
    assert recall(index, exact, queries) >= 0.99
    few = np.arange(0, M, 2)
    near, distances = index.nearest(queries[0], 40, among=few)
    np.testing.assert_array_equal(distances, np.linalg.norm(vectors[near].astype(np.float64) - queries[0], axis=1))
    assert set(near.tolist()) <= set(few.tolist())
    assert len(index.nearest(queries[0], M)[0]) == M  # more than lie in the cells
    np.testing.assert_array_equal(index.stored.norms, exact.nearest_of_another_group(np.arange(0, 900, 50), GROUPS))


def test_datasets_that_come_and_go_are_followed_without_new_cells(vectors, file, monkeypatch):
    rows = np.delete(np.arange(M), [0, 5, 77, 2999])
    fresh = np.random.default_rng(1).normal(size=(200, D)).astype(np.float32)
    changed = np.concatenate([fresh[:100], vectors[rows][::-1], fresh[100:]])
    later = replace(file, shape=changed.shape, mark="later")
    monkeypatch.setattr(cells, "build_cells", None)
    later.write(changed, lambda _: np.zeros(1))
    index = DatasetIndex(changed, file=later)
    for row in range(0, len(changed), 7):
        assert index.nearest(changed[row], 1)[1][0] == 0.0
    assert sorted(index.stored.cells.search(changed[:1], len(changed), params=None)[1][0].tolist())[-1] < len(changed)
    assert recall(index, DatasetIndex(changed), changed[::40]) >= 0.99


def test_the_file_of_an_earlier_state_serves_with_what_has_changed(vectors, file):
    rng = np.random.default_rng(2)
    fresh = vectors[rng.integers(M, size=200)] + rng.normal(0, 0.05, (200, D)).astype(np.float32)
    now = np.concatenate([fresh[:90], np.delete(vectors, [0, 5, 77, 2999], axis=0)[::-1], fresh[90:]])
    index, exact = DatasetIndex(now, file=replace(file, shape=now.shape, mark="later")), DatasetIndex(now)
    assert index.stored.rows is not None
    assert np.count_nonzero(index.stored.rows < 0) == 4
    assert recall(index, exact, now[::40] + np.float32(0.01)) >= 0.99
    among = np.arange(0, len(now), 2)
    for row in (0, 44, 3100, 3194):  # new ones
        assert index.nearest(now[row], 1)[0][0] == row
        assert index.nearest(now[row], 5, among=among)[0][0] == row
    several = index.nearest_of_another_group(np.arange(0, len(now), 60), np.arange(len(now)))
    np.testing.assert_allclose(several, exact.nearest_of_another_group(np.arange(0, len(now), 60), np.arange(len(now))))
    assert len(index.nearest(now[0], len(now))[0]) == len(now)


def cut(path, share):
    """Cut a file short."""
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def flip(path, at):
    """Alter one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: cut(path, 0.5),
        lambda path: cut(path, 0.0),
        lambda path: cut(path, 0.999),
        lambda path: flip(path, 40),
        lambda path: flip(path, -10),
        lambda path: flip(path, -60),
        lambda path: path.write_bytes(b"none"),
    ],
    ids=["half", "empty", "end", "start", "length", "header", "another"],
)
def test_a_damaged_file_is_never_answered_from_and_made_anew(spoil, vectors, file):
    spoil(file.path)
    assert file.read(vectors) is None
    assert "damaged" in file.fault()
    near = DatasetIndex(vectors, file=file).nearest(vectors[3], 20)
    np.testing.assert_array_equal(near, DatasetIndex(vectors).nearest(vectors[3], 20))
    file.write(vectors, norms_of(vectors))
    assert file.read(vectors) is not None
    assert file.fault() is None


def test_altered_vectors_are_noticed_by_verification(file):
    flip(file.path, file.path.stat().st_size // 2)
    assert file.fault() == "it is altered"


def test_the_file_of_another_faiss_or_size_or_state_is_not_used(vectors, file, monkeypatch):
    others = vectors + np.float32(1)
    assert replace(file, mark="other").read(others) is None
    assert replace(file, shape=(M, D + 1)).read(np.hstack([vectors, vectors[:, :1]])) is None
    assert "earlier state" in replace(file, mark="other").fault()
    monkeypatch.setattr(index_file, "version", lambda _: "0.0")
    assert file.read(vectors) is None
    assert "another version" in file.fault()
    wide = np.hstack([vectors, vectors[:, :1]])
    replace(file, shape=wide.shape, mark="wide").write(wide, norms_of(wide))
    assert json.loads(b"{" + file.path.read_bytes().rpartition(b"{")[2].partition(b"}")[0] + b"}")["faiss"] == "0.0"


def test_a_history_keeps_its_index_and_every_change_is_seen(tmp_path, monkeypatch, cli):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index_file, "LEAST", 20)
    path = tmp_path / "h.h5"
    shutil.copy(shipped_history(), path)
    data = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8), np.arange(60) % 3
    advisor = Advisor(path, model_path())
    assert advisor.embedded.index.stored is None
    before = advisor.neighbours(data, 5).neighbours
    cli("history", "embed", path)
    assert advisor.neighbours(data, 5).neighbours == before
    assert advisor.embedded.index.stored is not None
    with History.open(path, write=True) as history:
        history.remove_dataset(before[0].name)
    assert advisor.embedded.index.stored.rows.min() == -1
    assert advisor.neighbours(data, 4).neighbours == before[1:]
    assert "earlier state" in json.loads(cli("history", "verify", path, "--format", "json").out)["remarks"][-1]
    advisor.refresh()
    with History.open(path, write=True) as history:
        history.set_result("note", {"a": 1})  # which changes the file, not the vectors
    assert advisor.embedded.index.stored.rows is None
    assert advisor.neighbours(data, 4).neighbours == before[1:]
