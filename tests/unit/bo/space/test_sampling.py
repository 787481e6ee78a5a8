"""Designs of the unit cube."""

import itertools
from typing import get_args

import numpy as np
import pytest

from warmstart.bo.space.sampling import Design, design_points, unit_points
from warmstart.history_store.errors import UsageError


def draw(design, p, n, *, batches=1, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate(list(itertools.islice(unit_points(design, p, n=n, rng=rng), batches)))


@pytest.mark.parametrize("design", get_args(Design))
def test_batches_double_and_repeat_under_a_seed(design):
    n = 5
    points = draw(design, 3, n, batches=4)
    first = len(draw(design, 3, n))
    assert first >= n
    assert points.shape == (8 * first, 3)
    assert np.all((points >= 0) & (points < 1))
    assert len(np.unique(points, axis=0)) == len(points)
    assert np.array_equal(points, draw(design, 3, n, batches=4))
    assert not np.array_equal(points, draw(design, 3, n, batches=4, seed=1))


@pytest.mark.parametrize("design", get_args(Design))
@pytest.mark.parametrize(("n", "p"), [(1, 1), (100, 6)])
def test_as_many_points_as_asked_for(design, n, p):
    points = design_points(design, n, p, rng=np.random.default_rng(3))
    assert points.shape == (n, p)
    assert points.dtype == np.float64
    np.testing.assert_array_equal(points, draw(design, p, n, seed=3)[:n])
    with pytest.raises(UsageError, match="at least one point and one dimension, got n=0, p=2"):
        design_points(design, 0, 2, rng=np.random.default_rng(0))


def test_sobol_is_balanced_at_powers_of_two():
    points = design_points("sobol", 16, 3, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(np.floor(points * 16), axis=0), np.tile(np.arange(16.0)[:, None], 3))


def test_no_dimensions_no_points():
    for design in get_args(Design):
        assert draw(design, 0, 3).shape[1] == 0
    assert len(draw("latin", 2, 0)) == 1


def test_no_such_design():
    with pytest.raises(UsageError, match=r"^design: expected one of uniform, latin, halton, sobol, got 'grid'\. Use"):
        draw("grid", 2, 3)
