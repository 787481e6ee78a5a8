"""The optimiser's contract: what it proposes, what it keeps, and that it can be interrupted anywhere."""

import copy
import json
import pickle
import subprocess
import sys
import zlib

import numpy as np
import pytest
from ConfigSpace import (
    Categorical,
    ConfigurationSpace,
    EqualsCondition,
    Float,
    Integer,
)
from problems import bowl, mixed, plane
from scipy.spatial.distance import pdist
from threadpoolctl import threadpool_info, threadpool_limits

from warmstart.bo import Observation, Optimizer, RelatedTask
from warmstart.bo.diagnostics import read_run
from warmstart.bo.models import ACQUISITIONS, TrialData
from warmstart.bo.surrogates import GaussianProcess
from warmstart.history_store.errors import DataError, SpaceExhaustedError, UsageError

NAN = float("nan")
POINTS = np.random.default_rng(2).uniform((-5.0, 0.0), (10.0, 15.0), (8, 2)).tolist()


def grid():
    space = ConfigurationSpace()
    space.add(Integer("i", (0, 3)), Integer("j", (0, 2)))
    return space


def mixed_error(config):
    return abs(np.log10(config["rate"]) + 2) + abs(config["layers"] - 4) + (config["kind"] != "adam")


def run(optimizer, error, n):
    """Ask and tell n times."""
    configs = []
    for _ in range(n):
        config = optimizer.ask()[0]
        optimizer.tell(config, error(config))
        configs.append(config)
    return configs


def told(n=6, surrogate="gp-map"):
    optimizer = Optimizer(plane(), surrogate=surrogate)
    run(optimizer, bowl, n)
    return optimizer


def keys(configs):
    return [json.dumps(config, sort_keys=True) for config in configs]


def through_json(optimizer, **keywords):
    return Optimizer.from_dict(json.loads(json.dumps(optimizer.to_dict(), allow_nan=False)), **keywords)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


# --- what is proposed ---


def test_initial_configurations_come_first_and_in_order_but_for_those_told_before():
    initial = [{"x": 1.0, "y": 2.0}, {"x": -4.25, "y": 0.1}, {"x": 1.0, "y": 2.0}, {"x": 9.0, "y": 15.0}]
    copies = [dict(config) for config in initial]
    optimizer = Optimizer(plane(), initial=initial)
    optimizer.tell(copies[1], 1.0)
    assert optimizer.ask(2) == [copies[0], copies[3]]
    assert initial == copies


@pytest.mark.parametrize(("design", "n"), [("sobol", (3, 5, 8)), ("halton", (1,) * 16)])
def test_before_anything_is_told_batches_go_on_with_one_sequence(design, n):
    """Independent points, from the fourth on, lie twice as unevenly."""
    optimizer = Optimizer(plane(), design=design, seed=4)
    configs = [config for each in n for config in optimizer.ask(each)]
    points = optimizer._encoding.encode(configs)
    sequence = optimizer._encoding.sample(16, design=design, rng=np.random.default_rng([4, zlib.crc32(b"design")]))
    np.testing.assert_allclose(points, sequence)


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_finds_the_bottom_of_a_bowl(acquisition):
    optimizer = Optimizer(plane(), surrogate="gp-map", acquisition=acquisition)
    for i in range(15):
        config = optimizer.ask()[0]
        optimizer.tell(config, bowl(config), duration=1.0 + 0.1 * i)
    assert optimizer.best.error < 0.02


def test_searches_a_mixed_conditional_space_and_keeps_to_its_clauses():
    optimizer = Optimizer(mixed(), surrogate="gp-map")
    for config in run(optimizer, mixed_error, 25):
        assert ("momentum" in config) == (config["kind"] == "sgd")
        assert (config["kind"], config["layers"]) != ("lamb", 6)
        assert all(type(value) in (int, float, str) for value in config.values())
    assert optimizer.best.error < 0.3


def test_finite_candidates_are_all_there_is():
    candidates = [{"x": float(i), "y": float(j)} for i in range(4) for j in range(3)]
    optimizer = Optimizer(plane(), surrogate="gp-map", candidates=[*candidates, candidates[0]])
    configs = run(optimizer, bowl, 12)
    assert sorted(keys(configs)) == sorted(keys(candidates))
    with pytest.raises(SpaceExhaustedError, match="expected the candidates to hold"):
        optimizer.ask()
    best = Optimizer(plane(), surrogate="gp-map", candidates=candidates)
    assert {"x": 3.0, "y": 2.0} in run(best, bowl, 8)


