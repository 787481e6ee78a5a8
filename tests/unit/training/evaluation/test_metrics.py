"""Distances as a fold knows them, and the measures that compare them with true ones."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from warmstart.history_store.errors import DataError
from warmstart.training.evaluation.metrics import (
    embedding_metric,
    euclidean,
    feature_metric,
    given_metric,
    neighbour_recalls,
    query_distances,
    rank_correlations,
)
from warmstart.training.evaluation.protocol import deal, folds

NAMES = [f"d{i}" for i in range(8)]
GROUPS = ["a", "b", "a", "c", "d", "e", "d", "f"]
EVERY = folds("leave-source-out", NAMES, GROUPS)
M = len(NAMES)


def test_features_are_scaled_by_those_who_answer():
    rng = np.random.default_rng(0)
    features = rng.normal(5, 3, (M, 4))
    features[:, 3] = 7.0  # says nothing
    fold = EVERY[0]
    features[0] += 1000  # what the query is like must not change the scale
    known = features[fold.history, :3]
    scaled = (features[:, :3] - known.mean(0)) / known.std(0)
    np.testing.assert_allclose(feature_metric(features)(fold), cdist(scaled, scaled))


def test_an_unknown_feature_counts_as_average():
    features = np.array([[0.0], [1.0], [np.nan], [3.0], [2.0], [4.0], [1.0], [0.5]])
    filled = features.copy()
    history = EVERY[1].history
    filled[2] = np.nanmean(features[history])
    spread = np.nanstd(features[history])
    np.testing.assert_allclose(feature_metric(features)(EVERY[1]), cdist(filled, filled) / spread)


class TestEmbeddings:
    parts = deal("leave-source-out", NAMES, GROUPS, 3, seed=0)

    def embed(self, left_out):
        self.asked.append(left_out)
        return np.random.default_rng(sorted(left_out)).normal(size=(M, 4))

    def test_a_query_is_embedded_by_the_model_that_never_saw_its_part(self):
        self.asked = []
        found = query_distances(embedding_metric(self.embed, self.parts, nested=False), EVERY)
        assert sorted(map(sorted, self.asked)) == [[0], [1], [2]]  # each model once
        for i in range(M):
            vectors = np.random.default_rng([int(self.parts[i])]).normal(size=(M, 4))
            for j in range(M):
                if GROUPS[i] == GROUPS[j]:
                    assert np.isnan(found[i, j])
                else:
                    assert found[i, j] == pytest.approx(np.linalg.norm(vectors[i] - vectors[j]))

    def test_nested_rows_saw_neither_the_query_nor_themselves(self):
        self.asked = []
        matrix = embedding_metric(self.embed, self.parts, nested=True)(EVERY[0])
        part = int(self.parts[0])
        assert all(part in left_out for left_out in self.asked)
        for i in range(M):
            vectors = np.random.default_rng(sorted({part, int(self.parts[i])})).normal(size=(M, 4))
            np.testing.assert_allclose(matrix[i], np.linalg.norm(vectors - vectors[i], axis=1))

    @pytest.mark.parametrize("vectors", [np.zeros(M), np.full((M, 3), np.nan)])
    def test_what_is_no_embedding_is_told(self, vectors):
        with pytest.raises(DataError, match="one row of finite numbers a dataset"):
            euclidean(vectors)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_distances_are_told_except_within_a_group(bad):
    matrix = np.ones((M, M))
    matrix[0, 2] = bad  # siblings: never read
    query_distances(given_metric(matrix), EVERY)
    matrix[0, 1] = bad
    with pytest.raises(DataError, match="mine: expected distances of 0 or more"):
        query_distances(given_metric(matrix), EVERY, name="mine")


def test_rank_correlations_are_scipys_over_those_who_answer():
    rng = np.random.default_rng(0)
    matrix, true = rng.random((M, M)), rng.random((M, M))
    seen = query_distances(given_metric(matrix), EVERY)
    others = [j for j in range(M) if GROUPS[j] != "d"]
    assert rank_correlations(seen, true)[4] == pytest.approx(spearmanr(matrix[4, others], true[4, others]).statistic)
    np.testing.assert_allclose(rank_correlations(query_distances(given_metric(true**2), EVERY), true), 1)
    assert np.isnan(rank_correlations(query_distances(given_metric(np.ones((M, M))), EVERY), true)).all()


def test_recall_counts_the_true_nearest_among_the_nearest():
    true = np.array([[np.nan, 1.0, 2.0, 3.0, 4.0]])
    given = np.array([[np.nan, 9.0, 1.0, 2.0, 3.0]])
    assert neighbour_recalls(given, true, k=2).tolist() == [0.5]
    assert neighbour_recalls(true, true, k=3).tolist() == [1.0]
    assert np.isnan(neighbour_recalls(true, true, k=4)).all()  # all of them: no choice to judge
