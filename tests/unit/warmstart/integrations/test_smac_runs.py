"""A run history that SMAC3 wrote (`tests/foreign/make_smac.py`), and the older forms of it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignParameter
from warmstart.integrations.importers.smac import read_runhistory

REAL = Path(__file__).parents[3] / "foreign" / "smac"


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Callable[[Any], None]], Path]:
    """Copy the real run and change its history."""
    shutil.copytree(REAL, tmp_path / "run")

    def change(how: Callable[[Any], None]) -> Path:
        path = tmp_path / "run" / "runhistory.json"
        content = json.loads(path.read_text())
        how(content)
        path.write_text(json.dumps(content))
        return path

    return change


def test_a_real_run() -> None:
    runs = read_runhistory(REAL)
    written = json.loads((REAL / "runhistory.json").read_text())
    assert len(runs) == len(written["data"]) == 16
    assert (runs.kind, runs.origins[0], runs.maximised) == ("SMAC3 run 'run'", "import/smac/run", False)
    for row, entry in enumerate(written["data"]):
        config = {name: column[row] for name, column in runs.params.items() if column[row] is not None}
        assert config == written["configs"][str(entry["config_id"])]
        failed = config["batch_size"] > 60
        assert runs.status[row] == ("crashed" if failed else "ok")
        # the objective of the maker, computed here
        expected = math.nan if failed else min(1.0, abs(config["learning_rate"] - 0.01) + 0.1)
        np.testing.assert_allclose(runs.values[row], expected)
        assert runs.durations[row] == entry["time"]
    assert sum(status == "crashed" for status in runs.status) == 2
    assert len(set(runs.seeds)) == 1
    assert runs.datasets == [None] * 16
    assert runs.space["learning_rate"] == ForeignParameter(1e-5, 1.0, log=True)
    assert set(runs.space) == {"learning_rate", "batch_size", "optimizer", "momentum"}
    assert any(value is None for value in runs.params["momentum"])  # conditional


@pytest.mark.parametrize("with_cpu_time", [False, True])
def test_rows_as_lists(changed: Callable[[Callable[[Any], None]], Path], with_cpu_time: bool) -> None:
    fields = ["config_id", "instance", "seed", "budget", "cost", "time", "cpu_time", "status", "starttime", "endtime", "additional_info"]  # fmt: skip

    def older(content: Any) -> None:
        names = [name for name in fields if with_cpu_time or name != "cpu_time"]
        content["data"] = [[row[name] for name in names] for row in content["data"]]

    old, new = read_runhistory(changed(older)), read_runhistory(REAL)
    np.testing.assert_array_equal(old.values, new.values)
    assert old.params == new.params
    assert (list(old.status), list(old.seeds)) == (list(new.status), list(new.seeds))


def test_states_budgets_and_instances(changed: Callable[[Callable[[Any], None]], Path]) -> None:
    def change(content: Any) -> None:
        for row, entry in enumerate(content["data"]):
            entry["status"] = (1, 3, 4, 0)[row % 4]
            entry["budget"] = (1.0, 9.0)[row // 8]
            entry["instance"] = f"d{row % 2}"

    runs = read_runhistory(changed(change))
    assert [status.value for status in runs.status] == ["ok", "timeout", "oom"] * 2
    assert np.isnan(runs.values).tolist() == [False, True, True] * 2
    assert runs.left_out == {"still running": 4, "of a smaller budget": 6}
    assert runs.datasets == ["d0", "d1", "d0"] * 2


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"data": [[1]], "configs": {}},
        {"data": [[[1, None, 0, 0.0], [0.5, 1, {"__enum__": "StatusType.SUCCESS"}, 0, 1, None]]], "configs": {"1": {}}},
    ],
)
def test_what_is_no_run_history(tmp_path: Path, content: object) -> None:
    (tmp_path / "runhistory.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"runhistory\.json: expected a run history of SMAC3 2\.x, got "):
        read_runhistory(tmp_path)
