"""Errors on smaller parts of datasets: kept in a history, left out with their datasets, and worth their place in the forecast."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.history import History
from warmstart.locations import history_path, model_path
from warmstart.metafeat.feature_names import LANDMARKS
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.suggestions.expectations import expectation_of, forecaster_of
from warmstart.suggestions.other_sizes import SmallerParts, read_smaller_parts, smaller_parts_key

CONFIGS = ({"x": 1, "kind": "a"}, {"x": 2, "kind": "a"}, {"x": 2, "kind": "b"})
SOME = SmallerParts(
    ("a", "b", "a"),
    np.arange(6.0).reshape(3, 2),
    (40, 50, 60),
    CONFIGS,
    np.array([[0.1, 0.2, np.nan], [np.nan, np.nan, 0.6], [0.7, 0.8, 0.9]]),
)


@pytest.fixture(scope="module")
def shipped():
    """The shipped history of pretrained backbones, as answers see it."""
    return load_embedded_history(history_path(None, workload="transfer"), model_path(None, workload="transfer"))


def test_some_datasets_and_configurations_in_another_order():
    found = SOME.of(["a", "c"], [CONFIGS[1], {"x": 9, "kind": "a"}, CONFIGS[0]])
    assert (found.names, found.n_val) == (("a", "a"), (40, 60))
    np.testing.assert_array_equal(found.errors, [[0.2, np.nan, 0.1], [0.8, np.nan, 0.7]])
    np.testing.assert_array_equal(found.features, [[0, 1], [4, 5]])
    assert SOME.of(["b"], CONFIGS[:2]).names == (), "nothing of these is measured on it"


@pytest.mark.parametrize(
    "damage",
    [
        {"features": [[1.0, 2.0], [3.0, 4.0], [5.0, None]]},
        {"n_val": [1, 2]},
        {"errors": [[0.1, 0.2, 1.5]] * 3},
    ],
)
def test_damaged_ones_are_refused(tiny, tmp_path, damage):
    path = shutil.copy(tiny.history, tmp_path / "h.h5")
    with History.open(path, write=True) as history:
        history.set_result(smaller_parts_key("x"), SOME.to_dict() | damage)
        with pytest.raises(HistoryDamagedError, match="expected errors on parts of datasets, got others"):
            read_smaller_parts(history, "x")


def test_a_removed_dataset_leaves_no_parts_for_the_next_of_its_name(tiny, tmp_path, cli):
    path = shutil.copy(tiny.history, tmp_path / "h.h5")
    model_hash = read_header(tiny.model).hash
    with History.open(path, write=True) as history:
        history.set_result(smaller_parts_key(model_hash), replace(SOME, names=("stripes0", "b", "stripes0")).to_dict())
    assert cli("history", "remove", str(path), "stripes0", "--yes").code == 0
    with History.open(path) as history:
        assert read_smaller_parts(history, model_hash).names == ("b",)


def test_the_forecast_learns_from_parts_of_the_datasets_that_may_answer_alone(shipped):
    left_out = shipped.groups[shipped.names.index(shipped.smaller_parts.names[0])]
    rows = [row for row, group in enumerate(shipped.groups) if group != left_out]
    names = {shipped.names[row] for row in rows}
    n_parts = sum(name in names for name in shipped.smaller_parts.names)
    assert 0 < n_parts < len(shipped.smaller_parts.names)
    assert len(forecaster_of(shipped, rows).residuals) == len(rows) + n_parts


def test_errors_of_small_datasets_are_told_better_and_their_intervals_hold(shipped):
    """Every part of about a hundred images is asked, its group left out, by whole datasets alone and by parts too."""
    parts = shipped.smaller_parts
    sizes = np.exp(parts.features[:, LANDMARKS.index("log_n")])
    asked = np.flatnonzero(np.abs(sizes - 100) < 40)
    assert len(asked) > 50
    off, held = {}, {}
    for known in (shipped, replace(shipped, smaller_parts=None)):
        found = []
        for row in asked:
            group = shipped.groups[shipped.names.index(parts.names[row])]
            rows = [place for place, other in enumerate(shipped.groups) if other != group]
            expected = expectation_of(forecaster_of(known, rows), parts.features[row], side=32).errors()[-1]
            found.append((expected.value, expected.low, expected.high))
        value, low, high = np.array(found).T
        best = parts.errors[asked].min(axis=1)
        off[known is shipped] = value - best
        held[known is shipped] = np.mean((low <= best) & (best <= high))
    rmse = {kind: np.sqrt(np.mean(np.square(each))) for kind, each in off.items()}
    assert rmse[True] < 0.95 * rmse[False]
    assert abs(np.mean(off[True])) < 0.02
    assert held[False] < 0.6 < 0.7 < held[True]
