"""Calibration: perfect and empty distances, promises kept on datasets that were not used, refusals."""

import json
import math

import numpy as np
import pytest

from warmstart.bo.transfer.calibration import (
    LENGTH,
    REACHES,
    SLOPE_SD,
    Calibration,
    _confidence,
    _lines,
    _shares,
    calibrate,
    can_calibrate,
)
from warmstart.history_store.errors import DataError, UsageError


def make_table(seed: int, m: int = 48, c: int = 40) -> np.ndarray:
    """Six kinds of datasets; what is good on one kind is not on another."""
    rng = np.random.default_rng(seed)
    kinds = rng.random((6, c))
    return np.clip(0.1 + 0.5 * kinds[np.arange(m) % 6] + 0.08 * rng.standard_normal((m, c)), 0, 1)


def noise(seed: int, m: int = 48) -> np.ndarray:
    return np.random.default_rng(seed).random((m, m))


def test_promises_never_rise_and_stay_in_range():
    found = Calibration((1.0, 0, 0, 0, 0, 0), (0.1, 0.0, -0.5, 0.02), (1.5, 2.0, 3.0, 0.0), 9)
    np.testing.assert_allclose(found.promise([0.9, 0.4, 0.1]), [1.0, 0.8, 0.0])
    np.testing.assert_allclose(found.promise([0.2, 0.1, 0.3, 0.0, 0.0]), [0.4, 0.2, 0.2, 0.02, 0.02])
    np.testing.assert_allclose(found.promise([0.2]), [0.4])


def test_survives_json():
    errors = make_table(3, m=12)
    found = calibrate(errors, noise(0, 12), list(range(12)))
    assert Calibration.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert math.isclose(sum(found.shares), 1.0)
    assert len(found.slopes) == len(found.intercepts) == LENGTH


@pytest.mark.parametrize("fields", [{"shares": [1], "intercepts": [0], "slopes": [1], "groups": 3}, {"shares": 1}])
def test_damaged_fields_are_refused(fields):
    with pytest.raises(DataError, match=r"calibration: expected .* Calibrate the history again"):
        Calibration.from_dict(fields)


def test_lines_are_those_of_least_squares_with_one_vote_for_slope_one():
    rng = np.random.default_rng(0)
    expected = rng.random((30, 2))
    came = np.column_stack([0.1 + 0.5 * expected[:, 0] + 0.01 * rng.standard_normal(30), 0.9 - 0.8 * expected[:, 1]])
    intercepts, slopes = _lines(expected, came)
    x, y = (values[:, 0] - values[:, 0].mean() for values in (expected, came))
    vote = np.sqrt(((y - x) ** 2).mean()) / SLOPE_SD
    slope = np.linalg.lstsq(np.append(x, vote)[:, None], np.append(y, vote))[0][0]
    np.testing.assert_allclose([slopes[0], intercepts[0]], [slope, came[:, 0].mean() - slope * expected[:, 0].mean()])
    np.testing.assert_allclose([slopes[1], intercepts[1]], [0.0, came[:, 1].mean()])  # no slope below 0
    intercepts, slopes = _lines(np.zeros((4, 2)), np.array([[0.3, 0.0]] * 4))
    np.testing.assert_allclose(intercepts, [0.3, 0.0])
    assert np.isfinite(slopes).all()


def test_shares_count_as_far_as_groups_left_out_confirm_them():
    rng = np.random.default_rng(0)
    losses = 0.2 + 0.1 * rng.standard_normal((40, 1)) + 0.05 * rng.standard_normal((40, len(REACHES)))
    losses[:, 0] -= 0.05
    assert _shares(losses, np.arange(40))[0] > 0.9
    # Siblings are one witness, not ten.
    few = 0.2 + 0.05 * rng.standard_normal((4, len(REACHES)))
    few[:, 0] -= 0.02
    copies = np.repeat(few, 10, axis=0)
    np.testing.assert_allclose(_shares(copies, np.repeat(np.arange(4), 10)), _shares(few, np.arange(4)))


def test_what_loses_on_groups_left_out_changes_nothing():
    losses = np.full((12, len(REACHES)), 0.3)
    losses[:, 3] += 0.01  # nothing is better than reach 3
    np.testing.assert_array_equal(_shares(losses, np.arange(12)), np.eye(len(REACHES))[2])
    np.testing.assert_array_equal(
        _shares(np.zeros((3, len(REACHES))), np.zeros(3)), np.eye(len(REACHES))[2]
    )  # one group
    assert _confidence(np.array([-0.1, 0.1, -0.2])) == 0.0
    assert _confidence(np.array([0.1, 0.1])) == 1.0
    # t = 2 with two degrees of freedom: one-sided 0.9082.
    wins = np.array([0.0, 1.0, 2.0]) - 1.0
    wins = wins + 2.0 * wins.std(ddof=1) / math.sqrt(3)
    assert math.isclose(_confidence(wins), 2 * 0.9082483 - 1, abs_tol=1e-6)


def test_refusals():
    errors, distances = make_table(0, m=6), noise(0, 6)
    with pytest.raises(UsageError, match=r"expected `m x c` errors, `m x m` distances and m groups"):
        calibrate(errors, distances[:5], list(range(6)))
    with pytest.raises(DataError, match="at least three groups of datasets, got 2"):
        calibrate(errors, distances, [0, 0, 0, 1, 1, 1])
    distances[0, 3] = np.nan
    with pytest.raises(DataError, match="finite distances of 0 or more between groups"):
        calibrate(errors, distances, [0, 0, 1, 1, 2, 2])
    assert calibrate(errors, distances, [0, 1, 1, 0, 2, 2]).groups == 3  # 0 and 3 are siblings: not read


def test_datasets_without_a_common_configuration_cannot_be_calibrated():
    errors = np.where(np.eye(3) == 1, 0.5, np.nan)
    assert not can_calibrate(errors, ["a", "b", "c"])
    with pytest.raises(DataError, match="expected a dataset whose configurations another group measured too, got none"):
        calibrate(errors, noise(0, 3), ["a", "b", "c"])
    errors[1, 0] = 0.25
    assert can_calibrate(errors, ["a", "b", "c"])
    assert not can_calibrate(errors, ["a", "a", "c"])
    assert math.isfinite(calibrate(errors, noise(0, 3), ["a", "b", "c"]).slopes[0])
