"""GPyOpt as the engine of a run: the optimiser's contract holds, and numpy's global state stays as it was."""

# ruff: noqa: NPY002  the global generator is what is looked at

import json
import logging
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Integer
from problems import bowl, mixed, plane

from warmstart.bo import Optimizer, gpyopt_engine
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store import extras
from warmstart.history_store.errors import SpaceExhaustedError, UsageError

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


@pytest.mark.parametrize("wrong", [{"surrogate": "dngo"}, {"acquisition": "pi"}])
def test_what_it_does_not_have_is_refused(wrong):
    with pytest.raises(UsageError, match="surrogate among gp, gp-map and an acquisition among ei, lcb, got"):
        Optimizer(plane(), engine="gpyopt", **wrong)
    with pytest.raises(UsageError, match="expected engine among warmstart, gpyopt, got 'GPyOpt'"):
        Optimizer(plane(), engine="GPyOpt")


@pytest.mark.parametrize("setting", [{"incumbent": "observed"}, {"ei_variance": "predictive"}])
def test_what_it_would_take_no_notice_of_is_refused_but_for_runs_of_before(setting, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: name)
    (name,) = setting
    with pytest.raises(UsageError, match=rf"^{name}: expected '.*' beside engine='gpyopt', which has no other, got"):
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
@pytest.mark.parametrize(("surrogate", "n"), [("gp-map", 8), ("gp", 1)])
@pytest.mark.parametrize("acquisition", ["ei", "lcb"])
def test_initial_designs_come_first_and_the_error_falls(surrogate, n, acquisition, capfd):
    initial = [{"x": 8.0, "y": 14.0}, {"x": -4.0, "y": 1.0}, {"x": 0.0, "y": 12.0}, {"x": 9.0, "y": 2.0}]
    optimizer = Optimizer(plane(), engine="gpyopt", surrogate=surrogate, acquisition=acquisition, initial=initial)
    assert run(optimizer, bowl, 4) == [json.dumps(config, sort_keys=True) for config in initial]
    assert not set(run(optimizer, bowl, n)) & {json.dumps(config, sort_keys=True) for config in initial}
    assert n == 1 or optimizer.best.error < 0.1
    assert capfd.readouterr() == ("", "")


@needs_gpyopt
def test_conditions_clauses_failures_and_pending_evaluations_are_minded():
    space = mixed(layers=3)
    optimizer = Optimizer(space, engine="gpyopt", surrogate="gp-map", n_startup_trials=4, seed=1)
    seen = []
    for turn in range(4):
        for config in optimizer.ask(2):
            assert ("momentum" in config) == (config["kind"] == "sgd")
            assert not (config["kind"] == "lamb" and config["layers"] == 3)
            seen.append(json.dumps(config, sort_keys=True))
            optimizer.tell(config, np.nan if turn == 1 else abs(np.log10(config["rate"]) + 2) + config["layers"])
    assert len(set(seen)) == 8


@needs_gpyopt
def test_a_run_depends_on_its_seed_alone_and_goes_on_after_a_save():
    filters, level, state = list(warnings.filters), logging.root.manager.disable, np.random.get_state()

    def started():
        optimizer = Optimizer(plane(), engine="gpyopt", surrogate="gp-map", seed=3)
        return optimizer, run(optimizer, bowl, 4)

    first, configs = started()
    np.random.seed(17)
    second, again = started()
    assert configs == again
    resumed = Optimizer.from_dict(json.loads(json.dumps(first.to_dict())))
    assert run(resumed, bowl, 2) == run(second, bowl, 2)
    np.random.seed(17)
    untouched = np.random.random()
    np.random.seed(17)
    second.ask()
    assert np.random.random() == untouched
    np.random.set_state(state)
    assert (warnings.filters, logging.root.manager.disable) == (filters, level)


@needs_gpyopt
def test_finite_candidates_are_all_proposed_once():
    space = ConfigurationSpace()
    space.add(Integer("i", (0, 3)), Integer("j", (0, 2)))
    every = [{"i": i, "j": j} for i in range(4) for j in range(3)]
    for candidates in (every[::2], None):
        optimizer = Optimizer(space, engine="gpyopt", surrogate="gp-map", candidates=candidates)
        configs = run(optimizer, lambda config: (config["i"] - 2) ** 2 + config["j"], len(candidates or every))
        assert sorted(configs) == sorted(json.dumps(config, sort_keys=True) for config in candidates or every)
        with pytest.raises(SpaceExhaustedError):
            optimizer.ask()


@needs_gpyopt
@pytest.mark.parametrize("values", [[1.0] * 5, [1e300, -1e300, 1e-300, 0.0, 1.0], [np.nan] * 5])
def test_odd_errors_give_a_finite_proposal(values):
    optimizer = Optimizer(plane(), engine="gpyopt", surrogate="gp-map", n_startup_trials=5)
    for value in values:
        optimizer.tell(optimizer.ask()[0], value)
    config = optimizer.ask()[0]
    assert Encoding(plane()).valid(Encoding(plane()).encode([config]))[0]
