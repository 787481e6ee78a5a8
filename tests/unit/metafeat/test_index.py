"""The index of meta-features answers as brute force in float64 does, whatever FAISS rounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.history_store.errors import DataError, UsageError
from warmstart.metafeat.index import DatasetIndex


def brute_force(vectors, query, k, among=None):
    rows = np.arange(len(vectors)) if among is None else among
    distances = np.linalg.norm(vectors[rows].astype(np.float64) - query, axis=1)
    order = np.lexsort((rows, distances))[:k]
    return rows[order], distances[order]


def nearest_of_another_group(vectors, groups):
    apart = np.stack([np.linalg.norm(vectors.astype(np.float64) - row, axis=1) for row in vectors])
    nearest = np.where(groups[:, None] != groups, apart, np.inf).min(axis=1, initial=np.inf)
    return np.where(np.isfinite(nearest), nearest, np.nan)


@pytest.mark.parametrize("far", [0.0, 300.0])
def test_the_nearest_are_those_of_float64_even_far_from_the_origin(far):
    rng = np.random.default_rng(2)
    vectors = rng.normal(far, 1.0, (300, 20)).astype(np.float32)
    vectors[:100] = vectors[100:200] + rng.normal(0, 1e-5, (100, 20)).astype(np.float32)  # nearly equal pairs
    index = DatasetIndex(vectors)
    for among in (None, np.setdiff1d(np.arange(300), [0, 1, 2, 100])):
        for k in (1, 7, 250):
            rows, distances = index.nearest(vectors[1], k, among=among)
            expected = brute_force(vectors, vectors[1], k, among)
            np.testing.assert_array_equal(rows, expected[0])
            np.testing.assert_array_equal(distances, expected[1])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-2, 2), min_size=1, max_size=12), st.integers(1, 12), st.integers(-2, 2))
def test_ties_go_by_row(points, k, at):
    vectors, query = np.array(points, dtype=np.float32)[:, None], np.array([at], dtype=np.float32)
    among = np.arange(len(points))[::2]
    rows, distances = DatasetIndex(vectors).nearest(query, k, among=among)
    np.testing.assert_array_equal((rows, distances), brute_force(vectors, query, k, among))


@pytest.mark.parametrize(("m", "n_groups"), [(2, 1), (40, 2), (300, 75)])
def test_the_nearest_of_another_group_is_that_of_all_pairs(m, n_groups):
    rng = np.random.default_rng(m)
    vectors = rng.normal(3.0, 1.0, (m, 20)).astype(np.float32)
    vectors[: m // 3] = vectors[m - m // 3 :]  # copies, some of them in another group
    groups, rows = rng.integers(0, n_groups, m), np.arange(m)[::3]
    apart = DatasetIndex(vectors).nearest_of_another_group(rows, groups)
    np.testing.assert_array_equal(apart, nearest_of_another_group(vectors, groups)[rows])


@pytest.mark.parametrize(
    ("query", "k", "error", "message"),
    [
        (np.ones(9), 1, UsageError, r"expected 8 numbers, got \(9,\)"),
        (np.full(8, np.inf), 1, DataError, "expected a finite vector"),
        (np.ones(8), 0, UsageError, "expected k ≥ 1, got k=0"),
    ],
)
def test_wrong_queries(query, k, error, message):
    with pytest.raises(error, match=message):
        DatasetIndex(np.ones((3, 8), dtype=np.float32)).nearest(query, k)
