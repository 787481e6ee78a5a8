"""Units of errors: logarithms where the evidence prefers them, and nowhere else."""

import json

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Float

from warmstart.bo import Optimizer
from warmstart.bo.error_units import FIRST, OFFSETS, ErrorUnits, evidence_rows, preferred_offset
from warmstart.bo.surrogates import Prediction

ERRORS = np.array([0.02, 0.03, 0.11, 4.0, 250.0])


def steep(config):
    """Compute a bowl whose height goes over nine orders of magnitude."""
    return float(np.exp(20.0 * ((config["x"] - 0.3) ** 2 + (config["y"] - 0.6) ** 2)))


def space():
    found = ConfigurationSpace()
    found.add(Float("x", (0.0, 1.0)), Float("y", (0.0, 1.0)))
    return found


def searched(n=16, *, objective=steep, **keywords):
    run = Optimizer(space(), seed=3, **keywords)
    for _ in range(n):
        config = run.ask()[0]
        run.tell(config, objective(config))
    return run


@pytest.mark.parametrize("offset", OFFSETS)
def test_logarithms_by_hand(offset):
    z, units = ErrorUnits.logarithmic(ERRORS, offset)
    logs = np.log(ERRORS - (0.02 - offset * 0.09))  # the median lies 0.09 above the least
    assert z == pytest.approx((logs - logs.mean()) / logs.std())
    step = 1e-6
    beside = (np.log(ERRORS + step - units.floor) - units.zero) / units.scale
    assert np.exp(-units.log_slope(ERRORS)) == pytest.approx((beside - z) / step, rel=1e-2)


def test_means_and_deviations_are_errors_again():
    for z, units in (ErrorUnits.standard(ERRORS), ErrorUnits.logarithmic(ERRORS, 0.1)):
        assert units.errors(z) == pytest.approx(ERRORS)
        band = units.band(Prediction(z[None], np.full((1, 5), 0.05), np.array([0.04])), noise=True)
        assert band.mean == pytest.approx(ERRORS)
        assert band.low == pytest.approx(units.errors(z - 0.6))  # sqrt(0.05 + 0.04) is 0.3
        assert band.high == pytest.approx(units.errors(z + 0.6))
        assert band.sd == pytest.approx((band.high - band.low) / 4.0)


def test_errors_of_any_size_are_told_apart():
    """Only roundings are not: differences of 1e-12 of the largest error."""
    y = np.array([1.0, 2.0, 3.0, 5.0])
    for size in (1e-300, 1e-20, 1e200):
        z, units = ErrorUnits.standard(size * y)
        assert z == pytest.approx(ErrorUnits.standard(y)[0])
        assert units.errors(z) == pytest.approx(size * y, rel=1e-12)
        assert ErrorUnits.logarithmic(size * y, 0.1)[0] == pytest.approx(ErrorUnits.logarithmic(y, 0.1)[0])
    assert ErrorUnits.standard(1.0 + 1e-13 * y)[1].scale == 1.0
    assert ErrorUnits.standard(np.zeros(3))[1] == ErrorUnits(0.0, 1.0)


def test_no_logarithms_of_what_is_equal_but_for_rounding():
    u = np.spacing(1e6)
    flat = np.array([1e6, 1e6, 1e6 + u, 1e6 + u, 1e6 + 2 * u, 1e6 + 50, 1e6 + 5000])
    assert ErrorUnits.logarithmic(flat, 0.1) is None
    assert ErrorUnits.logarithmic(flat + np.arange(7), 0.1) is not None


def test_errors_over_orders_of_magnitude_are_taken_as_logarithms_and_plain_ones_are_not():
    X = np.random.default_rng(0).uniform(size=(40, 2))
    smooth = np.sin(5.0 * X[:, 0]) + X[:, 1] ** 2
    assert preferred_offset(X, smooth) is None
    assert preferred_offset(X, np.exp(4.0 * smooth)) in OFFSETS
    assert preferred_offset(X[: FIRST - 1], np.exp(4.0 * smooth)[: FIRST - 1]) is None


def test_the_evidence_is_asked_again_where_there_is_more():
    assert [evidence_rows(n) for n in (0, 5, 10, 12, 13, 16, 17, 22)] == [0, 5, 10, 10, 13, 13, 17, 17]


def test_a_steep_function_is_modelled_by_logarithms_and_an_interrupted_run_goes_on():
    run = searched(n=13, surrogate="mt-gp")
    data = run._log.data()
    prediction, units = run._fitted.predict(data, data.X)
    assert units.floor is not None
    held = units.errors(prediction.mean.mean(axis=0))
    assert held == pytest.approx([o.error for o in run.history()], rel=0.1)
    again = Optimizer.from_dict(json.loads(json.dumps(run.to_dict())))
    assert run.ask() == again.ask()
    assert np.exp(run.log_gain) < run.best.error  # the least possible error is 1, promised or not


def test_a_plain_function_is_searched_as_without():
    runs = [searched(14, objective=lambda c: c["x"] + c["y"], warp_errors=warp) for warp in (None, False)]
    assert [o.config for o in runs[0].history()] == [o.config for o in runs[1].history()]


def test_restarts_wait_while_logarithms_are_modelled():
    run = Optimizer(space(), seed=3)
    for x, y in np.random.default_rng(1).random((45, 2)).tolist():
        run.tell({"x": x, "y": y}, steep({"x": x, "y": y}))
    run._restarts.log_gains = [-60.0] * 3
    assert run._fitted.takes_logarithms(run._log.data())
    assert run.converged is None
    run._restarts.fresh.number = (
        1  # once they have begun, errors of other basins may well look like orders of magnitude
    )
    assert run.converged is not None


def test_a_run_of_before_goes_on_without_logarithms():
    record = searched(n=13, warp_errors=False).to_dict()
    del record["settings"]["warp_errors"]
    run = Optimizer.from_dict(record)
    assert not run._fitted.takes_logarithms(run._log.data())


def test_a_band_beyond_all_numbers_is_the_largest_one():
    prediction = Prediction(np.zeros((2, 1)), np.full((2, 1), 4.0), np.zeros(2))
    band = ErrorUnits(0.0, 1.7e308).band(prediction)
    assert band.sd == band.high == np.finfo(float).max
