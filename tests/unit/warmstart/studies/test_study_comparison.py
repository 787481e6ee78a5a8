"""The best found beside the best of as many uniform configurations, where the truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace

from warmstart.bo.space.encoding import Encoding
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.comparison import LEAST, compare_with_uniform
from warmstart.studies.results.summary import TuneResult
from warmstart.studies.results.trial import Trial

SPACE = ConfigurationSpace({"x": (0.0, 1.0), "y": (0.0, 1.0)})


def error(config):
    return (config["x"] - 0.3) ** 2 + (config["y"] - 0.6) ** 2


def trials(configs, noise=0.0, feasible=True):
    rng = np.random.default_rng(1)
    return [
        Trial(i, config, error(config) + noise * rng.standard_normal(), TrialStatus.OK, 1.0, i, feasible=feasible)
        for i, config in enumerate(configs)
    ]


def uniform(n, seed):
    encoding = Encoding(SPACE)
    return encoding.decode(encoding.sample(n, design="uniform", rng=np.random.default_rng(seed)))


def compare(found):
    return compare_with_uniform(SPACE, found, surrogate="gp-map", seed=0)


def test_a_search_that_found_the_optimum_is_better_than_uniform():
    near = [{"x": 0.3 + 0.003 * i, "y": 0.6 - 0.003 * i} for i in range(5)]
    found = compare(trials([*uniform(40, 0), *near]))
    assert found.verdict == "better"
    assert found.n == 45
    assert found.found == pytest.approx(0.0, abs=2e-3)
    # What 45 uniform configurations come to, without a surrogate.
    truth = np.array([min(map(error, uniform(45, seed))) for seed in range(1, 400)])
    assert found.uniform == pytest.approx(np.median(truth), rel=0.35)
    assert 0 < found.gain[0] < np.quantile(truth, 0.3)
    assert found.gain[1] == pytest.approx(np.quantile(truth, 0.95), rel=0.35)
    assert "the best found is better than the best of 45 uniform configurations" in found.line


@pytest.mark.parametrize("n_crashed", [4, 12])
def test_errors_over_orders_of_magnitude_are_compared_as_the_search_models_them(n_crashed):
    """On errors as they are, the best of as many uniform configurations came to less than nothing; so it does where many fail."""
    steep = [replace(trial, error=1e-4 * np.exp(12 * trial.error)) for trial in trials(uniform(40, 3))]
    failed = [replace(trial, error=None, status=TrialStatus.CRASHED) for trial in trials(uniform(n_crashed, 4))]
    pruned = [replace(trial, error=None, status=TrialStatus.PRUNED) for trial in trials(uniform(9, 5))]
    found = compare_with_uniform(SPACE, [*steep, *failed, *pruned], surrogate="gp-map", seed=0)
    truth = [min(1e-4 * np.exp(12 * error(config)) for config in uniform(40, seed)) for seed in range(10, 400)]
    is_close = found.uniform == pytest.approx(np.median(truth), rel=0.1)
    assert is_close == (n_crashed <= 4), found.line
    if is_close:
        assert found.verdict == "unknown"
    else:
        bounded = compare_with_uniform(SPACE, [*steep, *failed], surrogate="gp-map", seed=0, least=0.0)
        assert found.uniform < 0 <= bounded.uniform


@pytest.mark.parametrize(
    ("metric", "least"),
    [
        (Metric(), -np.inf),
        (Metric("acc", maximize=True), 0.0),
        (Metric("reward", maximize=True, scale="any"), -np.inf),
        (Metric("error", scale="percent"), 0.0),
    ],
)
def test_the_least_error_of_a_metric(metric, least):
    assert metric.least_error == least


def test_few_trials_and_those_that_break_a_constraint_tell_nothing():
    for found in (trials(uniform(LEAST - 1, 0)), trials(uniform(30, 0), feasible=False)):
        compared = compare(found)
        assert (compared.verdict, compared.gain) == ("unknown", None)
        assert "cannot tell" in compared.line
        said = TuneResult("s", "s.db", None, None, tuple(found), comparison=compared).comparison_line
        assert said.endswith(" Those that break a constraint do not count.") == (not found[0].feasible)
    assert compare(trials(uniform(12, 0))).to_dict() == compare(trials(uniform(12, 0))).to_dict()


@pytest.mark.parametrize(
    ("feasible", "said"),
    [((True, True), "2 ok"), ((True, False), "2 ok; 1 breaks a constraint"), ((False, False), "2 ok; 2 break a constraint")],
)  # fmt: skip
def test_counts_say_how_many_trials_break_a_constraint(feasible, said):
    found = [replace(trial, feasible=meets) for trial, meets in zip(trials(uniform(2, 0)), feasible, strict=True)]
    result = TuneResult("s", "s.db", None, None, tuple(found))
    assert result.counts_line == said
    assert said in repr(result)
    assert f"{said}." in result._repr_html_()
