"""Error rows that a new dataset may have: against brute force, at the limits, and what is chosen for them."""

import numpy as np
import pytest

from bo.designs import designs, initial_designs
from bo.regret import regret_curve
from bo.strategies.portfolio import filled_regrets
from bo.strategies.posterior import OFFSET, RIDGES, _held_out, _kernels, scenarios
from history_store.errors import UsageError

M, C, D = 24, 16, 3


def distances_of(points):
    return np.linalg.norm(points[:, None] - points[None], axis=2)


@pytest.fixture
def world():
    """Errors that depend on hidden traits: the last dataset asks."""
    rng = np.random.default_rng(3)
    traits, optima = rng.normal(size=(M + 1, D)), rng.normal(size=(C, D))
    errors = np.square(traits[:, None] - optima).sum(axis=2)
    return errors, distances_of(traits)


def test_distances_give_back_the_points_they_come_from():
    points = np.random.default_rng(0).normal(size=(9, 4))
    matrix = distances_of(points)
    kernel, query = _kernels(matrix[:8, :8], matrix[8, :8])
    centred = points - points[:8].mean(axis=0)
    scale = np.square(centred[:8]).sum() / 8
    np.testing.assert_allclose(kernel, centred[:8] @ centred[:8].T / scale, atol=1e-9)
    np.testing.assert_allclose(query, centred[8] @ centred[:8].T / scale, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.3, 10.0, np.inf])
def test_what_is_missed_is_what_a_fit_without_the_group_misses(ridge):
    rng = np.random.default_rng(1)
    points, targets = rng.normal(size=(12, 4)), rng.random((12, 5))
    codes = np.array([0, 0, 0, 1, 2, 2, 3, 4, 5, 5, 5, 6])
    kernel = points @ points.T
    misses, _ = _held_out(targets, kernel, [np.flatnonzero(codes == code) for code in range(7)], ridge)
    used = np.zeros_like(kernel) if np.isinf(ridge) else kernel
    noise = 1.0 if np.isinf(ridge) else ridge
    for code in range(7):
        out, kept = codes == code, codes != code
        inside = used[np.ix_(kept, kept)] + OFFSET + noise * np.eye(kept.sum())
        predicted = (used[np.ix_(out, kept)] + OFFSET) @ np.linalg.solve(inside, targets[kept])
        np.testing.assert_allclose(misses[out], targets[out] - predicted, atol=1e-8)


def test_distances_that_say_nothing_leave_the_datasets_themselves(world):
    errors, _ = world
    same = np.ones((M, M)) - np.eye(M)
    possible = scenarios(errors[:-1], np.ones(M), same, np.arange(M))
    regrets = filled_regrets(errors[:-1])
    np.testing.assert_allclose(possible.mean(axis=0), regrets.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(possible, regrets, atol=0.05)


def test_good_distances_predict_and_choose_better_than_the_portfolio(world):
    errors, matrix = world
    truth = filled_regrets(errors)[-1]
    possible = scenarios(errors[:-1], matrix[-1, :-1], matrix[:-1, :-1], np.arange(M))
    blind = np.square(filled_regrets(errors[:-1]).mean(axis=0) - truth).mean()
    assert np.square(possible.mean(axis=0) - truth).mean() < 0.5 * blind
    told = {"between": matrix[:-1, :-1], "strategy": "posterior"}
    ours = regret_curve(errors[-1], initial_designs(errors[:-1], matrix[-1, :-1], 3, **told))
    plain = regret_curve(errors[-1], initial_designs(errors[:-1], None, 3))
    assert ours.mean() < plain.mean()


def test_siblings_do_not_make_distances_look_better_than_they_are():
    """Every dataset is there twice: copies predict each other, unless they are known as siblings."""
    rng = np.random.default_rng(5)
    once, points = rng.random((12, 8)), rng.normal(size=(12, 12))
    errors, matrix = np.repeat(once, 2, axis=0), distances_of(np.repeat(points, 2, axis=0))
    query = np.linalg.norm(rng.normal(size=12) - np.repeat(points, 2, axis=0), axis=1)
    known = scenarios(errors, query, matrix, np.repeat(np.arange(12), 2))
    unknown = scenarios(errors, query, matrix, np.arange(24))
    assert known.std(axis=0).mean() > 2 * unknown.std(axis=0).mean()


def test_the_order_and_unit_of_datasets_do_not_matter(world):
    errors, matrix = world
    order = np.random.default_rng(0).permutation(M)
    first = designs(errors[:-1], matrix[-1, :-1], 6, strategy="posterior", between=matrix[:-1, :-1], groups=range(M))
    again = designs(
        errors[:-1][order],
        7 * matrix[-1, :-1][order],
        6,
        strategy="posterior",
        between=7 * matrix[:-1, :-1][np.ix_(order, order)],
        groups=order.tolist(),
    )
    assert [choice.row for choice in again] == [choice.row for choice in first]
    assert [int(order[choice.neighbour]) for choice in again] == [choice.neighbour for choice in first]


def test_missing_cells_and_configurations_never_measured(world):
    errors, matrix = world
    errors = errors.copy()
    errors[np.random.default_rng(2).random(errors.shape) < 0.3] = np.nan
    errors[:, 4] = np.nan
    told = {"between": matrix[:-1, :-1], "strategy": "posterior"}
    rows = initial_designs(errors[:-1], matrix[-1, :-1], C, **told)
    assert sorted(rows) == list(range(C))
    assert rows[-1] == 4


def test_distances_that_no_points_have_are_stood():
    rng = np.random.default_rng(6)
    between = rng.random((20, 20))
    possible = scenarios(rng.random((20, 5)), rng.random(20), between, np.arange(20))
    assert np.isfinite(possible).all()
    assert len(RIDGES) == len(set(RIDGES))


def test_without_distances_among_the_datasets_it_is_joint(world):
    errors, matrix = world
    found = designs(errors[:-1], matrix[-1, :-1], 5, strategy="posterior")
    assert found == designs(errors[:-1], matrix[-1, :-1], 5, strategy="joint")


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"between": np.zeros((3, 2))}, r"expected `3 x 3` finite distances of 0 or more between datasets, got shape \(3, 2\)"),
        ({"between": np.full((3, 3), -1.0)}, "finite distances of 0 or more between datasets, got others"),
        ({"groups": ["a", "b"]}, r"expected one group a dataset \(3\), got 2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(told, message):
    with pytest.raises(UsageError, match=message):
        initial_designs(np.ones((3, 2)), np.ones(3), 1, **told)