def test_a_space_of_one_configuration():
    space = ConfigurationSpace()
    space.add(Categorical("only", ["a"]))
    optimizer = Optimizer(space)
    assert optimizer.ask(4) == [{"only": "a"}]
    for i in range(42):  # told again and again, there is nothing to model
        optimizer.tell({"only": "a"}, float(i) if i else NAN)
    with pytest.raises(SpaceExhaustedError, match=r"got none: 42 evaluations are known"):
        optimizer.ask()
    assert optimizer.log_gain is None
    assert optimizer.converged is None


# --- what is told ---


def test_the_record_is_what_was_told():
    optimizer = Optimizer(plane())
    config = optimizer.ask()[0]
    optimizer.tell(config, np.float32(0.5), duration=3, constraints={"fits": np.True_})
    optimizer.tell({"x": 0.0, "y": 0.0}, NAN, duration=7.0)
    first, second = optimizer.history()
    assert (first.config, first.error, first.status, first.duration) == (config, 0.5, "ok", 3.0)
    assert dict(first.constraints) == {"fits": True}
    assert second.status == "failed"
    assert np.isnan(second.error)
    assert optimizer.best == first
    assert optimizer.pending == []


def test_many_evaluations_told_at_once_are_those_told_one_by_one():
    one, many = Optimizer(grid(), seed=3), Optimizer(grid(), seed=3)
    other = Optimizer(grid(), seed=4)
    configs = other.ask(5)
    for config in configs:
        one.tell(config, sum(config.values()), duration=2.0)
    many.tell_all([Observation.of(c, sum(c.values()), duration=2.0) for c in configs])
    assert many.to_dict() == one.to_dict()
    assert many.ask() == one.ask()
    with pytest.raises(DataError, match=r"expected one that the space .*allows"):
        many.tell_all([Observation.of(configs[0], 0.5), Observation.of({"nonsense": 1}, 0.5)])
    assert len(many.history()) == 5  # all or none


def test_observations_with_what_cannot_be_told_change_nothing():
    optimizer, config = Optimizer(plane()), {"x": 1.0, "y": 2.0}
    for wrong in (
        Observation(config, "0.2"),
        Observation(config, 0.2, "done"),
        Observation(config, 0.2, duration=-1.0),
        Observation(config, 0.2, constraints={"a": 3}),
    ):
        with pytest.raises(UsageError, match="tell: expected"):
            optimizer.tell_all([Observation(config, 0.5), wrong])
    for wrong in ([Observation(config, 0.5), {"config": config}], None):
        with pytest.raises(UsageError, match=r"tell_all: expected a sequence of Observation, got .*Observation\.of\("):
            optimizer.tell_all(wrong)
    optimizer.tell_all(Observation(config, error) for error in (float("-inf"), np.float32(0.5)))  # any iterable will do
    assert [told.status for told in optimizer.history()] == ["failed", "ok"]
    assert optimizer.best.error == 0.5


def test_the_best_meets_its_constraints():
    optimizer = Optimizer(plane())
    assert optimizer.best is None
    optimizer.tell({"x": 0.0, "y": 0.0}, 0.1, constraints={"fits": False})
    optimizer.tell({"x": 1.0, "y": 0.0}, NAN)
    assert optimizer.best is None
    optimizer.tell({"x": 2.0, "y": 0.0}, 0.5, constraints={"fits": True})
    assert optimizer.best.error == 0.5


def test_a_failure_is_learned():
    """A third of the plane fails; later proposals keep out of it."""
    optimizer = Optimizer(plane(), surrogate="gp-map", n_startup_trials=8)
    configs = run(optimizer, lambda config: NAN if config["x"] > 5.0 else bowl(config), 18)
    assert np.mean([config["x"] > 5.0 for config in configs[8:]]) <= 0.2
    assert optimizer.best.error < 0.1


