import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from warmstart.history_store.errors import MissingPathError, ModelError, ModelMismatchError, UsageError
from warmstart.metafeat.index import DatasetIndex


@pytest.fixture(params=["faiss", "numpy"])
def backend(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setitem(sys.modules, "faiss", None)
    else:
        pytest.importorskip("faiss")
    return request.param


def brute_force(ids, vectors, query, k, exclude=()):
    distances = np.sqrt(np.square(vectors.astype(np.float64) - query).sum(1))
    ranked = sorted((d, name) for d, name in zip(distances, ids, strict=True) if name not in exclude)
    return [(name, d) for d, name in ranked[:k]]


def build(vectors, model="m"):
    index = DatasetIndex(vectors.shape[1], model)
    ids = [f"d{i:03d}" for i in np.random.default_rng(1).permutation(len(vectors))]
    index.add(ids, vectors)
    return index, ids


def test_equals_brute_force_on_real_numbers_with_exclusions(backend):
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(200, 256)).astype(np.float32)
    index, ids = build(vectors)
    for i in range(10):
        out = {ids[i], ids[i + 1], "unknown"}
        neighbours, expected = index.search(vectors[i], 5, exclude=out), brute_force(ids, vectors, vectors[i], 5, out)
        assert [name for name, _ in neighbours] == [name for name, _ in expected]
        assert [d for _, d in neighbours] == pytest.approx([d for _, d in expected], rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-2, 2), min_size=1, max_size=12), st.integers(1, 15), st.integers(-2, 2))
def test_any_line_of_points_equals_brute_force(points, k, at):
    vectors, query = np.array(points, dtype=np.float32)[:, None], np.array([at], dtype=np.float32)
    index, ids = build(vectors)
    assert index.search(query, k, exclude=ids[:2]) == brute_force(ids, vectors, query, k, ids[:2])


def test_removed_datasets_are_gone_and_may_come_back(backend):
    vectors = np.random.default_rng(0).normal(size=(10, 8)).astype(np.float32)
    index, ids = build(vectors)
    index.remove([ids[2], ids[5]])
    assert len(index) == 8
    rest = [i for i in range(10) if i not in (2, 5)]
    expected = brute_force([ids[i] for i in rest], vectors[rest], vectors[2], 8)
    assert [name for name, _ in index.search(vectors[2], 8)] == [name for name, _ in expected]
    index.add([ids[2]], vectors[2:3])
    assert index.search(vectors[2], 1) == [(ids[2], 0.0)]


def test_empty_index_and_everything_excluded(backend):
    index = DatasetIndex(3, "m")
    assert index.search(np.zeros(3, dtype=np.float32), 4) == []
    index.add(["a"], np.ones((1, 3), dtype=np.float32))
    assert index.search(np.zeros(3, dtype=np.float32), 4, exclude=["a"]) == []
    index.remove(["a"])
    assert len(index) == 0


def test_round_trip(backend, tmp_path):
    index, _ = build(np.random.default_rng(0).normal(size=(10, 8)).astype(np.float32))
    index.save(tmp_path / "i")
    again = DatasetIndex.load(tmp_path / "i", model_hash="m")
    assert again.ids == index.ids
    assert again.vectors.tobytes() == index.vectors.tobytes()


def test_index_of_another_model_is_refused(tmp_path):
    build(np.ones((2, 8), dtype=np.float32), "aaaa")[0].save(tmp_path / "i")
    with pytest.raises(ModelMismatchError, match="expected an index of model bbbb, got one of model aaaa"):
        DatasetIndex.load(tmp_path / "i", model_hash="bbbb")


def test_damaged_foreign_and_missing_files(tmp_path):
    path = tmp_path / "i"
    with pytest.raises(MissingPathError, match="got nothing there"):
        DatasetIndex.load(path, model_hash="m")
    build(np.ones((2, 8), dtype=np.float32))[0].save(path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ModelError, match="damaged or of another kind"):
        DatasetIndex.load(path, model_hash="m")
    save_file({"vectors": np.ones((1, 8), dtype=np.float32)}, path)
    with pytest.raises(ModelError, match="damaged or of another kind"):
        DatasetIndex.load(path, model_hash="m")
    header = {"format": "warmstart-index", "version": 9, "dim": 8, "model": "m", "ids": ["a"]}
    save_file({"vectors": np.ones((1, 8), dtype=np.float32)}, path, metadata={"warmstart": json.dumps(header)})
    with pytest.raises(ModelError, match=r"version 9\. Upgrade"):
        DatasetIndex.load(path, model_hash="m")


@pytest.mark.parametrize(
    ("ids", "vectors", "message"),
    [
        (["x"], np.ones((1, 7)), r"expected vectors of shape \(1, 8\), got \(1, 7\)"),
        (["x"], np.full((1, 8), np.nan), "expected finite vectors"),
        (["d000"], np.ones((1, 8)), r"expected new ids, got \['d000'\]"),
        (["x", "x"], np.ones((2, 8)), r"expected new ids, got \['x'\]"),
    ],
)
def test_wrong_additions_change_nothing(ids, vectors, message):
    index, _ = build(np.ones((3, 8), dtype=np.float32))
    with pytest.raises(UsageError, match=message):
        index.add(ids, vectors)
    assert len(index) == len(index.vectors) == 3


def test_wrong_queries():
    index, _ = build(np.ones((3, 8), dtype=np.float32))
    with pytest.raises(UsageError, match=r"expected vectors of shape \(1, 8\)"):
        index.search(np.ones(9, dtype=np.float32), 1)
    with pytest.raises(UsageError, match="expected finite"):
        index.search(np.full(8, np.inf, dtype=np.float32), 1)
    with pytest.raises(UsageError, match="expected k ≥ 1"):
        index.search(np.ones(8, dtype=np.float32), 0)
    with pytest.raises(UsageError, match=r"got \['nope'\]"):
        index.remove(["nope"])
