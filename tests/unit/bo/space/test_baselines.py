"""Space-filling designs: inside the cube, seeded, and each with the property it is chosen for."""

import numpy as np
import pytest
from scipy.stats import qmc

from bo.space.baselines import BASELINES, halton, latin, sobol
from history_store.errors import UsageError


@pytest.fixture(params=sorted(BASELINES))
def baseline(request):
    return BASELINES[request.param]


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (3, 6), (5, 11), (16, 2), (100, 6)])
def test_points_lie_in_the_cube(baseline, n, d):
    points = baseline(n, d, np.random.default_rng(0))
    assert points.shape == (n, d)
    assert points.dtype == np.float64
    assert np.all((points >= 0) & (points < 1))


def test_the_generator_is_the_only_randomness(baseline):
    first = baseline(9, 4, np.random.default_rng(3))
    np.testing.assert_array_equal(baseline(9, 4, np.random.default_rng(3)), first)
    assert not np.array_equal(baseline(9, 4, np.random.default_rng(4)), first)


def test_each_point_is_uniform_on_average(baseline):
    rng = np.random.default_rng(0)
    firsts = np.array([baseline(3, 2, rng)[0] for _ in range(400)])
    np.testing.assert_allclose(firsts.mean(axis=0), 0.5, atol=4 * np.sqrt(1 / 12 / 400))


@pytest.mark.parametrize("design", [latin, halton, sobol])
def test_fills_better_than_chance(design):
    rng = np.random.default_rng(0)
    ours = np.mean([qmc.discrepancy(design(16, 3, rng)) for _ in range(20)])
    assert ours < 0.6 * np.mean([qmc.discrepancy(rng.random((16, 3))) for _ in range(20)])


def test_latin_has_one_point_a_stratum():
    points = latin(10, 4, np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(np.floor(points * 10), axis=0), np.tile(np.arange(10.0)[:, None], 4))


def test_sobol_is_balanced_at_powers_of_two():
    points = sobol(16, 3, np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(np.floor(points * 16), axis=0), np.tile(np.arange(16.0)[:, None], 3))


@pytest.mark.parametrize("design", [halton, sobol])
def test_sequences_do_not_start_in_the_corner(design):
    assert np.all(design(1, 5, np.random.default_rng(0)) > 0)


@pytest.mark.parametrize(("n", "d"), [(0, 2), (3, 0)])
def test_empty_designs_are_refused(baseline, n, d):
    with pytest.raises(UsageError, match=f"at least one point and one dimension, got n={n}, d={d}"):
        baseline(n, d, np.random.default_rng(0))