def test_while_a_constraint_was_never_met_the_design_goes_on():
    for constraints in ({}, {"low": True}):
        optimizer, found = Optimizer(plane(), surrogate="mt-gp", seed=0, related=[related()]), []
        for number in range(9):
            (config,) = optimizer.ask()
            found.append([config["x"], config["y"]])
            told = dict.fromkeys(constraints, number % 2 == 0)
            optimizer.tell(config, NAN, constraints=told)
        assert pdist(np.array(found[1:]) / 15).min() > 0.1, "they stay nowhere"


def test_a_lost_worker_fails_and_may_still_answer():
    clock = Clock()
    optimizer = Optimizer(plane(), surrogate="gp-map", timeout=60.0, clock=clock)
    config = optimizer.ask()[0]
    resumed = through_json(optimizer, clock=clock)
    clock.now += 59.0
    assert optimizer.pending == [config]
    clock.now += 2.0
    assert optimizer.pending == []
    for each in (optimizer, resumed):
        assert [observation.status for observation in each.history()] == ["lost"]
    assert keys(optimizer.ask()) != keys([config])
    rounded = {name: value + 1e-15 for name, value in config.items()}
    optimizer.tell(rounded, 0.25)
    assert [(observation.config, observation.error) for observation in optimizer.history()] == [(rounded, 0.25)]


# --- a run is a function of its seed ---


@pytest.mark.parametrize(("surrogate", "acquisition"), [("gp", "ei"), ("gp-map", "ei-per-second")])
def test_a_resumed_run_goes_on_as_the_uninterrupted_one(surrogate, acquisition):
    """Saved with evaluations pending, failures, a constraint and durations; between two asks, and between ask and tell."""

    def error(config):
        return NAN if config["rate"] > 0.3 else mixed_error(config)

    def step(optimizer, i):
        configs = optimizer.ask(2)
        optimizer.tell(configs[0], error(configs[0]), duration=1.0 + i, constraints={"small": configs[0]["layers"] < 5})
        return configs

    initial = [{"rate": 0.5, "layers": 5, "kind": "adam"}, {"rate": 0.1234567890123, "layers": 2, "kind": "lamb"}]
    settings = {"surrogate": surrogate, "acquisition": acquisition, "initial": initial, "seed": 3}
    whole, parts = Optimizer(mixed(), **settings), Optimizer(mixed(), **settings)
    for i in range(2):
        expected = step(whole, i)
        assert step(through_json(parts), i) == step(parts, i) == expected
        parts = through_json(parts)
        assert parts.ask() == whole.ask()  # the same data again
        parts = through_json(parts)
    assert parts.to_dict() == through_json(parts).to_dict()


def test_a_seed_is_one_stream_in_any_process():
    code = "import json; from test_optimizer import *; print(json.dumps(run(start(5), mixed_error, 3)))"
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"},
    ).stdout
    assert json.loads(out) == run(start(5), mixed_error, 3) != run(start(6), mixed_error, 3)


def start(seed):
    return Optimizer(mixed(), surrogate="gp-map", n_startup_trials=2, seed=seed)


def test_a_run_can_be_pickled_and_copied():
    run = told(n=4, surrogate=GaussianProcess(inference="evidence"))
    run.tell(run.ask()[0], status="failed", duration=3.0, constraints={"fits": False})
    others = pickle.loads(pickle.dumps(run)), copy.deepcopy(run)
    assert [other.to_dict() for other in others] == [run.to_dict()] * 2
    assert [other.ask() for other in others] == [run.ask()] * 2


