"""Forecasts of errors: by hand, by brute force, and on tables whose truth is known."""

from dataclasses import replace

import numpy as np

from warmstart.bo.transfer.expected_error import LEAST_GROUPS, LEVEL, _logit, _Ridge, fit_forecaster

M, C, P = 60, 12, 8


def world(seed, m=M, *, noise=0.03):
    """Datasets whose difficulty shows in their features, and configurations that share it but for their own quirks."""
    rng = np.random.default_rng(seed)
    wide = rng.standard_normal((m, P))
    roots = 0.45 + 0.12 * wide[:, :1] + 0.05 * wide[:, 1:2] + 0.15 * np.linspace(0, 1, C) + noise * rng.standard_normal((m, C))  # fmt: skip
    return wide, wide[:, :3], np.square(np.clip(roots, 0.02, 0.98))


def test_what_is_left_out_is_predicted_as_by_a_fit_without_it():
    wide, _, errors = world(0, 25)
    targets = np.sqrt(errors)
    parts = [np.array([0, 1, 2]), *np.arange(3, 25)[:, None]]
    found, left_out = _Ridge.fit(wide, targets, parts)
    points = (wide - found.centre) / found.scale
    penalty = _penalty(points, targets, found.weights)
    for rows in parts[:4]:
        rest = np.setdiff1d(np.arange(25), rows)
        centre, offset = points[rest].mean(axis=0), targets[rest].mean(axis=0)
        inner = points[rest] - centre
        weights = np.linalg.solve(inner.T @ inner + penalty * np.eye(P), inner.T @ (targets[rest] - offset))
        np.testing.assert_allclose(left_out[rows], (points[rows] - centre) @ weights + offset, rtol=1e-9)


def _penalty(points, targets, weights):
    """Find the penalty of a ridge regression from its weights."""
    gradient = points.T @ (targets - targets.mean(axis=0) - points @ weights)
    return float((gradient * weights).sum() / np.square(weights).sum())


def test_logits_come_back():
    roots = np.sqrt(np.linspace(0.01, 0.99, 9))[:, None]
    found = _Ridge(np.zeros(1), np.ones(1), np.zeros((1, 1)), np.zeros(1), is_logit=True)
    np.testing.assert_allclose(found.roots(_logit(roots)), roots)


def test_errors_of_new_datasets_are_told_better_than_by_their_mean_and_intervals_hold():
    off, blind, inside, of_config = [], [], [], []
    for seed in range(4):
        wide, narrow, errors = world(seed, M + 20)
        forecaster = fit_forecaster(wide[:M], narrow[:M], errors[:M], range(M))
        for row in range(M, M + 20):
            found = forecaster.predict(wide[row], narrow[row])
            best = errors[row].min()
            assert len(found) == C + 1
            assert all(0 <= one.low <= one.value <= one.high <= 1 for one in found)
            for end in ("low", "value", "high"):
                assert min(getattr(one, end) for one in found[:-1]) >= getattr(found[-1], end), "none beats the best"
            off.append(found[-1].value - best)
            blind.append(errors[:M].min(axis=1).mean() - best)
            inside.append(found[-1].low <= best <= found[-1].high)
            of_config += [one.low <= error <= one.high for one, error in zip(found, errors[row], strict=False)]
    assert np.std(off) < 0.4 * np.std(blind)
    assert abs(np.mean(inside) - LEVEL) < 0.1
    assert abs(np.mean(of_config) - LEVEL) < 0.05


def test_sizes_that_are_all_alike_move_what_is_expected_within_the_same_interval():
    """It is moved by what was missed in the mean."""
    wide, narrow, errors = world(3)
    one, other = (fit_forecaster(wide, narrow, errors, range(M), sizes=sizes) for sizes in (None, np.full(M, 300.0)))
    told, also = one.expect(wide[0], narrow[0], size=70), other.expect(wide[0], narrow[0], size=70)
    residuals = one.residuals
    np.testing.assert_allclose(also.mean - told.mean, residuals.mean(axis=0), atol=1e-12)
    tail = (1 - LEVEL) / 2 * (M - 1) / M
    ends = np.quantile(residuals, [tail, 1 - tail], axis=0)
    for found in (told, also):
        np.testing.assert_allclose([found.mean + found.low, found.mean + found.high], told.mean + ends, atol=1e-12)


def test_what_was_missed_at_a_size_moves_what_is_expected_there():
    """Each size apart: forecasts that miss by 0.1 up on small datasets, and down on large ones."""
    wide, narrow, errors = world(5)
    plain = fit_forecaster(wide, narrow, errors, range(M))
    small = np.arange(M) % 2 == 0
    residuals = np.where(small, 0.1, -0.1)[:, None] * np.ones(errors.shape[1] + 1)
    residuals[0, 1] = np.nan
    known = replace(plain, residuals=residuals, sizes=np.where(small, 10.0, 1000.0))
    bare = plain.expect(wide[0], narrow[0]).mean
    for size, missed in ((10, 0.098), (100, 0.0), (1000, -0.098)):
        moved = known.expect(wide[0], narrow[0], size=size).mean - bare
        np.testing.assert_allclose(moved, missed, atol=0.006)
        assert not np.isnan(moved).any()


def test_of_a_configuration_that_was_measured_nowhere_little_is_told_and_nothing_is_nan():
    wide, narrow, errors = world(4)
    errors[:, 3] = np.nan
    found = fit_forecaster(wide, narrow, errors, range(M)).predict(wide[0], narrow[0])
    assert (found[3].low, found[3].high) == (found[-1].low, 1.0)
    others = [one.value for column, one in enumerate(found[:-1]) if column != 3]
    assert min(others) <= found[3].value <= max(others)


def test_what_was_measured_is_what_is_expected_and_sharpens_the_rest():
    wide, narrow, errors = world(0, M + 1)
    forecaster = fit_forecaster(wide[:M], narrow[:M], errors[:M], range(M))
    measured = {3: float(errors[M, 3]), 7: float(errors[M, 7])}
    plain, found = (forecaster.predict(wide[M], narrow[M], measured=some) for some in ({}, measured))
    for column, error in measured.items():
        assert (found[column].value, found[column].low, found[column].high) == (error, error, error)
    assert found[-1].value <= min(measured.values())
    assert found[0].high - found[0].low < plain[0].high - plain[0].low


def test_of_few_groups_nothing_is_told():
    wide, narrow, errors = world(3)
    assert fit_forecaster(wide, narrow, errors, [row % (LEAST_GROUPS - 1) for row in range(M)]) is None
