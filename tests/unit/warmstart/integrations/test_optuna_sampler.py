"""The sampler's promises beyond Optuna's conformance suite: what it reads in trials, and that it keeps nothing else."""

import json
import logging
import math
import pickle
import subprocess
import sys
import threading

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from problems import bowl, mixed, plane

from warmstart.bo import Optimizer, RelatedTask
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.errors import DataError, UsageError
from warmstart.integrations.optuna import sampler as optuna_sampler
from warmstart.integrations.optuna.problem import Problem, read_trials
from warmstart.integrations.optuna.sampler import WarmStartSampler
from warmstart.integrations.optuna.space import to_distributions, to_space
from warmstart.studies.state.attributes import CHECKPOINT, CLAIM

PLANE = {"x": FloatDistribution(-5.0, 10.0), "y": FloatDistribution(0.0, 15.0)}
GRID = {"i": IntDistribution(0, 3), "j": CategoricalDistribution(("a", "b", "c"))}


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def sampler(**settings):
    return WarmStartSampler(**{"surrogate": "gp-map", "seed": 0} | settings)


def study_of(**settings):
    return optuna.create_study(sampler=sampler(**settings))


def conditional(trial):
    """A rate always, a momentum for one of two kinds; least 0 for adam at 0.01."""
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    kind = trial.suggest_categorical("kind", ["sgd", "adam"])
    error = abs(math.log10(rate) + 2)
    return error + 0.5 + trial.suggest_float("momentum", 0.0, 0.9) if kind == "sgd" else error


def params(study):
    return [trial.params for trial in study.trials]


# --- what is sampled ---


def test_a_stated_space_is_sampled_from_the_first_trial_with_its_conditions_and_clauses():
    study, encoding = study_of(space=mixed()), Encoding(mixed())
    for i in range(8):
        trial = study.ask()
        config = {name: trial._suggest(name, d) for name, d in to_distributions(mixed()).items() if name != "momentum"}
        if config["kind"] == "sgd":
            config["momentum"] = trial.suggest_float("momentum", 0.0, 0.99)
        assert config == study.trials[-1].system_attrs[CLAIM]
        encoding.encode([config])  # raises where a clause forbids it
        study.tell(trial, config["rate"] + i)


def test_what_the_optimizer_can_be_told_the_sampler_can(monkeypatch):
    """`restarts` and `warp_errors` reach it; what does not fit is refused when the sampler is made."""
    made = []
    monkeypatch.setattr(
        "warmstart.integrations.optuna.sampler.Optimizer",
        lambda *args, **settings: made.append(settings) or Optimizer(*args, **settings),
    )
    study = study_of(space=plane(), restarts=False, warp_errors=False)
    study.optimize(lambda trial: trial.suggest_float("x", -5.0, 10.0), n_trials=1)
    assert len(made) == 2
    assert all((each["restarts"], each["warp_errors"]) == (False, False) for each in made)
    with pytest.raises(UsageError, match="expected True or False, got 'no'"):
        sampler(restarts="no")


def test_shown_conditions_are_searched_and_the_best_is_found():
    study = study_of()
    study.optimize(conditional, n_trials=20)
    assert study.best_value < 0.05
    relative = [trial.system_attrs[CLAIM] for trial in study.trials[4:]]
    assert all(("momentum" in config) == (config["kind"] == "sgd") for config in relative)


def test_initial_configurations_come_first_then_what_was_enqueued_counts_as_start():
    initial = [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.0}]
    study = study_of(space=plane(), initial=initial)
    study.enqueue_trial({"x": 9.0, "y": 9.0})
    study.optimize(lambda trial: bowl({n: trial._suggest(n, d) for n, d in PLANE.items()}), n_trials=4)
    assert params(study)[:3] == [{"x": 9.0, "y": 9.0}, *initial]
    assert len(study.trials[3].system_attrs[CHECKPOINT]["models"]) == 1  # the surrogate was asked


def test_related_tasks_give_the_first_suggestion():
    configs = Optimizer(plane(), n_startup_trials=20, seed=3).ask(20)
    related = [RelatedTask(configs, [bowl(config) for config in configs])]
    study = study_of(space=plane(), surrogate="mt-gp", related=related)
    assert bowl(study.ask(PLANE).params) < 0.3


