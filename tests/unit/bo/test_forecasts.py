"""Forecasts with related tasks and without, judged by what came."""

import json

import numpy as np
import pytest
from scipy.stats import norm

from bo.forecasts import BEST, IN_FAVOUR, WORST, Forecast, Forecasts, moments
from bo.surrogates import Prediction


def test_a_forecast_counts_the_difference_of_log_densities():
    forecast = Forecast(1.0, 0.5, 2.0, 2.0)
    for error in (0.5, 1.0, 1.5):
        expected = norm.logpdf(error, 1.0, 0.5) - norm.logpdf(error, 2.0, 2.0)
        assert forecast.log_odds(error) == pytest.approx(expected)
    assert forecast.log_odds(100.0) == WORST
    assert Forecast(1.0, 1e-5, 2.0, 2.0).log_odds(1.0) == BEST


def test_where_one_evaluation_is_known_it_counts_whether_the_next_is_better():
    forecast = Forecast(3.0, 1.0, 2.0, None)
    assert forecast.log_odds(2.1) == forecast.log_odds(9.0) == pytest.approx(np.log(norm.cdf(1.0) / 0.5))
    assert forecast.log_odds(1.9) == pytest.approx(np.log(norm.cdf(-1.0) / 0.5))
    assert Forecast(300.0, 1.0, 2.0, None).log_odds(1.9) == WORST


def test_the_odds_of_a_run_go_through_json():
    found, X = Forecasts(), np.array([[0.1, np.nan], [0.2, 0.3], [0.4, 0.5]])
    assert found.log_odds(X, [1.0, 2.0, 3.0]) == IN_FAVOUR
    forecasts = [Forecast(1.0, 0.5, 2.0, 2.0), Forecast(3.0, 1.0, 2.0, None)]
    for x, forecast in zip(X, forecasts, strict=False):
        found.add(x, forecast)
        found.add(x, Forecast(0.0, 1.0, 0.0, 1.0))
    expected = IN_FAVOUR + forecasts[0].log_odds(1.0) + forecasts[1].log_odds(2.0)
    assert found.log_odds(X + 1e-13, [1.0, 2.0, 3.0]) == pytest.approx(expected)
    again = Forecasts.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.log_odds(X, [1.0, 2.0, 3.0]) == pytest.approx(expected)


def test_moments_are_those_of_the_mixture():
    prediction = Prediction(np.array([[1.0], [3.0]]), np.array([[0.5], [1.5]]), np.array([0.1, 0.3]))
    assert moments(prediction, 10.0, 2.0) == pytest.approx((14.0, 2.0 * np.sqrt(1.0 + 1.2)))