def test_values_of_numpy_are_saved_as_those_of_python():
    """ConfigSpace's own samples have some, and so have many tables."""
    space = ConfigurationSpace()
    space.add(
        Integer("n", (1, 9)), Float("x", (0.0, 1.0)), Categorical("b", [True, False]), Categorical("k", [1, 2, 4])
    )
    first = {"n": np.int64(3), "x": np.float32(0.5), "b": np.bool_(True), "k": np.int32(4)}
    second, third = space.sample_configuration(2)
    related = [RelatedTask([first, second], [1.0, 2.0])]
    optimizer = Optimizer(space, surrogate="mt-gp", initial=[first, second], related=related)
    assert optimizer.ask(2) == [{"n": 3, "x": 0.5, "b": True, "k": 4}, dict(second)]
    optimizer.tell(first, np.float32(0.5), duration=np.int64(3), constraints={"fits": np.bool_(True)})
    optimizer.tell(third, 1.0)
    assert {type(value) for value in optimizer.history()[0].config.values()} == {int, float, bool}
    assert through_json(optimizer).to_dict() == optimizer.to_dict()


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"surrogate": "forest"}, UsageError, "^surrogate: expected surrogate among gp, gp-map.*got 'forest'"),
        ({"ei_variance": "all"}, UsageError, "expected ei_variance among latent, predictive, got 'all'"),
        ({"seed": -1}, UsageError, "seed: expected a whole number of 0 or more, got -1"),
        ({"seed": True}, UsageError, "seed: expected a whole number of 0 or more, got True"),
        ({"timeout": np.True_}, UsageError, "timeout: expected seconds above 0, got True"),
        ({"n_startup_trials": 1.5}, UsageError, "n_startup_trials: expected a whole number"),
        ({"timeout": 0}, UsageError, "timeout: expected seconds above 0, got 0"),
        ({"initial": [{"x": 1.0, "y": 99.0}]}, DataError, "99"),
        ({"initial": [3]}, UsageError, r"initial\[0\]: expected a configuration.*got 3"),
        ({"candidates": []}, UsageError, "expected at least one candidate, got none"),
        ({"candidates": [{"x": 1.0, "z": 9.0}]}, DataError, "z"),
        (
            {"related": [RelatedTask([], [])]},
            UsageError,
            "related needs a surrogate for related tasks, mt-..., got 'gp'",
        ),
    ],
)
def test_settings_that_cannot_be_used(arguments, error, message):
    with pytest.raises(error, match=message):
        Optimizer(plane(), **arguments)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda o: o.ask(0), UsageError, "expected at least one configuration, got n=0"),
        (lambda o: o.ask(True), UsageError, "expected a whole number of configurations, got n=True"),
        (lambda o: o.tell({"x": 1.0, "z": 2.0}, 0.5), DataError, "z"),
        (lambda o: o.tell("x", 0.5), UsageError, "tell: expected a configuration.*got 'x'"),
        (lambda o: o.tell({"x": 1.0, "y": 3.0}, 10**400), UsageError, "expected error to be a number"),
        (
            lambda o: o.tell({"x": 1.0, "y": 3.0}, 0.5, duration="1s"),
            UsageError,
            "duration to be a number, got '1s'. Give a float, or leave it out",
        ),
        (
            lambda o: o.tell({"x": 1.0, "y": 3.0}, 0.5, constraints={"fits": np.ones(2)}),
            UsageError,
            "met or not, got 'fits'",
        ),
        (lambda o: o.tell({"x": 1.0, "y": 3.0}, 0.5, duration=-1), UsageError, "duration of 0 or more seconds"),
        (lambda o: o.tell({"x": 1.0, "y": 3.0}, 0.5, status="done"), UsageError, "expected status ok, failed.*'done'"),
        (lambda o: o.tell({"x": 1.0, "y": 3.0}, 0.5, constraints={"a": 0.5}), UsageError, "'a': 0.5. Give True"),
    ],
)
def test_calls_that_cannot_be_carried_out_change_nothing(call, error, message):
    optimizer = told(n=2)
    before = optimizer.to_dict()
    with pytest.raises(error, match=message):
        call(optimizer)
    assert optimizer.to_dict() == before


def test_what_was_told_unasked_counts_for_the_design():
    fresh, run = (
        Optimizer(plane(), n_startup_trials=4),
        Optimizer(plane(), n_startup_trials=4, initial=[{"x": 2.0, "y": 3.0}]),
    )
    designed = fresh.ask(4)
    for x in (1.0, 3.0):
        run.tell({"x": x, "y": 3.0}, x)
    restored = Optimizer.from_dict(run.to_dict())
    first, second, third = run.ask(3)
    assert first == {"x": 2.0, "y": 3.0}
    assert second == designed[0]
    assert third not in designed
    assert run.log_gain is not None
    assert restored.ask(3) == [first, second, third]


def test_suggestions_are_made_on_one_thread(monkeypatch):
    run, threads = Optimizer(plane()), []
    choose = run._next

    def watched(wanted):
        threads.extend(pool["num_threads"] for pool in threadpool_info())
        return choose(wanted)

    monkeypatch.setattr(run, "_next", watched)
    with threadpool_limits(2):
        run.ask()
    assert threads
    assert set(threads) == {1}


