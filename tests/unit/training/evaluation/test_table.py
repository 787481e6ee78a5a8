"""Tables of errors: read as they are written, refused where they do not fit, made of a history."""

import numpy as np
import pytest
from histories import filled

from warmstart.history_store.error_tables import target_distance
from warmstart.history_store.errors import DataError
from warmstart.training.evaluation.table import ErrorTable, history_table, read_table, scale_choices

NAN = float("nan")
ERRORS = np.array([[0.1, 0.5, NAN], [0.2, 0.3, 0.9], [0.0, 1.0, 0.5]], dtype=np.float32)
GOOD = {
    "errors": ERRORS,
    "dataset_names": np.array(["x", "y", "z"]),
    "groups": np.array(["a", "a", "b"]),
    "X": np.array([[0.0, 0.5], [1.0, 0.0], [0.5, 1.0]]),
    "active": np.array([[True, True], [True, False], [True, True]]),
    "meta_features": np.ones((3, 2)),
    "distances": np.zeros((3, 3)),
    "distances_mine": np.ones((3, 3)),
    "info": np.array('{"source": "a test"}'),
}


@pytest.fixture
def write(tmp_path):
    def save(**changes):
        arrays = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
        np.savez(tmp_path / "t.npz", **arrays)
        return tmp_path / "t.npz"

    return save


def test_reads_what_is_there(write):
    table = read_table(write())
    assert (table.name, table.datasets, table.groups) == ("t", ("x", "y", "z"), ("a", "a", "b"))
    np.testing.assert_array_equal(table.errors, ERRORS.astype(float))
    np.testing.assert_array_equal(table.unit, [[0.0, 0.5], [1.0, NAN], [0.5, 1.0]])
    assert list(table.distances) == ["given", "mine"]
    bare = read_table(write(groups=None, X=None, meta_features=None, distances=None, distances_mine=None))
    assert bare.groups == bare.datasets
    assert (bare.unit, bare.meta_features, dict(bare.distances)) == (None, None, {})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"errors": None}, "Add errors"),
        ({"dataset_names": None}, "Add dataset_names"),
        ({"errors": np.zeros(3)}, "errors of datasets x configurations, got shape"),
        ({"errors": np.array([["a"] * 3] * 3)}, "errors to hold numbers"),
        ({"dataset_names": np.array(["x", "y"])}, "dataset_names of shape 3"),
        ({"dataset_names": np.array(["x", "x", "z"])}, "different dataset_names"),
        ({"groups": np.array(["a"])}, "groups of shape 3"),
        ({"X": np.zeros((4, 2)), "active": None}, "X of shape 3 x any"),
        ({"X": np.full((3, 2), 7.0)}, r"X in \[0, 1\], got 7 to 7"),
        ({"active": np.ones((3, 2))}, "active to be bool"),
        ({"meta_features": np.zeros((2, 2))}, "meta_features of shape 3 x any"),
        ({"distances_mine": np.zeros((3, 2))}, "distances 'mine' of shape 3 x 3"),
        ({"errors": np.where([[True], [False], [False]], NAN, ERRORS)}, "got none on x"),
        ({"errors": np.full((3, 3), np.inf)}, "got an infinite one"),
    ],
)
def test_what_does_not_fit_is_told(write, changes, match):
    with pytest.raises(DataError, match=match):
        read_table(write(**changes))


def test_true_distances_are_the_target_distances():
    rng = np.random.default_rng(0)
    errors = rng.random((5, 12))
    errors[rng.random((5, 12)) < 0.1] = NAN
    table = ErrorTable("t", errors, tuple("abcde"), tuple("abcde"))
    np.testing.assert_allclose(table.true_distances(normalised=False), target_distance(errors))
    np.testing.assert_allclose(table.true_distances(normalised=True), target_distance(errors, "normalised"))


def test_a_pair_with_nothing_in_common_is_as_far_as_the_farthest():
    errors = np.array([[0.1, 0.2, NAN], [NAN, NAN, 0.5], [0.3, 0.2, 0.1]])
    found = ErrorTable("t", errors, tuple("abc"), tuple("abc")).true_distances(normalised=False)
    np.testing.assert_allclose(found, [[0, 0.4, 0.1], [0.4, 0, 0.4], [0.1, 0.4, 0]])


def test_a_failed_run_counts_as_error_one_between_datasets_and_stays_missing():
    errors = np.array([[0.5, NAN], [0.5, 0.2]])
    table = ErrorTable("t", errors, ("a", "b"), ("a", "b"), failed=np.array([[False, True], [False, False]]))
    assert table.true_distances(normalised=False)[0, 1] == pytest.approx(0.4)
    assert np.isnan(table.errors[0, 1])


def test_choices_become_columns_in_the_unit_cube():
    about = [
        {"type": "categorical", "choices": ["a", "b", "c"]},
        {"type": "ordinal", "sequence": [1, 2, 3]},
        {"type": "constant"},
        {"type": "uniform_float"},
    ]
    found = scale_choices(np.array([[2.0, 1.0, 0.0, 0.25], [NAN, 2.0, 0.0, NAN]]), about)
    np.testing.assert_array_equal(found, [[0, 0, 1, 0.5, 0.25], [NAN, NAN, NAN, 1, NAN]])


def test_a_history_is_a_table_of_its_measured_datasets(tmp_path):
    with filled(tmp_path / "h.h5") as history:
        table = history_table(history, "h.h5")
        assert table.errors.shape == (2, len(history.configs))  # the third has failed runs alone
        assert all(name in history.names for name in table.datasets)
        assert np.nanmin(table.unit) >= 0
        assert np.nanmax(table.unit) <= 1
        assert table.unit.shape == (len(history.configs), 8)  # two and three choices, three numbers; no constant
