"""Spaces as arrays: exact inverses, activity and clauses as ConfigSpace has them, designs, neighbours, bad input."""

import pickle

import numpy as np
import pytest
from ConfigSpace import (
    AndConjunction,
    Categorical,
    Configuration,
    ConfigurationSpace,
    Constant,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    ForbiddenEqualsRelation,
    ForbiddenGreaterThanClause,
    ForbiddenGreaterThanEqualsClause,
    ForbiddenGreaterThanEqualsRelation,
    ForbiddenGreaterThanRelation,
    ForbiddenInClause,
    ForbiddenLessThanClause,
    ForbiddenLessThanEqualsClause,
    ForbiddenLessThanEqualsRelation,
    ForbiddenLessThanRelation,
    ForbiddenOrConjunction,
    GreaterThanCondition,
    InCondition,
    Integer,
    LessThanCondition,
    Normal,
    NotEqualsCondition,
    OrConjunction,
    OrdinalHyperparameter,
)
from ConfigSpace.exceptions import ForbiddenValueError

from warmstart.bo.space.encoding import Encoding
from warmstart.bo.space.papers import layered_space
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.space import dump_space, load_space
from warmstart.training.workloads.cnn.space import target_space


def every_kind():
    """Every kind of hyperparameter, conditions on conditions, every kind of clause."""
    space = ConfigurationSpace(name="every")
    kernel = Categorical("kernel", ["linear", "poly", "rbf"])
    size = OrdinalHyperparameter("size", ["s", "m", "l", "xl"])
    low, high, x = Integer("low", (0, 9)), Integer("high", (0, 9)), Float("x", (0.0, 1.0))
    degree, gamma = Integer("degree", (2, 10)), Float("gamma", (1e-4, 10.0), log=True)
    z_first, b_second, a_third = (
        Integer("z_first", (0, 3)),
        Float("b_second", (0.0, 1.0)),
        Categorical("a_third", [1, 2, 3]),
    )
    space.add(kernel, size, low, high, x, degree, gamma, z_first, b_second, a_third)
    space.add(
        Float("C", (1e-5, 1e3), log=True),
        Integer("units", (4, 512), log=True),
        Categorical("shrink", [True, False]),
        Float("bell", (-3.0, 3.0), distribution=Normal(0, 1)),
        Constant("version", 3),
    )
    space.add(
        EqualsCondition(degree, kernel, "poly"),
        InCondition(gamma, kernel, ["poly", "rbf"]),
        OrConjunction(LessThanCondition(z_first, size, "m"), GreaterThanCondition(z_first, x, 0.5)),
        AndConjunction(NotEqualsCondition(b_second, z_first, 2), GreaterThanCondition(b_second, low, 2)),
        GreaterThanCondition(a_third, b_second, 0.25),
    )
    space.add(
        ForbiddenAndConjunction(ForbiddenEqualsClause(kernel, "linear"), ForbiddenGreaterThanEqualsClause(size, "l")),
        ForbiddenAndConjunction(ForbiddenInClause(degree, [2, 3, 4]), ForbiddenLessThanClause(x, 0.5)),
        ForbiddenAndConjunction(
            ForbiddenOrConjunction(ForbiddenLessThanEqualsClause(low, 3), ForbiddenGreaterThanClause(size, "m")),
            ForbiddenGreaterThanRelation(low, high),
        ),
        ForbiddenAndConjunction(ForbiddenEqualsRelation(low, high), ForbiddenGreaterThanEqualsRelation(x, b_second)),
        ForbiddenAndConjunction(ForbiddenLessThanRelation(x, b_second), ForbiddenLessThanEqualsRelation(high, z_first)),
    )
    return space


def discrete():
    """A finite space of 3 x 2 x 2 combinations in which three are forbidden and a condition makes others one."""
    space = ConfigurationSpace(name="discrete")
    a, b, c = Integer("a", (1, 3), default=1), Categorical("b", ["x", "y"]), OrdinalHyperparameter("c", [10, 20])
    space.add(a, b, c)
    space.add(EqualsCondition(c, b, "y"), ForbiddenEqualsClause(a, 2))
    return space


def tiny():
    """A space of which a clause allows less than any design finds."""
    space = ConfigurationSpace()
    x, y = Float("x", (0.0, 1.0), default=2e-4), Float("y", (0.0, 1.0), default=1e-4)
    space.add(x, y, Integer("n", (1, 9), default=3))
    space.add(ForbiddenGreaterThanClause(x, 5e-4), ForbiddenLessThanRelation(x, y))
    return space


SPACES = {"every": every_kind, "discrete": discrete, "compact": target_space}