def test_what_an_interrupted_ask_had_chosen_is_asked_for_next(monkeypatch):
    """Nobody got it: it is not pending, and nothing is lost."""
    initial = [{"x": 1.0, "y": 2.0}]
    run, other = (Optimizer(plane(), surrogate="gp-map", initial=initial, seed=2) for _ in range(2))
    for i in range(5):
        for each in (run, other):
            each.tell({"x": float(i), "y": 0.0}, float(i % 3))
    choose, calls = run._next, []

    def interrupted(wanted):
        calls.append(wanted)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return choose(1)

    monkeypatch.setattr(run, "_next", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.ask(4)
    assert run.pending == []
    assert run.log_gain is None
    monkeypatch.setattr(run, "_next", choose)
    assert through_json(run).ask() == initial
    assert [run.ask()[0] for _ in range(4)] == [other.ask()[0] for _ in range(4)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "expected a record of version 1, got 2.*upgrade"),
        ({"history": [{"config": {}}]}, "got a damaged record"),
        ({"models": {"errors": {}}}, "got a damaged record"),
    ],
)
def test_records_that_are_none(change, message):
    with pytest.raises(DataError, match=message):
        Optimizer.from_dict(told(n=4).to_dict() | change)
    with pytest.raises(DataError, match="got 'list'"):
        Optimizer.from_dict([])


def test_a_record_whose_surrogate_has_no_name_says_what_is_lacking():
    saved = Optimizer(plane(), surrogate=GaussianProcess()).to_dict()
    assert Optimizer.from_dict(saved, surrogate=GaussianProcess()).to_dict() == saved
    with pytest.raises(UsageError, match=r"surrogate is one of gp, .*, got 'GaussianProcess', .* Give it: from_dict\("):
        Optimizer.from_dict(saved)
    with pytest.raises(UsageError, match=r"^run: .*, got 'GaussianProcess', .* Make it an entry point of"):
        read_run(saved)


def test_importing_loads_nothing_heavy():
    code = "import sys, warmstart.bo; print([m for m in ('numpy', 'scipy', 'ConfigSpace') if m in sys.modules]); warmstart.bo.Optimizer; print([m for m in ('scipy', 'torch', 'ConfigSpace') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["[]", "[]"]


# --- constraints and related tasks ---


def with_missed(*, error):
    """An optimiser that was told of misses where x > 0, with an error."""
    optimizer, rng = Optimizer(plane(), seed=1), np.random.default_rng(2)
    for x, y in zip(rng.uniform(-5, 10, 12).tolist(), rng.uniform(0, 15, 12).tolist(), strict=True):
        config = {"x": x, "y": y}
        known = bowl(config) if x <= 0 else error if error is None else error(config)
        status = "failed" if known is None else "ok"
        optimizer.tell(config, known, status=status, constraints={"fits": x <= 0})
    return optimizer


def predicted(optimizer, config):
    """The mean and standard deviation that the models expect."""
    data = optimizer._log.data()
    prediction, units = optimizer._fitted.predict(data, optimizer._log.columns(optimizer._encoding.encode([config])))
    band = units.band(prediction)
    return float(band.mean[0]), float(band.sd[0])


def test_a_missed_constraint_needs_no_error():
    optimizer = Optimizer(plane(), seed=0)
    config = optimizer.ask()[0]
    optimizer.tell(config, constraints={"fits": False})
    (only,) = optimizer.history()
    assert (only.status, only.valid, optimizer.best) == ("ok", False, None)
    again = Optimizer.from_dict(json.loads(json.dumps(optimizer.to_dict())))
    assert (again.history()[0].status, again.history()[0].constraints) == ("ok", {"fits": False})
    assert np.isnan(again.history()[0].error)
    run(again, bowl, 5)
    optimizer.tell(optimizer.ask()[0], NAN, constraints={"fits": False})
    assert optimizer.history()[1].status == "failed", "an error that is no number is a failure"
    with pytest.raises(UsageError, match="expected error to be a number, got None"):
        optimizer.tell(optimizer.ask()[0], constraints={"fits": True})


