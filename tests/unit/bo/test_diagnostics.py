"""What a person looks at: the arrays agree with the run they were put together from."""

import json
import math

import numpy as np
import pytest
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from warmstart.bo import Optimizer
from warmstart.bo.diagnostics import (
    architectures,
    diagnose,
    held_out_fit,
    read_run,
    sensitivity,
    slices,
)
from warmstart.history_store.errors import DataError


def conditional():
    space = ConfigurationSpace()
    space.add(
        Float("rate", (1e-4, 1.0), log=True),
        Float("idle", (0.0, 1.0)),
        Integer("layers", (1, 3)),
        Categorical("kind", ["sgd", "adam", "lamb"]),
        Float("momentum", (0.0, 0.99)),
    )
    space.add(EqualsCondition(space["momentum"], space["kind"], "sgd"))
    return space


def error_of(config):
    return (math.log10(config["rate"]) + 2) ** 2 / 4 + 0.1 * config["layers"] + 0.2 * (config["kind"] == "lamb")


def record(n=20, *, space=None, error=error_of, **settings):
    """A run that was told a design of n configurations and saved, as JSON has it."""
    space = conditional() if space is None else space
    optimizer = Optimizer(space, n_startup_trials=n, **({"surrogate": "gp-map"} | settings))
    for config in optimizer.ask(n) if n else ():
        optimizer.tell(config, error(config))
    return json.loads(json.dumps(optimizer.to_dict()))


@pytest.fixture(scope="module")
def run():
    return read_run(record())


def test_failed_and_broken_evaluations_have_no_error():
    optimizer = Optimizer(conditional(), n_startup_trials=3)
    first, second, third = optimizer.ask(3)
    optimizer.tell(first, math.nan)
    optimizer.tell(second, 0.5, constraints={"fits": False})
    optimizer.tell(third, 0.7)
    np.testing.assert_array_equal(read_run(optimizer.to_dict()).errors, [np.nan, np.nan, 0.7])


def test_held_out_predictions_do_not_know_what_they_predict():
    rng = np.random.default_rng(0)
    noise = read_run(record(12, error=lambda config: rng.standard_normal()))
    fit = held_out_fit(noise, folds=4)
    assert fit.number.tolist() == list(range(12))
    np.testing.assert_array_equal(fit.error, noise.errors)
    assert abs(np.corrcoef(fit.error, fit.mean)[0, 1]) < 0.8
    assert fit.sd.mean() > 0.5
    smooth = read_run(record(24))
    found = held_out_fit(smooth, folds=6)
    assert np.corrcoef(found.error, found.mean)[0, 1] > 0.9
    assert found.covered >= 0.75


def test_slices_go_through_the_best_configuration(run):
    cuts = slices(run, grid=50)
    best = run.observations[int(np.nanargmin(run.errors))].config
    assert [cut.name for cut in cuts] == [name for name in run.encoding.names if name in best]
    X = run.encoding.columns(run.points)
    fitted = run.fitted()
    there, units = fitted.predict(run.evidence(), X[[int(np.nanargmin(run.errors))]])
    for cut in cuts:
        at = int(np.argmin(np.abs(cut.unit - cut.best)))
        assert cut.mean[at] == pytest.approx(units.errors(there.mean.mean()), abs=0.05)
        assert len(cut.value) == len(cut.mean) == len(cut.acquisition) == 50
        assert np.all(cut.sd > 0)
        np.testing.assert_array_equal(np.isnan(cut.observed), [cut.name not in one.config for one in run.observations])
    rate = next(cut for cut in cuts if cut.name == "rate")
    assert math.log10(rate.value[int(rate.mean.argmin())]) == pytest.approx(-2, abs=0.5)
    layers = next(cut for cut in cuts if cut.name == "layers")
    assert sorted(set(layers.value)) == [1, 2, 3]
    assert len(np.unique(layers.mean.round(12))) == 3


def test_what_matters_spans_more_lengthscales():
    found = sensitivity(read_run(record(24)))
    middle = dict(zip(found.names, np.median(found.spans, axis=0), strict=True))
    assert middle["rate"] > 3 * middle["idle"]
    assert found.spans.shape[1] == len(found.names) == 5
    assert np.all(found.spans > 0)
    active = dict(zip(found.names, found.active.tolist(), strict=True))
    assert active["rate"] == 24
    assert 0 < active["momentum"] < 24


def test_architectures_are_the_values_that_others_depend_on(run):
    shares = architectures(run)
    assert [shares.names[i] for i in shares.indices] == [f"kind {one.config['kind']}" for one in run.observations]
    counts = np.bincount(shares.indices)
    assert np.all(np.diff(counts) <= 0)
    plain = ConfigurationSpace()
    plain.add(Float("x", (0.0, 1.0)))
    assert architectures(read_run(record(3, space=plain, error=lambda config: config["x"]))) is None


def test_a_young_run_has_less_to_see():
    young = read_run(record(1))
    found = diagnose(young)
    assert (found.fit, found.slices, found.sensitivity) == (None, None, None)
    assert found.notes == ["run: expected enough valid evaluations for the surrogate, got 1. Tell the optimiser more."]
    for n in (0, 2):
        failed = read_run(record(n, error=lambda config: math.nan))
        with pytest.raises(DataError, match="expected enough valid evaluations for the surrogate, got 0"):
            diagnose(failed)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda saved: [saved], "got list"),
        (lambda saved: {**saved, "schema_version": 9}, "version 1, got version 9"),
        (lambda saved: {**saved, "models": {"nobody": {}}}, "got a damaged record"),
    ],
)
def test_other_things_are_refused(damage, message):
    with pytest.raises(DataError, match=message):
        read_run(damage(record(2)))
