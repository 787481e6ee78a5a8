"""Warm starts of objectives in the styles in which people write them, without a stated space."""

import logging
import socket
import subprocess
import sys
import warnings

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from warmstart.integrations.optuna import FittingSampler, WarmStartSampler, warm_start
from warmstart.integrations.optuna.warm_values import fitted

RANGE = [1e-6, 1.0]


@pytest.fixture(autouse=True)
def quiet(use_tiny):
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        yield
    optuna.logging.set_verbosity(before)


def own_sampler():
    return WarmStartSampler(surrogate="gp-map", seed=0)


def choices(trial):
    rate = trial.suggest_float("lr", 1e-5, 0.1, log=True)
    return rate + trial.suggest_categorical("batch_size", [16, 32, 64, 128])


def texts(trial):
    batch = trial.suggest_categorical("bs", ["16", "32", "64"])
    return int(batch) + trial.suggest_float("wd", 1e-6, 1e-2, log=True)


def steps(trial):
    drop = trial.suggest_float("dropout", 0.0, 0.5, step=0.05)
    return drop + trial.suggest_int("batch_size", 8, 256, step=8)


def loops(trial):
    n_layers = trial.suggest_int("n_layers", 1, 3)
    units = [trial.suggest_int(f"n_units_l{i}", 4, 128, log=True) for i in range(n_layers)]
    return sum(units) + sum(trial.suggest_float(f"dropout_l{i}", 0.2, 0.5) for i in range(n_layers))


def conditional(trial):
    if trial.suggest_categorical("classifier", ["SVC", "RandomForest"]) == "SVC":
        return trial.suggest_float("svc_c", 1e-10, 1e10, log=True)
    return trial.suggest_int("rf_max_depth", 2, 32, log=True)


def branches(trial):
    kind = trial.suggest_categorical("optimizer", ["Adam", "SGD"])
    rate = trial.suggest_float(f"{kind.lower()}_lr", 1e-5, 1e-1, log=True)
    return rate + (trial.suggest_float("momentum", 0.0, 0.99) if kind == "SGD" else 0.0)


