"""Related tasks are believed where they help to predict what was seen, and cost little where they do not."""

import json

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Float

from warmstart.bo import Optimizer, RelatedTask
from warmstart.bo.error_units import ErrorUnits
from warmstart.bo.forecasts import Forecast, Forecasts, moments
from warmstart.bo.surrogates import GaussianProcess, Task
from warmstart.bo.surrogates.base import Standardised
from warmstart.bo.surrogates.tasks import known_spreads


def square():
    space = ConfigurationSpace()
    space.add(Float("x", (0.0, 1.0)), Float("y", (0.0, 1.0)))
    return space


def bowl(X):
    return np.square(X - [0.3, 0.7]).sum(axis=1)


def stranger(X):
    return np.sin(9.0 * X[:, 0]) * np.cos(7.0 * X[:, 1])


def tasks(function, *, seed=0):
    rng = np.random.default_rng(seed)
    return [(X, function(X)) for X in rng.random((2, 15, 2))]


def search(related, n, *, seed=0, value=bowl, surrogate="mt-gp", **settings):
    run = Optimizer(
        square(),
        surrogate=surrogate,
        related=[RelatedTask([dict(zip("xy", x, strict=True)) for x in X.tolist()], y) for X, y in related],
        seed=seed,
        **settings,
    )
    for _ in range(n):
        config = run.ask()[0]
        run.tell(config, float(value(np.array([[config["x"], config["y"]]]))[0]))
    return run


def kind(run, **settings):
    """What errors are predicted by."""
    X = run._log.columns(run._log.points)
    y = np.array([o.error for o in run.history()])
    from warmstart.bo.models import TrialData

    found = run._fitted._errors_of(TrialData(run.history(), X, X[:0], run._log.revision), np.arange(len(y)), **settings)
    return None if found is None else found.kind


def test_the_second_evaluation_is_a_design_s():
    """The first is where related tasks have their optimum; the second tells whether it was worth it."""
    run = search(tasks(bowl), 1)
    assert run.ask()[0] == Optimizer(square(), seed=0).ask()[0]
    first = run.history()[0].config
    assert np.hypot(first["x"] - 0.3, first["y"] - 0.7) < 0.2


def test_tasks_that_were_all_wrong_are_not_asked_any_more():
    """A model of all tasks costs several times what one of the task at hand does."""
    run = search(tasks(bowl), 3)
    forecasts = run._fitted._forecasts
    forecasts._forecasts = dict.fromkeys(forecasts._forecasts, Forecast(9.0, 0.1, 0.2, 0.1))
    assert kind(run) == "alone"
    run.tell(run.ask()[0], 0.1)
    run.ask()
    assert len(forecasts.to_dict()) == 2


def test_where_a_search_stalls_every_fourth_suggestion_is_that_of_the_task_at_hand_alone():
    """It was sure of a corner that related tasks know; predictions go by what is believed."""
    run = search(tasks(bowl), 8)
    steps = []
    for error in [-1.0, *[0.5] * 5, -3.0]:
        run.tell(run.ask()[0], error)
        run._fitted._forecasts._forecasts.clear()  # they stay believed
        steps.append((kind(run), kind(run, suggests=True)))
    alone = [place + 9 for place, (_, suggests) in enumerate(steps) if suggests == "alone"]
    assert alone == [13]
    assert {predicts for predicts, _ in steps} == {"together"}


def test_a_gaussian_process_of_the_task_at_hand_alone_judges_related_tasks(monkeypatch):
    """Of networks, too: one that knows three points forecasts so widely that anything beats it."""
    run = search(tasks(bowl), 3, surrogate="mt-dngo")
    models = run._fitted
    fitted, asked = models._fitted, []
    monkeypatch.setattr(models, "_fitted", lambda name, *rest: asked.append(name) or fitted(name, *rest))
    monkeypatch.setattr(models, "_forecasts", Forecasts())
    models.forecast(run._log.data(), np.array([[0.2, 0.9]]))
    z, units = ErrorUnits.standard(np.array([o.error for o in run.history()]))
    judge = models._models[asked[-1]].fitted(run._log.columns(run._log.points), z, revision=run._log.revision)
    assert isinstance(judge, GaussianProcess)
    (forecast,) = models._forecasts._forecasts.values()
    assert moments(judge.predict(np.array([[0.2, 0.9]])), units) == (forecast.mean_alone, forecast.sd_alone)


def test_units_are_its_own_where_it_is_alone():
    """Errors a thousand times as large as the related tasks'."""
    run = search(tasks(stranger), 8, value=lambda X: 1000.0 * bowl(X))
    assert kind(run) == "alone"
    assert run.log_gain < np.log(1000.0)


@pytest.mark.parametrize(
    ("surrogate", "batches", "n_failing", "settings"),
    [("gp", [2, 3, 1, 1], 1, {}), ("dngo", [1] * 6, 0, {"n_startup_trials": 1})],
)
def test_tasks_that_are_never_used_change_nothing(surrogate, batches, n_failing, settings):
    """They are a thousand times what comes, and noise."""
    rng = np.random.default_rng(0)
    strangers = [(rng.random((15, 2)), 1e3 * rng.standard_normal(15)) for _ in range(3)]
    found = []
    for related, kind in (([], surrogate), (strangers, f"mt-{surrogate}")):
        run, suggested = search(related, 0, seed=3, surrogate=kind, **settings), []
        for n in batches:
            for config in run.ask(n):
                suggested.append(config)
                value = float(bowl(np.array([[config["x"], config["y"]]]))[0])
                run.tell(config, float("nan") if len(suggested) <= n_failing else value)
        found.append(suggested)
    assert found[0] == found[1]


def test_strangers_are_not_believed_and_the_search_is_saved_and_goes_on():
    run = search(tasks(stranger), 6)
    assert kind(run) == "alone"
    other = Optimizer.from_dict(json.loads(json.dumps(run.to_dict(), allow_nan=False)))
    assert other.ask() == run.ask()


def test_where_no_task_varies_the_size_of_its_errors_is_the_unit():
    constant = [Task(np.zeros((2, 1)), np.array([level, level])) for level in (3e-5, 1e-5)]
    scaled = [Standardised.of(task.y) for task in constant]
    assert known_spreads(scaled).tolist() == [3e-5]
    assert known_spreads([Standardised.of(np.zeros(2))]).tolist() == [1.0]
    assert known_spreads([*scaled, Standardised.of(np.array([0.0, 2e-5]))]).tolist() == [1e-5]


def test_related_errors_near_the_largest_number_are_no_error():
    related = [[1.7e308 - i * 1e306 for i in range(6)], [-1.7e308 + i * 1e305 for i in range(6)]]
    space = ConfigurationSpace(seed=0)
    space.add(Float("x", (0, 1)), Float("w", (0, 1)))
    configs = [{"x": float(x), "w": float(w)} for x, w in np.random.default_rng(0).random((6, 2))]
    optimizer = Optimizer(space, surrogate="mt-gp", seed=0, related=[RelatedTask(configs, y) for y in related])
    for number in range(4):
        optimizer.tell(optimizer.ask()[0], 1.7e308 - number * 1e305)
