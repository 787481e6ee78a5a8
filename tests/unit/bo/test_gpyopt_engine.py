"""GPyOpt as the engine of a run: the optimiser's contract holds, and numpy's global state stays as it was."""

import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from problems import bowl, mixed, plane

from warmstart.bo import Optimizer, gpyopt_engine
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store import extras
from warmstart.history_store.errors import UsageError

missing = find_spec("GPyOpt") is None or find_spec("GPy") is None


def needs_gpyopt(test):
    """Skip where GPyOpt is not; where it is, give it its time."""
    return pytest.mark.timeout(300)(pytest.mark.skipif(missing, reason="needs the extra gpyopt")(test))


def run(optimizer, error, n):
    configs = []
    for _ in range(n):
        config = optimizer.ask()[0]
        optimizer.tell(config, error(config))
        configs.append(json.dumps(config, sort_keys=True))
    return configs


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "GPyOpt", None)
    with pytest.raises(UsageError, match=r"needs the extra `gpyopt`: pip install 'warmstart\[gpyopt\]'"):
        Optimizer(plane(), engine="gpyopt")


def test_what_it_does_not_have_is_refused():
    with pytest.raises(UsageError, match="surrogate among gp, gp-map and an acquisition among ei, lcb, got"):
        Optimizer(plane(), engine="gpyopt", acquisition="pi")
    with pytest.raises(UsageError, match="expected engine among warmstart, gpyopt, got 'GPyOpt'"):
        Optimizer(plane(), engine="GPyOpt")


def test_what_it_would_take_no_notice_of_is_refused_but_for_runs_of_before(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: name)
    setting = {"incumbent": "observed"}
    with pytest.raises(UsageError, match=r"^incumbent: expected '.*' beside engine='gpyopt', which has no other, got"):
        Optimizer(plane(), engine="gpyopt", **setting)
    saved = Optimizer(plane(), engine="gpyopt").to_dict()
    again = Optimizer.from_dict(saved | {"settings": saved["settings"] | setting})
    assert again.to_dict() == saved


def test_the_domain_gives_back_the_same_configurations():
    encoding = Encoding(mixed(layers=3))
    domain = gpyopt_engine._Domain(encoding)
    points = encoding.sample(40, rng=np.random.default_rng(0))
    rows = domain.to_rows(points)
    assert [item["type"] for item in domain.items].count("categorical") == 1
    kind = encoding.names.index("kind")
    assert domain.items[kind]["domain"] == (0, 1, 2)
    assert set(rows[:, kind]) == {0.0, 1.0, 2.0}
    assert encoding.keys(domain.to_points(rows)) == encoding.keys(points)
    assert domain.to_points(np.full((1, encoding.p), 1.0 + 1e-9)).max() <= 1.0


@needs_gpyopt
@pytest.mark.parametrize(("surrogate", "n", "acquisition"), [("gp-map", 8, "ei"), ("gp", 1, "lcb")])
def test_initial_designs_come_first_and_the_error_falls(surrogate, n, acquisition, capfd):
    initial = [{"x": 8.0, "y": 14.0}, {"x": -4.0, "y": 1.0}, {"x": 0.0, "y": 12.0}, {"x": 9.0, "y": 2.0}]
    optimizer = Optimizer(plane(), engine="gpyopt", surrogate=surrogate, acquisition=acquisition, initial=initial)
    assert run(optimizer, bowl, 4) == [json.dumps(config, sort_keys=True) for config in initial]
    assert not set(run(optimizer, bowl, n)) & {json.dumps(config, sort_keys=True) for config in initial}
    assert n == 1 or optimizer.best.error < 0.1
    assert capfd.readouterr() == ("", "")