def test_a_constraint_that_is_told_only_where_it_is_missed_is_learned_as_if_it_were_always_told():
    asked = []
    for met in (None, {"fits": True}):
        optimizer = Optimizer(plane(), seed=0, surrogate="gp-map")
        for x, y in POINTS:
            config = {"x": x, "y": y}
            if x > 0:
                optimizer.tell(config, constraints={"fits": False})
            else:
                optimizer.tell(config, bowl(config), constraints=met)
        asked.append(optimizer.ask())
    assert asked[0] == asked[1]


def test_an_error_that_comes_with_a_missed_constraint_tells_of_errors_there():
    """But the best is one that meets it, and a penalty counts as the worst of these at most."""
    there = {"x": 4.0, "y": 5.0}
    unknown, known, punished = (with_missed(error=error) for error in (None, bowl, lambda config: 1e9))
    assert predicted(known, there)[1] < 0.5 * predicted(unknown, there)[1]
    worst = max(told.error for told in punished.history() if told.valid)
    assert predicted(punished, there)[0] < 1.5 * worst
    assert known.best.config["x"] <= 0
    assert known.ask()[0]["x"] < 2.0


def related(meta=None):
    rng = np.random.default_rng(0)
    configs = [
        {"x": float(x), "y": float(y)} for x, y in zip(rng.uniform(-5, 10, 25), rng.uniform(0, 15, 25), strict=True)
    ]
    return RelatedTask(configs, [NAN, *(100 + 10 * bowl(config) for config in configs[1:])], meta)


def test_related_tasks_give_the_first_suggestion():
    """The related task's best region comes first; a run with related tasks resumes too."""
    meta = [0.5, 1.0]
    settings = {"surrogate": "mt-gp", "related": [related(meta=meta)], "meta_feature": meta}
    optimizer = Optimizer(plane(), **settings)
    config = optimizer.ask()[0]
    assert bowl(config) < 0.5
    optimizer.tell(config, bowl(config))
    assert through_json(optimizer).ask() == optimizer.ask()


@pytest.mark.parametrize(
    ("tasks", "meta", "error", "message"),
    [
        ([related(meta=[1.0, 2.0])], None, UsageError, r"of one length.*got none, \(2,\)"),
        ([related(meta=[1.0]), related(meta=[NAN])], [1.0], DataError, r"^related\[1\].meta_feature: expected finite numbers in one row, got \[nan\]"),
        ([RelatedTask([{"x": 1.0, "y": 1.0}], [1.0, 2.0])], None, UsageError, r"one error a configuration \(1\), got shape \(2,\)"),
        ([RelatedTask([{"x": 1.0, "y": 1.0}], ["a"])], None, UsageError, r"related\[0\].errors: expected numbers in one row, got \['a'\]. Give floats"),
        ([RelatedTask([[1.0, 1.0]], [1.0])], None, UsageError, r"related\[0\].configs\[0\]: expected a configuration, values by name, got \[1.0, 1.0\]"),
        ([([{"x": 1.0, "y": 1.0}], [1.0])], None, UsageError, r"expected a sequence of RelatedTask, .*Give a list with RelatedTask\("),
    ],
)  # fmt: skip
def test_related_tasks_that_cannot_be_used(tasks, meta, error, message):
    with pytest.raises(error, match=message):
        Optimizer(plane(), surrogate="mt-gp", related=tasks, meta_feature=meta)


def test_choices_that_are_tuples_come_back_from_json():
    space = ConfigurationSpace()
    space.add(Categorical("kernel", [(3, 3), (5, (1, 1))]), Float("x", (0.0, 1.0)))
    space.add(EqualsCondition(space["x"], space["kernel"], (3, 3)))
    run = Optimizer(space, seed=3)
    config = run.ask()[0]
    again = Optimizer.from_dict(json.loads(json.dumps(run.to_dict())))
    assert again.pending == run.pending == [config]
    assert again.ask() == run.ask()
    for each in (run, again):
        each.tell(config, 0.3)
        each.tell({"kernel": [5, [1, 1]]}, 0.2)
        assert each.best is not None
        assert each.best.config == {"kernel": (5, (1, 1))}


