"""A folder that Ray Tune wrote (`tests/foreign/make_ray.py`): ASHA has stopped some of its trials, one kind raised."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.integrations.importers.ray_results import read_results

REAL = Path(__file__).parents[3] / "foreign" / "ray"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REAL, tmp_path / "mine"))


def trials(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def test_a_real_experiment() -> None:
    runs = read_results(REAL, metric="val_error")
    assert (runs.kind, runs.maximised) == ("Ray Tune experiment 'ray'", False)
    assert set(runs.origins) <= {f"import/ray/{path.name}" for path in trials(REAL)}
    assert runs.left_out == {"ended before iteration 3: stopped or still running": 3}
    assert len(runs) == 7
    assert sum(status == "crashed" for status in runs.status) == 2
    kept = [path for path in trials(REAL) if (path / "error.txt").exists() or len((path / "result.json").read_text().splitlines()) == 3]  # fmt: skip
    for row, path in enumerate(kept):
        params = json.loads((path / "params.json").read_text())
        optimizer = params.pop("optimizer")
        flat = params | {"optimizer/lr": optimizer["lr"], "optimizer/name": optimizer["name"]}
        assert {name: column[row] for name, column in runs.params.items()} == flat
        if params["batch_size"] == 16 and optimizer["name"] == "sgd":
            assert (runs.status[row], runs.curves[row], np.isnan(runs.values[row])) == ("crashed", (), True)
        else:  # the objective of the maker, computed here
            expected = [0.5 / (step + 1) + optimizer["lr"] for step in range(3)]
            assert runs.values[row] == pytest.approx(expected[-1])
            assert runs.curves[row] == tuple(enumerate(pytest.approx(expected).expected, start=1))
            assert runs.durations[row] > 0


def test_a_metric_must_be_named() -> None:
    with pytest.raises(UsageError, match=r"metric: expected one of accuracy, .*nested/f1, .*val_error, .*got none"):
        read_results(REAL)
    with pytest.raises(UsageError, match="got loss"):
        read_results(REAL, metric="loss")


def test_a_line_torn_by_a_kill(copy: Path) -> None:
    path = next(path for path in trials(copy) if len((path / "result.json").read_text().splitlines()) == 3)
    text = (path / "result.json").read_text()
    (path / "result.json").write_text(text[:-40])
    assert len(read_results(copy, metric="val_error")) == 6  # it has two iterations now
    (path / "result.json").write_text(text.replace("{", "", 1))
    with pytest.raises(DataError, match=r"result\.json line 1: expected a JSON object"):
        read_results(copy, metric="val_error")


def test_bytes_that_are_no_text_and_seconds_that_are_none(copy: Path) -> None:
    path = next(path for path in trials(copy) if not (path / "error.txt").exists()) / "result.json"
    whole = path.read_bytes()
    path.write_bytes(b'{"a": "\xff"}\n' + whole)
    with pytest.raises(DataError, match=r"result\.json line 1: expected a JSON object, got '\{\"a\": \"\\\\xff"):
        read_results(copy, metric="val_error")
    path.write_bytes(whole.replace(b'"time_total_s": ', b'"time_total_s": null, "was": '))
    assert np.isnan(read_results(copy, metric="val_error").durations).any()


def test_what_is_no_experiment(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(MissingPathError, match="got nothing there"):
        read_results(tmp_path / "no", metric="x")
    with pytest.raises(MissingPathError, match="got a file"):
        read_results(copy / trials(copy)[0] / "params.json", metric="x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"expected a folder a trial with params\.json in it, got none"):
        read_results(tmp_path / "empty", metric="x")
    (trials(copy)[0] / "params.json").write_text("[1]")
    with pytest.raises(DataError, match=r"params\.json: expected a JSON object, got list"):
        read_results(copy, metric="val_error")
