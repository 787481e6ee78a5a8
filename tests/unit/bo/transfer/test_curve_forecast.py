"""Forecasts of final errors against dense Gaussian algebra, limits, and cases that were drawn from a known process."""

import json

import numpy as np
import pytest

from warmstart.bo.transfer.curve_forecast import SHARES, CurveForecaster, TrainingRun, fit_curves, resample

S, C, P = len(SHARES), 5, 2


def forecaster(**other):
    rng = np.random.default_rng(3)
    half = rng.normal(size=(S, S))
    given = {
        "configs": rng.random((C, P)),
        "lengths": np.array([0.6, 0.9]),
        "nugget": 0.1,
        "mean": rng.uniform(0.3, 0.7, (S, C)),
        "factors": rng.normal(0, 0.05, (3, S, C)),
        "own": 0.001 * half @ half.T,
        "between": 0.004 * half @ half.T,
        "widths": np.ones(S),
    }
    return CurveForecaster(**given | other)


def history(m=60, c=20, seed=0):
    """Draw datasets from a process: a level by a feature, a slope by the configuration, and noise of a cell and of a point."""
    rng = np.random.default_rng(seed)
    configs = np.random.default_rng(9).random((c, P))
    feature = rng.random(m)
    level = 0.2 + 0.5 * feature + rng.normal(0, 0.03, m)
    cell = rng.normal(0, 0.03, (m, c))
    speed = 0.3 * configs[:, 0]
    final = level[:, None] - 0.2 * configs[:, 1] + cell
    roots = final[..., None] + (0.3 - speed)[None, :, None] * (1 - np.array(SHARES)) + rng.normal(0, 0.01, (m, c, S))
    features = np.column_stack([feature, rng.random(m)])
    return (features, features[:, :1]), np.clip(roots, 0, 1) ** 2, configs


def dense(given, run, others):
    """Condition the joint Gaussian of all points of all runs; configurations are the history's own."""
    runs = [*others, run]
    column = [int(np.abs(given.configs - each.config).sum(axis=1).argmin()) for each in runs]
    mean = np.concatenate([given.mean[:, c] for c in column])
    blocks = [[np.einsum("rs,rt->st", given.factors[:, :, a], given.factors[:, :, b]) for b in column] for a in column]
    for n in range(len(runs)):
        blocks[n][n] = blocks[n][n] + given.own
    joint = np.block(blocks)
    seen, came = [], []
    for n, each in enumerate(runs):
        points = [S - 1] if n < len(others) else range(len(each.shares))
        seen += [n * S + p for p in points]
        came += [each.errors[p] for p in points]
    end = len(runs) * S - 1
    gain = np.linalg.solve(joint[np.ix_(seen, seen)] + 1e-6 * np.eye(len(seen)), joint[seen, end])
    return mean[end] + gain @ (np.sqrt(came) - mean[seen]), joint[end, end] - gain @ joint[seen, end]


@pytest.mark.parametrize(("reports", "n_others"), [(0, 0), (2, 0), (2, 3)])
def test_the_forecast_is_the_conditional_gaussian(reports, n_others):
    given = forecaster()
    errors = (0.31, 0.27, 0.25, 0.24)
    run = TrainingRun(given.configs[0], SHARES[:reports], errors[:reports])
    others = [TrainingRun(given.configs[1 + n], SHARES, (0.5, 0.4, 0.3, 0.2 + 0.05 * n)) for n in range(n_others)]
    # the forecaster looks back at its own misses only from three runs on; far off here, they widen nothing but the spread
    found = given.forecast(run, others)
    mean, variance = dense(given, run, others)
    assert found.centre == pytest.approx(mean, abs=1e-9)
    if n_others < 3:
        half = np.sqrt(found.error.high) - mean
        assert half == pytest.approx(1.2815516 * np.sqrt(variance), rel=1e-6)


def test_reports_close_to_each_other_count_once():
    """Two reports of one moment would make a line of their noise."""
    given = forecaster()
    few = TrainingRun(given.configs[0], (0.25, 0.5), (0.3, 0.28))
    many = TrainingRun(given.configs[0], (0.25, 0.3, 0.45, 0.49, 0.5), (0.3, 0.6, 0.1, 0.9, 0.28))
    assert given.forecast(many) == given.forecast(few)


def test_intervals_hold_on_datasets_of_the_same_process():
    features, curves, configs = history()
    new_features, new_curves, _ = history(seed=1)
    holed = curves.copy()
    holed[np.random.default_rng(5).random(curves.shape[:2]) < 0.45] = np.nan
    covered, wrong, plain = [], [], []
    for row in range(12):
        fitted = fit_curves(features, holed, range(60), configs, query=(new_features[0][row], new_features[1][row]))
        for column in range(len(configs)):
            run = TrainingRun(configs[column], SHARES[:1], (new_curves[row, column, 0],))
            error = fitted.forecast(run).error
            truth = new_curves[row, column, -1]
            covered.append(error.low <= truth <= error.high)
            wrong.append(error.value - truth)
            plain.append(new_curves[row, column, 0] - truth)
    assert 0.72 <= np.mean(covered) <= 0.92, "what was not measured is no residual of 0, which made intervals narrow"
    assert np.square(wrong).mean() < 0.1 * np.square(plain).mean()


def test_too_few_groups_say_nothing():
    features, curves, configs = history(m=11)
    assert fit_curves(features, curves, range(11), configs, query=(features[0][0], features[1][0])) is None


def test_what_is_written_forecasts_alike():
    features, curves, configs = history()
    fitted = fit_curves(features, curves, range(60), configs, query=(features[0][0], features[1][0]))
    again = CurveForecaster.from_dict(json.loads(json.dumps(fitted.to_dict())))
    run = TrainingRun(configs[4], (0.25, 0.5), (0.4, 0.3))
    assert again.forecast(run).centre == pytest.approx(fitted.forecast(run).centre, abs=3e-3)


def test_curves_are_compared_at_quarters():
    np.testing.assert_allclose(resample([(100, 0.8), (200, 0.6), (400, 0.2)], 400), [0.8, 0.6, 0.4, 0.2])
    assert np.isnan(resample([(300, 0.8), (400, 0.6)], 400)).tolist() == [True, True, False, False]
    assert np.isnan(resample([], 400)).all()


def test_jobs_unlike_the_history_make_forecasts_vague():
    given = forecaster()
    run = TrainingRun(given.configs[0], (0.25,), (0.3,))
    usual = [TrainingRun(given.configs[n], SHARES, tuple(given.mean[:, n] ** 2)) for n in (1, 2, 3)]
    odd = [TrainingRun(given.configs[n], SHARES, (0.9, 0.5, 0.1, 0.01)) for n in (1, 2, 3)]
    assert given.forecast(run, usual).scale < 0.5 * given.forecast(run, odd).scale