@pytest.mark.parametrize(
    ("distribution", "share"),
    [
        (FloatDistribution(1e-14, 1.0, log=True), lambda value: math.log10(value) / 14 + 1),
        (FloatDistribution(0.0, 1.0, step=1e-6), lambda value: value),
        (FloatDistribution(-1.7e308, 1.7e308), lambda value: value / 1.7e308 / 2 + 0.5),
        (IntDistribution(0, 10**5, step=2), lambda value: value / 10**5),
        (IntDistribution(1, 2**100, log=True), lambda value: math.log2(value) / 100),
    ],
)
def test_numbers_that_configspace_cannot_express_are_drawn_from_the_design_too(distribution, share):
    study = optuna.create_study(sampler=sampler())
    values = [study.ask()._suggest("p", distribution) for _ in range(16)]
    assert all(distribution._contains(distribution.to_internal_repr(value)) for value in values)
    assert sorted(min(int(16 * share(value)), 15) for value in values) == list(range(16))


# --- what is read ---


def known(study, space=None):
    space = plane() if space is None else space
    return read_trials(study.trials, Problem(space, to_distributions(space), True), study.direction)


def test_failures_prunings_and_what_runs_are_read():
    study = optuna.create_study()
    at = {"distributions": PLANE}
    study.add_trial(create_trial(params={"x": 0.0, "y": 1.0}, value=0.5, **at))
    study.add_trial(create_trial(params={"x": 1.0, "y": 1.0}, state=TrialState.FAIL, **at))
    study.add_trial(create_trial(params={"x": 2.0, "y": 1.0}, state=TrialState.PRUNED, intermediate_values={1: 9.0, 3: 7.0, 2: 8.0}, **at))  # fmt: skip
    study.add_trial(create_trial(params={"x": 3.0, "y": 1.0}, state=TrialState.PRUNED, **at))
    study.add_trial(create_trial(params={"x": 4.0, "y": 1.0}, state=TrialState.PRUNED, intermediate_values={1: math.nan}, **at))  # fmt: skip
    study.add_trial(create_trial(params={"x": 5.0, "y": 1.0}, value=math.inf, **at))
    study.add_trial(create_trial(params={"x": 6.0, "y": 1.0}, state=TrialState.RUNNING, **at))
    study.enqueue_trial({"x": 7.0, "y": 1.0, "unknown": 3})
    study.add_trial(create_trial(params={"x": 8.0}, distributions={"x": PLANE["x"]}, state=TrialState.FAIL))
    study.add_trial(create_trial(params={"x": 9.0}, distributions={"x": PLANE["x"]}, value=1.0))
    found = known(study)
    assert [(told.config["x"], told.status, told.error) for told in found.observations if told.status == "ok"] == [
        (0.0, "ok", 0.5),
        (2.0, "ok", 7.0),
    ]
    assert [told.config["x"] for told in found.observations if told.status == "failed"] == [1.0, 3.0, 4.0, 5.0]
    assert [config["x"] for config in found.pending] == [6.0, 7.0]
    assert found.unread == (9,)


def test_values_to_maximise_are_negated():
    study = optuna.create_study(direction="maximize")
    study.add_trial(create_trial(params={"x": 0.0, "y": 1.0}, distributions=PLANE, value=0.5))
    assert known(study).observations[0].error == -0.5


def test_constraints_are_met_at_zero_whoever_says_them():
    study = optuna.create_study(sampler=sampler(constraints_func=lambda trial: (trial.params["x"] - 1.0, -1.0)))
    for x in (0.0, 1.0, 2.0):
        study.enqueue_trial({"x": x, "y": 1.0})
        study.tell(study.ask(PLANE), 0.0)
    assert [told.constraints for told in known(study).observations] == [{"0": x <= 1, "1": True} for x in (0, 1, 2)]
    study = optuna.create_study(sampler=sampler())
    trial = study.ask(PLANE)
    trial.set_constraint("memory", 0.5)
    study.tell(trial, 0.0)
    assert [told.constraints for told in known(study).observations] == [{"memory": False}]


def test_the_suggestion_keeps_away_from_where_constraints_are_missed():
    study = study_of(space=plane(), constraints_func=lambda trial: (trial.params["x"],))
    study.optimize(lambda trial: bowl({n: trial._suggest(n, d) for n, d in PLANE.items()}), n_trials=15)
    feasible = [trial.value for trial in study.trials if trial.params["x"] <= 0]
    assert min(feasible) < 0.4  # 0.36 on the border


def test_a_trial_of_another_space_is_passed_over_and_named_once(caplog):
    study = study_of(space=plane())
    study.add_trial(create_trial(params={"z": 0.0}, distributions={"z": PLANE["x"]}, value=0.5))
    with caplog.at_level(logging.WARNING, "warmstart"):
        study.ask(PLANE)
        study.ask(PLANE)
    assert [record.getMessage() for record in caplog.records] == [
        "trial 0: its parameters are no configuration of the space, and it is passed over"
    ]


