"""The search for the next point finds the maximum of criteria whose maximum is known."""

import numpy as np
import pytest
from ConfigSpace import (
    Categorical,
    ConfigurationSpace,
    EqualsCondition,
    Float,
    ForbiddenEqualsClause,
    Integer,
)

from warmstart.bo.acquisition.optimize import GRID, best_free, optimize_acquisition
from warmstart.bo.space.encoding import Encoding


def rng(seed=0):
    return np.random.default_rng(seed)


class Bowl:
    """A concave quadratic of the columns with correlated ones, NaN counting as `inactive` below the top."""

    def __init__(self, top, *, twist=0.0, inactive=0.0):
        self.top, self.inactive = np.asarray(top, dtype=float), inactive
        self.shape = np.eye(len(self.top)) + twist * np.ones((len(self.top), len(self.top)))
        self.calls = 0

    @property
    def rough(self):
        return self

    def value_gradient(self, X):
        self.calls += 1
        off = np.nan_to_num(X - self.top)
        missing = self.inactive * np.isnan(X).sum(axis=1)
        return -100 * np.einsum("mi,ij,mj->m", off, self.shape, off) - missing, -200 * off @ self.shape

    def value(self, X):
        return self.value_gradient(X)[0]


def reals(p):
    space = ConfigurationSpace()
    space.add(*(Float(f"x{i:02}", (0.0, 1.0)) for i in range(p)))
    return Encoding(space)


def found(function, encoding, *, taken=(), seed=0):
    around = encoding.sample(2, rng=rng(seed))
    return optimize_acquisition(function, encoding, around=around, taken=set(taken), rng=rng(seed))


@pytest.mark.parametrize(("p", "twist"), [(1, 0.0), (6, 5.0), (20, 5.0)])
def test_finds_the_top_of_a_bowl(p, twist):
    top = rng(p).uniform(0.1, 0.9, p)
    np.testing.assert_allclose(found(Bowl(top, twist=twist), reals(p)), top, atol=1e-4)


def test_reals_lie_on_a_grid_that_rounding_errors_of_a_process_do_not_leave():
    encoding, top = reals(3), np.array([0.1234567891234, 0.7, 1.0])
    point = found(Bowl(top), encoding)
    np.testing.assert_array_equal(point[:2] * GRID, np.rint(point[:2] * GRID))
    assert point[2] < 1.0, "the cube is half open"
    np.testing.assert_array_equal(found(Bowl(top + 1e-13), encoding), point)


def test_an_edge_stops_one_coordinate_and_the_others_go_on():
    """With correlated coordinates, the top under a bound is not that of each coordinate clipped."""
    from scipy.optimize import lsq_linear

    bowl = Bowl([1.4, 0.6, 0.3], twist=2.0)
    root = np.linalg.cholesky(bowl.shape).T
    expected = lsq_linear(root, root @ bowl.top, bounds=(0, 1)).x
    np.testing.assert_allclose(found(bowl, reals(3)), expected, atol=1e-4)


def mixed(*, forbid=False):
    space = ConfigurationSpace()
    space.add(
        Float("a", (0.0, 1.0)), Integer("n", (0, 400)), Categorical("kind", ["p", "q", "r"]), Float("b", (0.0, 1.0))
    )
    space.add(EqualsCondition(space["b"], space["kind"], "q"))
    if forbid:
        space.add(ForbiddenEqualsClause(space["kind"], "q"))
    return Encoding(space)


def test_finds_the_top_of_a_mixed_conditional_space():
    encoding = mixed()
    target = encoding.encode([{"a": 0.25, "n": 137, "kind": "q", "b": 0.75}])
    top = encoding.columns(target)[0]
    config = encoding.decode(found(Bowl(top, inactive=30.0), encoding)[None])[0]
    assert (config["kind"], config["n"]) == ("q", 137)
    assert config["a"] == pytest.approx(0.25, abs=1e-3)
    assert config["b"] == pytest.approx(0.75, abs=1e-3)


def test_keeps_out_of_what_is_forbidden():
    encoding = mixed(forbid=True)
    top = mixed().columns(mixed().encode([{"a": 0.25, "n": 137, "kind": "q", "b": 0.75}]))[0]
    config = encoding.decode(found(Bowl(top), encoding)[None])[0]
    assert config["kind"] in "pr"
    assert config["n"] == 137


def small():
    space = ConfigurationSpace()
    space.add(Integer("i", (0, 4)), Integer("j", (0, 2)))
    return Encoding(space)


def test_a_small_space_is_ranked_without_what_is_taken():
    encoding, taken, order = small(), set(), []
    bowl = Bowl([0.5, 0.25])
    while (point := found(bowl, encoding, taken=taken)) is not None:
        taken |= set(encoding.keys(point[None]))
        order.append(bowl.value(encoding.columns(point[None]))[0])
    assert len(order) == 15
    assert np.all(np.diff(order) <= 0)


def test_nothing_free_is_none():
    encoding, points = small(), small().sample(15, rng=rng())
    assert len(points) == 15
    assert best_free(np.zeros(15), points, encoding, set(encoding.keys(points))) is None
    assert found(Bowl([0.5, 0.25]), encoding, taken=set(encoding.keys(points))) is None
