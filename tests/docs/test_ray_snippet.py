"""The Ray snippet of docs/suggest.md runs: with Ray where it is installed, else against the signatures that Ray documents."""

import importlib.util
import re
import sys
import types
from pathlib import Path

import pytest
from optuna.distributions import BaseDistribution

PAGE = Path(__file__).resolve().parents[2] / "docs" / "suggest.md"


class Searcher:
    """Ray 2's OptunaSearch, as documented."""

    def __init__(self, space=None, metric=None, mode=None, points_to_evaluate=None, sampler=None, study_name=None, storage=None, seed=None, evaluated_rewards=None):  # fmt: skip
        assert all(isinstance(distribution, BaseDistribution) for distribution in space.values())
        assert all(distribution._contains(point[name]) for point in points_to_evaluate for name, distribution in space.items())  # fmt: skip
        assert (metric, mode) == ("error", "min")
        self.points = points_to_evaluate


class TuneConfig:
    def __init__(self, mode=None, metric=None, search_alg=None, scheduler=None, num_samples=1, max_concurrent_trials=None, time_budget_s=None, reuse_actors=False):  # fmt: skip
        self.points = search_alg.points


class Result:
    def __init__(self, config):
        self.config = config


class Grid(list):
    def get_best_result(self, metric=None, mode=None):
        return min(self, key=lambda result: result.error)


class Tuner:
    def __init__(self, trainable=None, *, param_space=None, tune_config=None, run_config=None):
        self.trainable, self.config = trainable, tune_config

    def fit(self):
        grid = Grid()
        for point in self.config.points:
            result = Result(point)
            sys.modules["ray"].tune.report = lambda metrics, result=result: vars(result).update(metrics)
            self.trainable(point)
            grid.append(result)
        return grid


@pytest.fixture
def ray(monkeypatch):
    if importlib.util.find_spec("ray") is not None:
        return
    tune = types.SimpleNamespace(Tuner=Tuner, TuneConfig=TuneConfig)
    for name in ("ray", "ray.tune", "ray.tune.search", "ray.tune.search.optuna"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["ray"].tune = tune
    sys.modules["ray.tune.search.optuna"].OptunaSearch = Searcher


@pytest.mark.timeout(600)
def test_the_ray_snippet_runs(ray, use_tiny, cli, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for kind, name in (("ray", "points.json"), ("configspace", "start.json")):
        Path(name).write_text(cli("suggest", "--dataset", "sklearn:digits", "--format", kind).out)
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(code, "suggest.md", "exec"), {"__name__": "__main__"})
    assert "dropout_rate" in capsys.readouterr().out