@pytest.fixture(params=SPACES)
def space(request):
    return SPACES[request.param]()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class TestRoundTrips:
    def test_points_configurations_points(self, space, rng):
        encoding = Encoding(space)
        U = rng.random((500, encoding.p))
        U = U[encoding.valid(U)]
        configs = encoding.decode(U)
        V = encoding.encode(configs)
        assert encoding.decode(V) == configs
        assert encoding.keys(V) == encoding.keys(U)
        assert np.array_equal(encoding.encode(encoding.decode(V)), V)
        np.testing.assert_allclose(encoding.columns(V), encoding.columns(U), atol=1e-12)

    def test_neighbouring_floats_stay_apart_yet_have_one_key(self):
        space = ConfigurationSpace()
        space.add(Float("x", (-5.0, 5.0)))
        encoding = Encoding(space)
        configs = [{"x": x} for x in (1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0), 5e-324, 0.0, -0.0, 1 / 3)]
        assert encoding.decode(encoding.encode(configs)) == configs
        assert [encoding.decode(encoding.encode([config])) for config in configs] == [[config] for config in configs]
        keys = [encoding.key(config) for config in configs]
        assert len(set(keys[:3])) == len(set(keys[3:6])) == 1
        assert len(set(keys)) == 3

    def test_whole_numbers_that_are_no_float_come_back_exactly(self):
        space = ConfigurationSpace()
        space.add(Integer("n", (1, 2**62), log=True), Categorical("kind", ["a", "b"]))
        space.add(EqualsCondition(space["n"], space["kind"], "a"))
        encoding = Encoding(space)
        values = [2**53 + 1, 2**53, 2**53 - 1, 2**61 + 1, 2**61 + 2, 2**62 - 1, 2**62, 1]
        configs = [{"kind": "b"}, *({"n": value, "kind": "a"} for value in values)]
        for given in (configs, configs[::-1]):
            assert encoding.decode(encoding.encode(given)) == given
        again = pickle.loads(pickle.dumps(encoding))
        assert again.decode(encoding.encode(configs)) == configs
        assert len({encoding.key(config) for config in configs[1:3]}) == 1  # equal after rounding


class TestAgainstConfigSpace:
    def test_activity_and_clauses_are_its_own(self, space, rng):
        encoding = Encoding(space)
        loose = Encoding(without_clauses(space))
        U = rng.random((120, encoding.p))
        for u, valid in zip(U, encoding.valid(U), strict=True):
            if valid:
                config = encoding.decode(u[None])[0]
                assert set(Configuration(space, values=config)) == set(config)
                continue
            with pytest.raises(ForbiddenValueError):
                Configuration(space, values=loose.decode(u[None])[0])


def without_clauses(space):
    loose = ConfigurationSpace()
    loose.add(*space.values())
    loose.add(*space.conditions)
    return loose


class TestColumns:
    def test_by_hand(self):
        space = ConfigurationSpace()
        kernel, gamma = Categorical("kernel", ["a", "b", "c"]), Float("gamma", (1e-2, 1.0), log=True)
        space.add(kernel, gamma, Integer("n", (1, 5)), Constant("k", 1))
        space.add(EqualsCondition(gamma, kernel, "c"))
        encoding = Encoding(space)
        assert encoding.names == ("kernel", "n", "gamma")
        assert (encoding.p, encoding.d, encoding.conditional) == (3, 5, (4,))
        assert encoding.real.tolist() == [False, False, True]
        assert encoding.column.tolist() == [0, 3, 4]
        configs = [{"kernel": "c", "gamma": 0.1, "n": 4, "k": 1}, {"kernel": "a", "n": 1, "k": 1}]
        U = encoding.encode(configs)
        np.testing.assert_allclose(U, [[5 / 6, 0.7, 0.5], [1 / 6, 0.1, 0.5]])
        np.testing.assert_allclose(encoding.columns(U), [[0, 0, 1, 0.75, 0.5], [1, 0, 0, 0, np.nan]])


class TestSample:
    @pytest.mark.parametrize("design", ["uniform", "sobol"])
    def test_distinct_allowed_and_the_same_under_a_seed(self, space, design):
        encoding = Encoding(space)
        U = encoding.sample(6, design=design, rng=np.random.default_rng(3))
        assert U.shape == (6, encoding.p)
        assert encoding.valid(U).all()
        assert len(set(encoding.keys(U))) == 6
        assert np.array_equal(U, Encoding(space).sample(6, design=design, rng=np.random.default_rng(3)))

    def test_a_finite_space_is_given_whole_and_no_more(self, rng):
        encoding = Encoding(discrete())
        assert encoding.size == 6  # a in {1, 3}; (x), (y, 10), (y, 20)
        assert len(encoding.sample(100, rng=rng)) == 6
        keys = encoding.keys(encoding.sample(4, rng=rng))
        rest = encoding.sample(100, rng=rng, exclude=set(keys))
        assert len(rest) == 2
        assert {*keys, *encoding.keys(rest)} == set(encoding.keys(encoding.sample(6, rng=rng)))
        assert len(encoding.sample(1, rng=rng, exclude={*keys, *encoding.keys(rest)})) == 0

    def test_where_next_to_nothing_is_allowed_the_default_and_what_is_beside_it_are_found(self, rng):
        encoding = Encoding(tiny())
        points = encoding.sample(50, rng=rng)
        assert encoding.decode(points[:1]) == [{"x": 2e-4, "y": 1e-4, "n": 3}]
        assert len(set(encoding.keys(points))) == 50
        assert encoding.valid(points).all()
        assert np.ptp(points[:, 0]) > 2e-4
        assert encoding.fits(encoding.decode(points)).all()
        more = encoding.sample(1, rng=rng, exclude=encoding.keys(points))
        assert len(more) == 1
        assert not {*encoding.keys(more)} & {*encoding.keys(points)}


