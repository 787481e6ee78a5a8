"""HPO-B's JSON, written as its README describes it; descriptions as its own file has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignParameter
from warmstart.integrations.importers.hpob import read_hpob

TABLE = {
    "5860": {
        "3": {"X": [[0.0, 1.0, 0.0, 1.0, 0.0], [0.5, 0.25, 1.0, 0.0, 1.0]], "y": [[0.9], [0.1]]},
        "31": {"X": [[1.0, 0.0, 0.0, 0.0, 1.0]], "y": [[0.75]]},
    }
}
LOG_1 = float(np.log(1.0 + 1e-4))
ABOUT: dict[str, Any] = {
    "5860": {
        "variables": {
            "nrounds": {"min": LOG_1, "max": float(np.log(100.0 + 1e-4)), "min_before_tf": 1.0, "max_before_tf": 100.0},
            "depth": {"min": 0.0, "max": 16.0, "min_before_tf": 0.0, "max_before_tf": 16.0},
            "depth.na": {"min": 0.0, "max": 1.0, "min_before_tf": 0.0, "max_before_tf": 1.0},
            "kernel": {"categories": ["INVALID", "linear"], "count": {}},
        },
        "variables_to_apply_log": ["nrounds"],
        "variables_order": ["nrounds", "depth", "depth.na", "kernel.ohe._INVALID", "kernel.ohe._linear"],
    }
}


def write(folder: Path, table: object, about: object | None = None) -> Path:
    path = folder / "meta-train-dataset.json"
    path.write_text(json.dumps(table))
    if about is not None:
        (folder / "meta-dataset-descriptors.json").write_text(json.dumps(about))
    return path


def test_values_come_back_with_the_descriptions(tmp_path: Path) -> None:
    runs = read_hpob(write(tmp_path, TABLE, ABOUT))
    assert list(runs.params) == ["nrounds", "depth", "kernel"]
    assert runs.params["nrounds"] == pytest.approx([1.0, 10.0, 100.0], rel=1e-4)
    assert runs.params["depth"] == [16.0, None, 0.0]
    assert runs.params["kernel"] == [None, "linear", "linear"]
    assert runs.space["nrounds"] == ForeignParameter(1.0, 100.0, log=True)
    assert runs.space["depth"] == ForeignParameter(0.0, 16.0)
    assert runs.space["kernel"].choices == ("linear",)
    assert runs.values.tolist() == [0.9, 0.1, 0.75]
    assert runs.datasets == ["hpob-3", "hpob-3", "hpob-31"]
    assert (runs.maximised, runs.kind, runs.origins[0]) == (True, "HPO-B space 5860", "import/hpob/5860")


def test_without_descriptions_columns_have_numbers(tmp_path: Path) -> None:
    for about in (None, {"other": {}}):
        runs = read_hpob(write(tmp_path, TABLE, about))
        assert list(runs.params) == ["x0", "x1", "x2", "x3", "x4"]
        assert runs.params["x0"] == [0.0, 0.5, 1.0]
        assert runs.space["x0"] == ForeignParameter(0.0, 1.0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([1], "got list"),
        ({"1": {"3": {"X": [[1.0]]}}}, "no 'y'"),
        ({"1": {"3": {"X": [[1.0], [2.0]], "y": [[1.0]]}}}, r"X of shape \(2, 1\) and 1 values"),
        ({"1": {"3": {"X": [[1.0]], "y": [[1.0]]}, "4": {"X": [[1.0, 2.0]], "y": [[1.0]]}}}, "something else"),
        ({"1": {}}, "something else"),
        ({"study": "a b", "storage": "s.db", "trials": {}}, r"report of a study.*HISTORY s\.db --study 'a b'`\."),
    ],
)
def test_what_is_no_table(tmp_path: Path, table: object, message: str) -> None:
    with pytest.raises(DataError, match=f"expected a table of HPO-B.*{message}"):
        read_hpob(write(tmp_path, table))


@pytest.mark.parametrize("about", [{"5860": {"variables_order": ["a"]}}, 3, {"5860": {"variables_order": list("abcde"), "variables": {"a": {}}}}])  # fmt: skip
def test_descriptions_of_something_else(tmp_path: Path, about: object) -> None:
    with pytest.raises(DataError, match=r"meta-dataset-descriptors\.json:5860: expected the 5 variables of the table"):
        read_hpob(write(tmp_path, TABLE, about))
