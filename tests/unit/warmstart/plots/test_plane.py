import numpy as np
import pytest

from warmstart.plots.plane import fit_plane


def gaps(points):
    return np.linalg.norm(points[:, None] - points[None], axis=2)


def turned(points, dimensions, seed=0):
    """Points of the plane, laid somewhere into more dimensions."""
    axes, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(dimensions, 2)))
    return points @ axes.T + 5.0


def test_distances_of_a_plane_are_kept():
    flat = np.random.default_rng(1).normal(size=(20, 2))
    wide = turned(flat, 256)
    plane = fit_plane(wide)
    assert gaps(plane.project(wide)) == pytest.approx(gaps(flat), abs=1e-9)
    assert plane.share == pytest.approx(1)
    more = np.concatenate([flat, flat + np.array([3.0, -1.0])])  # half of them were not in the fit
    assert gaps(plane.project(turned(more, 256))) == pytest.approx(gaps(more), abs=1e-9)


def test_share_is_that_of_the_squared_distances():
    points = np.random.default_rng(2).normal(size=(15, 6)) * [5, 3, 2, 1, 1, 1]
    plane = fit_plane(points)
    assert plane.share == pytest.approx(np.sum(gaps(plane.project(points)) ** 2) / np.sum(gaps(points) ** 2))


def test_coordinates_are_those_of_classical_scaling():
    points = np.random.default_rng(3).normal(size=(9, 5))
    centring = np.eye(9) - 1 / 9
    values, vectors = np.linalg.eigh(-0.5 * centring @ gaps(points) ** 2 @ centring)
    expected = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])
    assert np.abs(fit_plane(points).project(points)) == pytest.approx(np.abs(expected))


@pytest.mark.parametrize(
    "points", [[[1.0, 2.0, 3.0]], [[1.0, 1.0, 1.0]] * 4, [[0.0], [1.0], [3.0]], [[0.0, 0, 0], [1, 2, 2]]]
)
def test_fewer_than_two_directions(points):
    points = np.array(points)
    plane = fit_plane(points)
    placed = plane.project(points)
    assert gaps(placed) == pytest.approx(gaps(points))
    assert np.all(placed[:, 1] == 0)
    assert plane.share == pytest.approx(1)