def pruned(trial):
    rate = trial.suggest_float("learning_rate_init", 1e-5, 1.0, log=True)
    for step in range(4):
        trial.report(rate * (4 - step), step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return rate


def other_scale(trial):
    return trial.suggest_float("log10_lr", -5.0, -1.0) + trial.suggest_int("lr_warmup", 0, 10)


def nested(trial):
    return trial.suggest_float("model.optimizer.lr", 1e-4, 1e-2, log=True) + trial.suggest_int("imgsz", 32, 64, step=32)


def odd_choices(trial):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna warns of choices that are lists
        shape = trial.suggest_categorical("layers", [[16], [16, 32]])
    bias = trial.suggest_categorical("bias", [True, False, None])
    return len(shape) + (bias is None) + trial.suggest_int("seed", 3, 3)


def narrowed(trial):
    rate = trial.suggest_float("lr", 1e-5, 0.1 if trial.number < 2 else 0.01, log=True)
    return rate + trial.suggest_categorical("batch_size", [16, 32, 64, 128])


def crashing(trial):
    if trial.suggest_int("num_layers_conv", 1, 2) + trial.suggest_float("x", -1e6, 1e6) > 1e5:
        raise RuntimeError
    return 0.0


OBJECTIVES = [
    choices,
    texts,
    steps,
    loops,
    conditional,
    branches,
    pruned,
    other_scale,
    nested,
    odd_choices,
    narrowed,
    crashing,
]


@pytest.mark.parametrize("make", [own_sampler, lambda: optuna.samplers.TPESampler(seed=0)], ids=["ours", "tpe"])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.__name__)
def test_three_lines_start_any_objective(objective, make):
    study = optuna.create_study(sampler=make(), pruner=optuna.pruners.MedianPruner(n_startup_trials=1))
    warm_start(study, dataset="sklearn:digits", k=3)
    study.enqueue_trial({"learning_rate": 0.5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.optimize(objective, n_trials=6, catch=RuntimeError)
    assert len(study.trials) == 6
    assert all(trial.state.is_finished() for trial in study.trials)
    assert objective is crashing or study.trials[0].state == TrialState.COMPLETE


@pytest.mark.parametrize(
    ("name", "distribution", "source", "value", "expected", "moved"),
    [
        ("batch_size", CategoricalDistribution([16, 32, 64, 128]), "batch_size", 17, 16, True),
        ("batch_size", CategoricalDistribution(["16", "32"]), "batch_size", 32, "32", False),
        ("batch_size", IntDistribution(8, 256, step=8), "batch_size", 50, 48, True),
        ("batch_size", IntDistribution(8, 256, log=True), "batch_size", 17, 17, False),
        ("lr", FloatDistribution(1e-5, 0.1, log=True), "learning_rate", 0.003, 0.003, False),
        ("log10_lr", FloatDistribution(-5.0, -1.0), "learning_rate", 0.01, -2.0, False),
        ("lr", FloatDistribution(1e-5, 0.01, log=True), "learning_rate", 0.05, 0.01, True),
        ("lr", FloatDistribution(-5.0, -1.0), "learning_rate", 0.05, None, None),
        ("lr", FloatDistribution(200.0, 900.0), "learning_rate", 0.05, None, None),
        ("bias", CategoricalDistribution(["a", "b"]), "bias", "c", None, None),
    ],
)
def test_a_value_goes_to_what_a_distribution_allows(name, distribution, source, value, expected, moved):
    from warmstart.history_store.external_runs import ForeignParameter

    known = ForeignParameter(*RANGE) if source == "learning_rate" else None
    fit = fitted(name, distribution, source, value, known)
    if expected is None:
        assert fit is None
    else:
        assert fit is not None
        assert fit.value == pytest.approx(expected)
        assert type(fit.value) is type(expected)
        assert fit.moved is moved


def test_each_value_goes_to_one_parameter_and_what_was_changed_is_not_promised():
    study = optuna.create_study(sampler=own_sampler())
    (design,) = warm_start(study, dataset="sklearn:digits", k=1)
    trial = study.ask()
    rate = trial.suggest_float("lr", 1e-8, 10.0, log=True)
    assert rate == design.natural["learning_rate"]
    assert trial.suggest_float("head_lr", 1e-8, 10.0, log=True) != rate
    assert trial.suggest_float("lr", 1e-8, 10.0, log=True) == rate
    assert trial.suggest_int("num_layers_conv", 1, 99) == design.config["num_layers_conv"]
    study.tell(trial, 0.5)
    attributes = study.trials[0].user_attrs
    assert (attributes["warmstart"]["measured"], attributes["warmstart"]["not_measured"]) == (False, ["head_lr"])
    assert attributes.get("promised") is None
    assert attributes["came"] == 0.5


def test_a_suggestion_as_it_was_measured_keeps_its_promise():
    study = optuna.create_study(sampler=own_sampler())
    (design,) = warm_start(study, dataset="sklearn:digits", k=1)
    before = study.trials[0].user_attrs
    trial = study.ask({name: FloatDistribution(-1e3, 1e3) for name in design.config})
    study.tell(trial, 0.5)
    assert study.trials[0].params == design.config
    assert study.trials[0].user_attrs == {**before, "came": 0.5}


@pytest.mark.parametrize("sampler", [own_sampler(), None], ids=["ours", "optuna's"])
def test_warm_trials_of_several_objectives(sampler):
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    warm_start(study, dataset="sklearn:digits", k=2)
    study.optimize(lambda trial: (choices(trial), trial.suggest_float("x", 0, 1)), n_trials=4, n_jobs=2)
    rates = [trial.system_attrs["fixed_params"]["learning_rate"] for trial in study.trials[:2]]
    assert [trial.params["lr"] for trial in study.trials[:2]] == pytest.approx([min(rate, 0.1) for rate in rates])
    assert "came" not in study.trials[0].user_attrs


@pytest.fixture
def grpc_storage(tmp_path):
    """Serve a storage in SQLite by Optuna's proxy; give a function that connects to it."""
    pytest.importorskip("grpc")
    from optuna.storages import GrpcStorageProxy

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = (
        "from optuna.storages import get_storage, run_grpc_proxy_server\n"
        f"run_grpc_proxy_server(get_storage({f'sqlite:///{tmp_path}/runs.db'!r}), host='127.0.0.1', port={port})"
    )
    process = subprocess.Popen([sys.executable, "-c", serve])

    def opened():
        storage = GrpcStorageProxy(host="127.0.0.1", port=port)
        storage.wait_server_ready(timeout=120)
        return storage

    yield opened
    process.kill()
    process.wait()


@pytest.mark.filterwarnings("ignore:GrpcStorageProxy is experimental")
@pytest.mark.parametrize("kind", ["sqlite", "journal", "grpc"])
def test_another_process_takes_the_waiting_trials_from_a_storage(kind, tmp_path, request):
    from optuna.storages import JournalStorage, get_storage
    from optuna.storages.journal import JournalFileBackend

    def opened():
        if kind == "grpc":
            return request.getfixturevalue("grpc_storage")()
        if kind == "sqlite":
            return get_storage(f"sqlite:///{tmp_path / 'runs.db'}")
        return JournalStorage(JournalFileBackend(str(tmp_path / "runs.log")))

    study = optuna.create_study(storage=opened(), study_name="s")
    warm_start(study, dataset="sklearn:digits", k=3)
    assert isinstance(study.sampler, FittingSampler)
    again = optuna.load_study(study_name="s", storage=opened(), sampler=own_sampler())
    warm_start(again, dataset="sklearn:digits", k=3)
    again.optimize(choices, n_trials=4, n_jobs=2)
    assert [trial.state for trial in again.trials] == [TrialState.COMPLETE] * 4


def test_values_that_are_never_asked_for_are_named_once(caplog):
    study = optuna.create_study(sampler=own_sampler())
    warm_start(study, dataset="sklearn:digits", k=2)
    with caplog.at_level(logging.WARNING, "warmstart"):
        study.optimize(choices, n_trials=2)
    (line,) = [record.getMessage() for record in caplog.records if "never asked" in record.getMessage()]
    assert "learning_rate" not in line
    assert "decay_rate" in line