@pytest.mark.parametrize("space", [None, True])
@pytest.mark.parametrize(
    "params", [{"x": math.nan}, {"x": math.inf}, {"n": 10**30}, {"c": {"name": "a"}}, {"c": ["a"]}, {"y": [1]}]
)
@pytest.mark.filterwarnings("ignore:Fixed parameter")
def test_what_cannot_be_a_value_spoils_no_other_trial(space, params):
    distributions = {
        "x": FloatDistribution(0, 1, step=0.1),
        "y": FloatDistribution(1e-5, 1, log=True),
        "n": IntDistribution(1, 8),
        "c": CategoricalDistribution(["a", "b"]),
    }
    study = study_of(space=distributions if space else None)

    def objective(trial):
        return sum(float(trial._suggest(name, each) != "a") for name, each in distributions.items())

    study.optimize(objective, n_trials=1)
    study.enqueue_trial(params)
    study.enqueue_trial(params)
    study.optimize(objective, n_trials=5, catch=(ValueError, TypeError))
    states = [trial.state for trial in study.trials]
    assert [states[0], *states[3:]] == [TrialState.COMPLETE] * 4
    read = known(study, to_space(distributions))
    assert len(read.observations) == 4
    assert read.pending == ()


# --- nothing is proposed twice ---


@pytest.mark.parametrize("space", [None, GRID])
def test_hyperband_shows_one_bracket_and_what_is_in_others_is_known_too(space):
    """Optuna hands the sampler a study of the trial's bracket alone."""
    wide = {"i": IntDistribution(0, 3), "j": CategoricalDistribution(("a", "b", "c"))}
    initial = [] if space is None else [{"i": 2, "j": "b"}]
    study = optuna.create_study(
        study_name="hyperband",
        sampler=sampler(space=space, initial=initial),
        pruner=optuna.pruners.HyperbandPruner(min_resource=1, max_resource=27),
    )

    def objective(trial):
        error = trial._suggest("i", wide["i"]) + "abc".index(trial._suggest("j", wide["j"]))
        trial.report(error, 1)
        if trial.should_prune():
            raise optuna.TrialPruned
        return error

    study.optimize(objective, n_trials=12)
    brackets = {study.pruner._get_bracket_id(study, trial) for trial in study.trials}
    assert len(brackets) > 1
    assert (
        len({tuple(trial.params.items()) for trial in study.trials[1:]}) == 11
    )  # the first of a learned space is drawn
    if initial:
        assert [trial.params == initial[0] for trial in study.trials] == [True] + 11 * [False]
        asked = [len(trial.system_attrs[CHECKPOINT]["models"]) for trial in study.trials]
        assert asked[:3] == [0, 0, 0]
        assert all(asked[3:])  # three startup trials of the study, not of each bracket


def test_trials_that_run_at_once_differ_until_the_space_is_exhausted(caplog):
    study = study_of()
    study.tell(study.ask(GRID), 1.0)
    running = [study.ask(GRID) for _ in range(11)]
    assert len({tuple(trial.params.items()) for trial in study.trials}) == 12
    with caplog.at_level(logging.WARNING, "warmstart"):
        again = study.ask(GRID)
    assert "trial 12: every configuration was proposed already" in caplog.text
    assert again.params == study.trials[0].params  # the only one that is not running
    assert len(running) == 11


