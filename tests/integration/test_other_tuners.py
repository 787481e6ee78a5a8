"""Other tuners begin with the suggestions, as the table of docs/suggest.md says, each with the real package."""

import json
import warnings

import pytest
from ConfigSpace import Configuration, ConfigurationSpace, UniformFloatHyperparameter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]  # of the tuners
RATE, DROPOUT = "log10_learning_rate", "dropout_rate"


@pytest.fixture
def start(use_tiny, cli, tmp_path, monkeypatch):
    """Return the space of the suggestions and three of them."""
    monkeypatch.chdir(tmp_path)
    document = json.loads(cli("suggest", "--dataset", "sklearn:digits", "--format", "configspace").out)
    space = ConfigurationSpace.from_serialized_dict(document["space"])
    return space, [Configuration(space, values=values) for values in document["configurations"]]


def error(config, seed=0):
    """Stand in for a training run."""
    return abs(config[RATE] + 2) + config[DROPOUT]


def is_float(parameter):
    return isinstance(parameter, UniformFloatHyperparameter)


def test_smac(start):
    smac = pytest.importorskip("smac", reason="SMAC3 is not installed")
    space, configurations = start
    scenario = smac.Scenario(space, n_trials=5, deterministic=True, seed=0)
    facade = smac.HyperparameterOptimizationFacade
    initial = facade.get_initial_design(scenario, n_configs=0, additional_configs=configurations)
    tuner = facade(scenario, error, initial_design=initial, overwrite=True, logging_level=40)
    tuner.optimize()
    begun = [dict(tuner.runhistory.get_config(key.config_id)) for key in tuner.runhistory]
    assert begun[:3] == [dict(configuration) for configuration in configurations]
    assert len(begun) == 5


def test_ax(start):
    client_of = pytest.importorskip("ax", reason="Ax is not installed").Client
    from ax import RangeParameterConfig

    space, configurations = start
    client = client_of()
    parameters = [
        RangeParameterConfig(name=p.name, bounds=(p.lower, p.upper), parameter_type="float" if is_float(p) else "int")
        for p in space.values()
    ]
    client.configure_experiment(parameters=parameters)
    client.configure_optimization(objective="-error")
    for configuration in configurations:
        index = client.attach_trial(parameters=dict(configuration))
        client.complete_trial(index, raw_data={"error": error(configuration)})
    (trial,) = client.get_next_trials(max_trials=1).values()
    assert trial.keys() == dict(configurations[0]).keys()


def test_syne_tune(start):
    pytest.importorskip("syne_tune", reason="Syne Tune is not installed")
    from syne_tune.config_space import randint, uniform
    from syne_tune.optimizer.schedulers.single_objective_scheduler import SingleObjectiveScheduler

    space, configurations = start
    domain = {p.name: (uniform if is_float(p) else randint)(p.lower, p.upper) for p in space.values()}
    points = [*map(dict, configurations)]
    scheduler = SingleObjectiveScheduler(
        domain, metric="error", searcher="random_search", searcher_kwargs={"points_to_evaluate": points}
    )
    assert [scheduler.suggest().config for _ in range(3)] == points
    assert scheduler.suggest().config.keys() == points[0].keys()


def test_botorch(start):
    pytest.importorskip("botorch", reason="BoTorch is not installed")
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from botorch.acquisition import LogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

    space, configurations = start
    train_X = torch.tensor([configuration.get_array() for configuration in configurations], dtype=torch.double)
    train_Y = torch.tensor([[-error(configuration)] for configuration in configurations], dtype=torch.double)
    model = SingleTaskGP(train_X, train_Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, train_X.shape[1])
    criterion = LogExpectedImprovement(model, best_f=train_Y.max())
    point, _ = optimize_acqf(criterion, bounds, q=1, num_restarts=2, raw_samples=16)
    assert point.shape == (1, train_X.shape[1])
    assert space[RATE].lower <= Configuration(space, vector=point[0].numpy())[RATE] <= space[RATE].upper