def test_a_search_whose_errors_are_all_the_same_says_so():
    space = ConfigurationSpace({"x": (0.0, 1.0)})
    run = Optimizer(space)
    for i in range(40):
        assert run.converged is None
        run.tell({"x": i / 40}, 0.25)
    assert run.converged == "all 40 evaluations gave the same error: stop, and see whether the objective heeds its configuration"  # fmt: skip
    run.tell({"x": 1.0}, 0.2)
    assert run.converged is None


def score(optimizer, config):
    """Value of a configuration by what a run believes."""
    encoding = optimizer._encoding
    evidence = TrialData(
        optimizer.history(),
        optimizer._log.columns(optimizer._log.points),
        optimizer._log.columns([]),
        optimizer._log.revision,
    )
    function, _ = optimizer._fitted.acquisition_function(evidence, rng=np.random.default_rng(0))
    return function.value(encoding.columns(encoding.encode([config])))[0]


@pytest.mark.parametrize("surrogate", ["gp", "dngo"])
def test_a_batch_that_seeks_validity_alone_is_no_single_point(surrogate):
    """What is pending counts as missed: of two constraints that exclude each other where they were looked at, each point tries another way."""
    optimizer = Optimizer(plane(), surrogate=surrogate, seed=0)
    for x, y in ((-3.5, 1.5), (8.5, 3.0), (-2.0, 13.5), (7.0, 12.0)):
        optimizer.tell({"x": x, "y": y}, 1.0, constraints={"left": x < 2.5, "right": x > 2.5})
    before = through_json(optimizer)
    batch = optimizer.ask(4)
    assert pdist(np.array([[config["x"], config["y"]] for config in batch]) / 15).min() > 0.02
    assert before.ask(4) == batch


def test_two_labels_tell_where_they_are_beside_networks_too():
    optimizer = Optimizer(plane(), surrogate="dngo", seed=0)
    ends = [{"x": 9.5, "y": 7.5}, {"x": -4.5, "y": 7.5}]
    for config in ends:
        optimizer.tell(config, 1.0, constraints={"left": config["x"] < 2.5})
    columns = optimizer._log.columns(optimizer._encoding.encode(ends))
    assert optimizer._fitted.first_valid(optimizer._log.data(), columns) == 1


def test_a_first_batch_of_a_latin_hypercube_is_one_of_its_size():
    optimizer = Optimizer(plane(), design="latin", seed=0)
    for n in (16, 8):  # before anything is known, the next one is another
        batch = optimizer.ask(n)
        assert sorted(int((config["x"] + 5.0) / 15.0 * n) for config in batch) == list(range(n))


def test_its_repr_says_how_far_it_is():
    optimizer = Optimizer(plane(), seed=0)
    assert repr(optimizer) == "<Optimizer 'gp': 0 told, 0 pending>"
    first, _ = optimizer.ask(2)
    optimizer.tell(first, 0.25)
    assert repr(optimizer) == "<Optimizer 'gp': 1 told, 1 pending, best error 0.25>"


def test_a_process_with_thousands_of_evaluations_is_warned_of_once(monkeypatch):
    monkeypatch.setattr("warmstart.bo.optimizer.PROCESS_LIMIT", 4)
    optimizer = told(n=5)
    with pytest.warns(RuntimeWarning, match="5 evaluations are many for 'gp-map'.*Use surrogate='dngo'"):
        optimizer.ask()
    optimizer.ask()


def test_the_variance_of_improvement_is_a_setting_that_is_saved():
    """Under noise, only what would be observed promises to improve on a point that was told again and again."""
    scores = {}
    for variance in ("latent", "predictive"):
        optimizer = Optimizer(plane(), ei_variance=variance, seed=0)
        for seed in range(12):
            optimizer.tell({"x": 3.0, "y": 5.0}, float(np.random.default_rng(seed).standard_normal()))
        for at in (-4.0, 0.0, 8.0):
            optimizer.tell({"x": at, "y": 5.0}, 3.0 + 0.1 * at)
        resumed = through_json(optimizer)
        scores[variance] = score(resumed, {"x": 3.0, "y": 5.0})
        assert resumed.ask() == optimizer.ask()
        older = optimizer.to_dict()
        del older["settings"]["ei_variance"]
        assert Optimizer.from_dict(older).to_dict()["settings"]["ei_variance"] == "latent"
    assert scores["predictive"] > scores["latent"]