def test_of_two_that_choose_the_last_configuration_at_once_the_earlier_keeps_it(monkeypatch):
    study = study_of(space=to_space(GRID))
    for _ in range(11):
        study.tell(study.ask(GRID), 1.0)
    note, both, seen = optuna_sampler._store_attribute, threading.Barrier(2), set()

    def note_together(study, trial, key, value):
        note(study, trial, key, value)
        if key == CLAIM and trial.number not in seen:
            seen.add(trial.number)
            both.wait(200)  # each looks when the other has chosen

    monkeypatch.setattr(optuna_sampler, "_store_attribute", note_together)
    workers = [threading.Thread(target=study.ask, args=(GRID,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(200)
    claims = [tuple(sorted(trial.system_attrs[CLAIM].items())) for trial in study.trials]
    assert len(set(claims[:12])) == 12
    assert claims[12] in claims[:11]


def grid(trial):
    return trial.suggest_int("i", 0, 3) + "abc".index(trial.suggest_categorical("j", ["a", "b", "c"]))


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_study_stops_where_every_configuration_of_a_stated_space_had_its_trial(jobs):
    study = study_of(space=to_space(GRID))
    study.optimize(grid, n_trials=20, n_jobs=jobs)
    assert len({tuple(sorted(trial.params.items())) for trial in study.trials}) == 12
    assert 12 <= len(study.trials) < 12 + jobs  # a thread may have asked before the last one ended
    assert study.best_value == 0


# --- one stream ---


STREAM = """
import json, sys, optuna
from test_optuna_sampler import *
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(study_name="s", storage=sys.argv[1], load_if_exists=True, sampler=sampler())
study.optimize(conditional, n_trials=int(sys.argv[2]))
print(json.dumps(params(study)))
"""


def stream(storage, n):
    run = subprocess.run(
        [sys.executable, "-c", STREAM, storage, str(n)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": str(n), "OMP_NUM_THREADS": "1"},
    )
    return json.loads(run.stdout)


def test_another_process_goes_on_with_the_same_stream(tmp_path):
    whole = optuna.create_study(sampler=sampler())
    whole.optimize(conditional, n_trials=9)
    storage = f"sqlite:///{tmp_path / 's.db'}"
    part = optuna.create_study(study_name="s", storage=storage, sampler=sampler())
    part.optimize(conditional, n_trials=6)
    assert stream(storage, 3) == params(whole)


def test_a_sampler_of_several_studies_suggests_to_each_what_it_would_alone():
    """In turn, with as many trials, in the same states and at first of the same configurations."""

    def of(x):
        return abs(x - 0.1)

    def step(study, error):
        trial = study.ask()
        study.tell(trial, error(trial.suggest_float("x", 0.0, 1.0)))

    kinds = (("minimize", of), ("minimize", lambda x: 1.0 - of(x)), ("maximize", of))
    space, shared = {"x": [0.0, 1.0]}, sampler(space={"x": [0.0, 1.0]})
    together = [optuna.create_study(sampler=shared, direction=direction) for direction, _ in kinds]
    alone = [optuna.create_study(sampler=sampler(space=space), direction=direction) for direction, _ in kinds]
    for _ in range(5):
        for studies in (together, alone):
            for study, (_, error) in zip(studies, kinds, strict=True):
                step(study, error)
    assert [params(study) for study in together] == [params(study) for study in alone]
    assert params(alone[0]) != params(alone[1])


def test_a_study_can_be_pickled():
    study = study_of()
    study.optimize(conditional, n_trials=4)
    again = pickle.loads(pickle.dumps(study))
    for each in (study, again):
        each.optimize(conditional, n_trials=2)
    assert params(again) == params(study)


def test_a_trial_keeps_its_suggestion_whatever_was_told_since():
    """Parameters that its process stored before it ended must not meet those of another suggestion."""
    study, distributions = study_of(space=mixed()), to_distributions(mixed())

    def tell_some(*errors):
        for error in errors:
            trial = study.ask()
            for name in trial.relative_params:
                trial._suggest(name, distributions[name])
            study.tell(trial, error)

    tell_some(0.5, 0.1, 0.9, 0.3)
    lost = study.ask()
    lost.suggest_float("rate", 1e-4, 1.0, log=True)  # and here its process ended
    tell_some(0.8, 0.7, 0.01, 0.6)
    again = optuna.trial.Trial(study, lost._trial_id)
    assert again.relative_params == study.trials[4].system_attrs[CLAIM]
    assert again.relative_params["rate"] == lost.params["rate"]
    Encoding(mixed()).encode([again.relative_params])


def test_seeds(monkeypatch):
    def first(**settings):
        study = study_of(space=plane(), **settings)
        return study.ask(PLANE).params

    assert first(seed=1) == first(seed=1) != first(seed=2)
    assert first(seed=None) != first(seed=None)
    fixed, free = sampler(seed=1), sampler(seed=None)
    seeds = fixed._seed, free._seed
    for each in (fixed, free):
        each.reseed_rng()  # as Optuna does before each trial of several threads
    assert (fixed._seed, free._seed) == seeds
    monkeypatch.setattr("os.getpid", lambda: -1)
    for each in (fixed, free):
        each.reseed_rng()
    assert fixed._seed == seeds[0]
    assert free._seed != seeds[1]


# --- what cannot be used ---


@pytest.mark.parametrize("space", [None, GRID])
def test_several_objectives_are_searched_without_initial_configurations_or_a_gain(space):
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler(space=space))
    study.enqueue_trial({"i": 1, "j": "a"})
    study.optimize(lambda trial: (grid(trial), 1.0), n_trials=12)
    assert len(study.trials) == 12
    with pytest.raises(ValueError, match="multi-objective"):
        study.sampler.log_gain(study)
    study.sampler = sampler(space=GRID, initial=[{"i": 1, "j": "a"}])
    with pytest.raises(UsageError, match="expected one objective with `initial`"):
        study.optimize(lambda trial: (grid(trial), 1.0), n_trials=1)


def test_workers_that_choose_at_the_same_moment_keep_what_each_forecast(monkeypatch):
    note, held = optuna_sampler._store_attribute, []

    def late(study, trial, key, value):
        is_held = key == CHECKPOINT and trial.number == 1
        held.append((study, trial, key, value)) if is_held else note(study, trial, key, value)

    configs = [{"x": x, "y": y} for x in (-3.0, 0.0, 3.0, 8.0) for y in (1.0, 6.0)]
    related = [RelatedTask(configs, [bowl(config) for config in configs])]
    study = study_of(space=plane(), surrogate="mt-gp", related=related)
    study.tell(first := study.ask(PLANE), bowl(first.params))
    monkeypatch.setattr(optuna_sampler, "_store_attribute", late)
    pair = [study.ask(PLANE), study.ask(PLANE)]  # the second one chooses before the first one has said what it forecast
    note(*held[0])
    for trial in pair:
        study.tell(trial, bowl(trial.params))
    study.ask(PLANE)
    one, other, after = (trial.system_attrs[CHECKPOINT]["models"]["forecasts"] for trial in study.trials[1:])
    assert len(one.keys() | other.keys()) == 2
    assert after == one | other | after
    assert len(after) == 3


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"initial": [{"x": 1.0}]}, UsageError, "expected a space for the initial configurations, got none"),
        (
            {"surrogate": "mt-gp", "related": [RelatedTask([], [])]},
            UsageError,
            "expected a space for the related tasks",
        ),
        ({"surrogate": "forest"}, UsageError, "expected surrogate among"),
        ({"n_startup_trials": -1}, UsageError, "n_startup_trials: expected a whole number of 0 or more"),
        ({"space": plane(), "initial": [{"x": 99.0, "y": 0.0}]}, DataError, r"initial|configuration \{'x': 99"),
    ],
)
def test_settings_that_cannot_be_used(settings, error, message):
    with pytest.raises(error, match=message):
        WarmStartSampler(**settings)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_what_another_sampler_fixes_is_left_out_of_a_stated_space():
    space = {"x": FloatDistribution(0, 1), "n": IntDistribution(1, 8), "m": IntDistribution(1, 8)}
    own = sampler(space=space, initial=[{"x": 0.1, "n": 3, "m": 3}])
    study = optuna.create_study(sampler=optuna.samplers.PartialFixedSampler({"x": 0.5}, own))
    study.optimize(lambda trial: sum(trial._suggest(name, each) for name, each in space.items()), n_trials=12)
    assert all(trial.params["x"] == 0.5 for trial in study.trials)
    assert len({(trial.params["n"], trial.params["m"]) for trial in study.trials}) == 12