class TestNeighbours:
    def test_one_step_of_one_hyperparameter(self, rng):
        encoding = Encoding(every_kind())
        for u in encoding.sample(20, rng=rng):
            found = encoding.neighbours(u, rng=rng)
            assert np.all((found != u).sum(axis=1) == 1)
            assert not (found != u)[:, encoding.real].any()
            assert encoding.valid(found).all()
            assert len({*encoding.keys(found), *encoding.keys(u[None])}) == len(found) + 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "got"),
        [
            ({"batch_size": 400}, r"batch_size=400, which is not a whole number in \[8, 32\]"),
            ({"dropout_rate": float("nan")}, "dropout_rate=nan"),
            ({"dropout_rate": True}, "dropout_rate=True"),
            ({"colour": "red"}, "the unknown name 'colour'; it has batch_size, dropout_rate"),
        ],
    )
    def test_values_and_names(self, change, got):
        good = sobol_configs(target_space(), 2)
        with pytest.raises(
            DataError, match=f"expected one that the space .*allows, got {got}.*Correct the name or the value"
        ):
            Encoding(target_space()).encode([good[0], {**good[1], **change}])

    def test_missing_inactive_and_forbidden(self):
        encoding = Encoding(discrete())
        with pytest.raises(DataError, match=r"got none for c, one of 10, 20\."):
            encoding.encode([{"a": 1, "b": "y"}])
        with pytest.raises(DataError, match="got a value for c, which is inactive here"):
            encoding.encode([{"a": 1, "b": "x", "c": 10}])
        with pytest.raises(DataError, match="got c=30, which is not one of 10, 20"):
            encoding.encode([{"a": 1, "b": "x", "c": 30}])
        with pytest.raises(DataError, match="got one that is forbidden by Forbidden: a == 2"):
            encoding.encode([{"a": 2, "b": "x"}])

    def test_a_forbidden_point_is_not_decoded(self):
        with pytest.raises(DataError, match=r"^point 1: expected .*forbidden by Forbidden: a == 2\. Ask `valid` first"):
            Encoding(discrete()).decode([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])

    @pytest.mark.parametrize("U", [[[0.5] * 5], [[0.5] * 5 + [1.1]], [[0.5] * 5 + [float("nan")]]])
    def test_points_of_another_cube(self, U):
        with pytest.raises(UsageError, match=r"^points: expected `n x 6` in \[0, 1\], got (shape|values outside)"):
            Encoding(target_space()).columns(U)


def test_what_fits_is_what_can_be_encoded(rng):
    encoding = Encoding(layered_space())
    good = encoding.decode(encoding.sample(40, rng=rng))
    bad = [{**good[0], "more": 1}, dict(list(good[1].items())[1:]), {**good[2], next(iter(good[2])): "?"}, {}]
    assert encoding.fits(good).all()
    assert not encoding.fits(bad).any()
    assert encoding.fits([*bad, *good]).tolist() == [False] * 4 + [True] * 40
    for config in bad:
        with pytest.raises(DataError):
            encoding.encode([config])
    forbidden = Encoding(discrete())
    assert forbidden.fits([]).tolist() == []
    assert not forbidden.fits([{"a": 2, "b": "x"}])[0]


def test_clauses_of_other_makers():
    class Odd(EqualsCondition):
        pass

    class OddClause(ForbiddenEqualsClause):
        pass

    space = discrete()
    space.add(Integer("e", (0, 1)))
    space.add(Odd(space["e"], space["b"], "x"))
    with pytest.raises(UsageError, match=r"ConfigSpace's own kinds, got e \| b == 'x' \(Odd\)"):
        Encoding(space)
    space = discrete()
    space.add(OddClause(space["a"], 3))
    with pytest.raises(UsageError, match=r"own kinds, got Forbidden: a == 3 \(OddClause\)"):
        Encoding(space)


def test_a_space_read_from_json_gives_the_same(space, rng):
    U = Encoding(space).sample(6, rng=rng)
    again = Encoding(load_space(dump_space(space)))
    assert again.decode(U) == Encoding(space).decode(U)
    assert again.keys(U) == Encoding(space).keys(U)
