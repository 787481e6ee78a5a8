"""Histories written by earlier releases are read, and can be written on."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from warmstart.history_store.errors import HistoryWarning
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation, Status
from warmstart.history_store.verify import upgrade, verify

V1 = Path(__file__).parent / "v1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for name in ("history.h5", "history.h5.journal"):
        shutil.copy(V1 / name, tmp_path)
    return tmp_path / "history.h5"


def test_version_1_is_read(path: Path) -> None:
    with History.open(path) as history:
        assert history.names == ("first", "Zwei/☃")
        assert history.groups == ("group", "other")
        assert dict(history.dataset("first").extra) == {"key": "välue"}
        assert history.dataset("first").class_counts == (2, 2)
        assert history.dataset("Zwei/☃").channels == 1
        assert (len(history.configs), history.configs_unit.shape, history.stored_size) == (4, (4, 6), 4)
        assert history.notes == {"made": "v1"}
        nan = math.nan
        np.testing.assert_array_equal(history.errors, [[0.25, 0.5, nan, 0.75], [nan] * 4])
        first = history.evaluations()[0]
        assert first == Evaluation("first", history.configs[0], 0.25, Status.OK, 1.5, 0, ((10, 0.5), (20, 0.25)), "a")
        assert [run.status.value for run in history.evaluations()] == [
            "ok",
            "diverged",
            "crashed",
            "timeout",
            "oom",
            "ok",
        ]
        assert [run.seed for run in history.evaluations()] == [0, 0, *[2**63 - 1] * 3, None]
        assert history.embeddings("abc123")["first"].tolist() == [0.5, -1.0]
        assert history.get_result("calibration") == {"slope": 0.5}
        with pytest.warns(HistoryWarning, match=r"no checksums.*`warmstart history upgrade .*` adds them"):
            stored = history.images("first")
        assert stored.array[1, 0, 0].tolist() == [48, 49, 50]
        assert stored.labels.tolist() == [0, 0, 1, 1, 0, 1]
        assert stored.split.tolist() == [0, 0, 0, 0, 1, 2]
        assert stored.class_names == ("dark", "light")


def test_version_1_verifies_and_is_written_on(path: Path) -> None:
    assert verify(path).ok
    assert upgrade(path)
    assert not upgrade(path)
    with History.open(path, write=True) as history:
        history.append(Evaluation("first", history.configs[2], 0.5))
        history.compact()
        assert history.n_evaluations == 7
        np.testing.assert_array_equal(history.images("first").array[1, 0, 0], [48, 49, 50])
    assert verify(path).ok


def test_version_1_is_written_on_as_it_is(path: Path) -> None:
    """The journal of a file of 0.1 stays one that 0.1 reads, until the file is written anew."""
    before = path.read_bytes()
    with History.open(path, write=True) as history:
        history.append(Evaluation("first", history.configs[2], 0.5, seed=77))
    assert path.read_bytes() == before
    assert b'{"journal": 1, "history": ' in path.with_name("history.h5.journal").read_bytes()
    assert verify(path).ok
    with History.open(path) as history:
        assert history.n_evaluations == 7