def test_parameters_that_a_stated_space_lacks_are_named_once_and_do_not_stop_the_study(caplog):
    study = study_of(space=to_space(GRID))
    with caplog.at_level(logging.WARNING, "warmstart"):
        study.optimize(lambda trial: grid(trial) + trial.suggest_float("z", 0, 1) + trial.suggest_int("one", 1, 1), 15)
    assert len(study.trials) == 15
    said = [record.getMessage() for record in caplog.records if "space=" in record.getMessage()]
    assert said == [
        "trial 0: space= has no z, which is drawn from the design and not searched; add it to the space",
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_space_of_distributions_of_optunas_older_classes_is_searched():
    old = {
        "x": optuna.distributions.UniformDistribution(0, 1),
        "n": optuna.distributions.IntLogUniformDistribution(1, 8),
        "k": optuna.distributions.IntUniformDistribution(0, 8, 2),
        "d": optuna.distributions.DiscreteUniformDistribution(0, 1, 0.1),
    }
    new = {
        "x": FloatDistribution(0, 1),
        "n": IntDistribution(1, 8, log=True),
        "k": IntDistribution(0, 8, step=2),
        "d": FloatDistribution(0, 1, step=0.1),
    }
    assert to_distributions(to_space(old)) == new
    study = study_of(space=old)
    study.optimize(lambda trial: sum(trial._suggest(name, each) for name, each in new.items()), n_trials=4)
    assert [trial.params for trial in study.trials] == [trial.system_attrs[CLAIM] for trial in study.trials]
