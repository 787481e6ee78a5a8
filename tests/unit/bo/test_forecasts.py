"""Forecasts with related tasks and without, judged by what came."""

import json

import numpy as np
import pytest
from scipy.stats import norm, t

from warmstart.bo.error_units import ErrorUnits
from warmstart.bo.forecasts import BEST, DISMISSAL, NEEDED, WORST, Forecast, Forecasts, has_stalled, moments
from warmstart.bo.surrogates import Prediction


@pytest.mark.parametrize(("known", "freedom"), [(2, 1), (9, 8)])
def test_a_forecast_counts_the_difference_of_log_densities(known, freedom):
    """Those of Student's t: so few evaluations tell units."""
    forecast = Forecast(1.0, 0.5, 2.0, 2.0)
    for error in (0.5, 1.0, 1.5):
        expected = t.logpdf(error, freedom, 1.0, 0.5) - t.logpdf(error, freedom, 2.0, 2.0)
        assert forecast.log_odds(error, n_before=known) == pytest.approx(expected)
    assert Forecast(1.0, 1e-3, 2.0, 2.0).log_odds(100.0, n_before=known) == WORST
    assert Forecast(1.0, 1e-5, 2.0, 2.0).log_odds(1.0, n_before=known) == BEST


def test_where_one_evaluation_is_known_it_counts_whether_the_next_is_better():
    forecast = Forecast(3.0, 1.0, 2.0, None)
    for error in (2.1, 9.0):
        assert forecast.log_odds(error, n_before=1) == pytest.approx(np.log(norm.cdf(1.0) / 0.5))
    assert forecast.log_odds(1.9, n_before=1) == pytest.approx(np.log(norm.cdf(-1.0) / 0.5))
    assert Forecast(300.0, 1.0, 2.0, None).log_odds(1.9, n_before=1) == WORST
    assert forecast.log_odds(2.0, n_before=1) == 0.0


def test_related_tasks_are_trusted_first_then_judged():
    X, found = np.arange(12.0)[:, None], Forecasts()
    assert found.believed(X, [0.0] * 12)  # nothing was forecast of these
    good, bad = Forecast(0.0, 0.5, 0.0, 1.0), Forecast(0.0, 9.0, 0.0, 1.0)
    for x in X[1:3]:
        found.add(x, good)
    assert 2.0 * np.log(2.0) > NEEDED[-1]
    assert found.believed(X[:3], [0.0] * 3)
    found.add(X[3], bad)
    assert found.believed(X[:3], [0.0] * 3)
    assert not found.believed(X[:4], [0.0] * 4)
    assert not found.dismissed(X[:4], [0.0] * 4)
    for x in X[4:6]:
        found.add(x, bad)
    assert 2.0 * np.log(2.0) - 3.0 * np.log(9.0) < DISMISSAL
    for x in X[6:]:
        found.add(x, good)
    assert found.dismissed(X, [0.0] * 12)  # what comes later does not count
    assert not found.believed(X, [0.0] * 12)


def test_strangers_need_a_forecast_that_was_better():
    """Tasks that do not forecast one another are not trusted at first, but they may earn it."""
    X, found = np.arange(9.0)[:, None], Forecasts(strangers=True)
    assert not found.believed(X[:0], [])
    assert not found.believed(X[:1], [0.0])
    for x in X[1:4]:
        found.add(x, Forecast(0.0, 0.5, 0.0, 1.0))
    assert [found.believed(X[:n], [0.0] * n) for n in range(5)] == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([3.0, 1.0, 2.0, 5.0, 2.0, 2.0, 2.0, 2.0], True),
        ([3.0, 1.0, 2.0, 5.0, 2.0, 2.0, 2.0], False),
        ([3.0, 1.0, 2.0, 5.0, 2.0, 2.0, 0.96, 2.0], True),
        ([3.0, 1.0, 2.0, 5.0, 2.0, 2.0, 0.94, 2.0], False),
        ([3.0, 1.0, 2.0, 5.0, 0.5, 2.0, 2.0, 2.0, 2.0], True),
        ([1.0] * 8, True),
    ],
)
def test_a_search_has_stalled_where_the_last_four_brought_next_to_nothing(errors, expected):
    """A twentieth of what is between the median, 2, and the best."""
    for unit in (1.0, 1e-9):
        assert has_stalled(unit * np.array(errors)) is expected


def test_the_forecasts_of_a_run_go_through_json():
    found, X = Forecasts(), np.array([[0.1, np.nan], [0.2, 0.3], [0.4, 0.5]])
    for x, forecast in zip(X, [Forecast(1.0, 0.5, 2.0, 2.0), Forecast(3.0, 1.0, 2.0, None)], strict=False):
        found.add(x, forecast)
        found.add(x, Forecast(0.0, 1.0, 0.0, 1.0))  # the first one counts
    again = Forecasts()
    again.restore(json.loads(json.dumps(found.to_dict())))
    assert again.to_dict() == found.to_dict()
    assert again.believed(X + 1e-13, [9.0, 1.0, 3.0]) == found.believed(X, [9.0, 1.0, 3.0])


def test_moments_are_those_of_the_mixture():
    prediction = Prediction(np.array([[1.0], [3.0]]), np.array([[0.5], [1.5]]), np.array([0.1, 0.3]))
    assert moments(prediction, ErrorUnits(10.0, 2.0)) == pytest.approx((14.0, 2.0 * np.sqrt(1.0 + 1.2)))
