"""`tune(pruner="history")`, from the call to what is kept in the study."""

import numpy as np
import pytest
from objectives import replay
from sklearn.datasets import load_digits

import warmstart
from warmstart.history_store.errors import UsageError
from warmstart.studies.results.study_record import study_names
from warmstart.studies.state.reading import open_to_read

SPACE = {"lr": {"log": [1e-5, 1.0]}}


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "digits.npz"
    found = load_digits()
    np.savez(path, images=(found.images * 15).astype(np.uint8), labels=found.target)
    return path


def test_hopeless_trials_stop_and_a_second_call_goes_on(digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    same = {
        "dataset": digits,
        "objective": replay,
        "space": SPACE,
        "pruner": "history",
        "initial": ({"lr": 1e-3}, {"lr": 0.5}, {"lr": 0.3}),
        "storage": "s.db",
        "cache": False,
    }
    first = warmstart.tune(**same, trials=2)
    trials = warmstart.tune(**same, trials=3).trials
    assert [trial.number for trial in first.trials] == [0, 1]
    assert [trial.status.value for trial in trials] == ["ok", "pruned", "pruned"]
    assert all(len(trial.curve) < 4 for trial in trials[1:])


def test_a_space_with_nothing_in_common_is_refused_and_leaves_no_study(digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    warmstart.tune(objective=replay, space=SPACE, trials=1, study="other", storage="s.db", warm="none")
    for storage in ("new.db", "s.db"):
        with pytest.raises(UsageError, match=r"learning curves of at least 12 groups"):
            warmstart.tune(
                digits, objective=replay, space={"temperature": [0.0, 1.0]}, pruner="history", trials=2, storage=storage
            )
    assert not (tmp_path / "new.db").exists()
    with open_to_read("s.db") as store:
        assert study_names(store) == ["other"]
