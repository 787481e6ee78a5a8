"""Keywords of 0.1 work for one release, say what they are now, and are refused beside nothing else."""

import pytest
from ConfigSpace import ConfigurationSpace
from objectives import letter

import warmstart
from warmstart.bo import Optimizer
from warmstart.integrations.optuna import WarmStartSampler

SPACE = ConfigurationSpace({"x": (0.0, 1.0)}, seed=0)


def test_the_optimiser_takes_startup():
    with pytest.warns(DeprecationWarning, match=r"^`startup` is now `n_startup_trials`\.") as told:
        old = Optimizer(SPACE, startup=5, clock=lambda: 0.0)
    assert told[0].filename == __file__
    new = Optimizer(SPACE, n_startup_trials=5, clock=lambda: 0.0)
    assert old.ask(5) == new.ask(5)
    assert old.to_dict() == new.to_dict()
    assert new.to_dict()["settings"]["startup"] == 5  # as 0.1 wrote it, and reads it
    assert Optimizer.from_dict(new.to_dict()).to_dict() == new.to_dict()


def test_the_sampler_takes_startup():
    with pytest.warns(DeprecationWarning, match="n_startup_trials") as told:
        sampler = WarmStartSampler(space=SPACE, startup=7)
    assert told[0].filename == __file__
    assert sampler._n_startup_trials == WarmStartSampler(space=SPACE, n_startup_trials=7)._n_startup_trials == 7


def test_tune_takes_startup_and_tell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    call = {"objective": letter, "space": ConfigurationSpace({"x": ["a", "b"]}), "trials": 3, "surrogate": "gp-map"}
    with pytest.warns(DeprecationWarning, match="is now") as told:
        found = warmstart.tune(**call, storage=tmp_path / "a.db", startup=2, tell=said.append)
    assert [str(each.message).partition(".")[0] for each in told] == [
        "`startup` is now `n_startup_trials`",
        "`tell` is now `on_message`",
    ]
    assert {each.filename for each in told} == {__file__}
    assert found.exhausted
    assert "every configuration of the space has had its trial" in said[-1]
    again = []
    warmstart.tune(**call, storage=tmp_path / "b.db", n_startup_trials=2, on_message=again.append)
    assert again == said
