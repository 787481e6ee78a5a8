"""Related tasks: whether they forecast one another."""

import numpy as np
import pytest

from warmstart.bo.search import search_table
from warmstart.bo.strangers import _forecast_ranks, are_strangers
from warmstart.bo.surrogates import Task


def smooth(rng, d=2):
    """A random function of numbers in [0, 1]."""
    W, b, a = 3.0 * rng.standard_normal((20, d)), rng.uniform(0.0, 6.3, 20), rng.standard_normal(20)
    return lambda X: np.cos(X @ W.T + b) @ a


def tasks(rng, functions, n=30, d=2):
    return [Task((X := rng.random((n, d))), function(X)) for function in functions]


@pytest.mark.parametrize("seed", range(2))
def test_noise_is_strange_and_one_function_is_not(seed):
    """In units of their own, bent by anything that keeps the order."""
    rng = np.random.default_rng(seed)
    same = smooth(rng)
    bent = [same, lambda X: 1e-6 * np.exp(same(X)), lambda X: 1e9 + 100.0 * same(X)]
    assert not are_strangers(tasks(rng, bent))
    assert are_strangers(tasks(rng, 3 * [lambda X: rng.standard_normal(len(X))]))


@pytest.mark.parametrize("kept", [0, 1])
def test_one_task_that_can_be_compared_is_no_stranger(kept):
    rng = np.random.default_rng(1)
    X = rng.random((30, 2))
    constant, few = Task(X, np.ones(30)), Task(X[:3], rng.standard_normal(3))
    assert not are_strangers([Task(X, rng.standard_normal(30))][:kept])
    assert not are_strangers([Task(X, rng.standard_normal(30)), constant, few][-2 - kept :])


def test_ranks_of_the_nearest_three_are_averaged():
    """A column with a value and none are 1 apart, two without are together."""
    Z = np.array([[0.0, np.nan], [0.1, np.nan], [0.2, 0.5], [0.9, np.nan], [1.0, 0.5]])
    X = np.array([[0.0, np.nan], [0.2, 0.5]])
    ranks = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    assert _forecast_ranks(X, Z, ranks).tolist() == [(1 + 2 + 8) / 3, (4 + 16 + 2) / 3]


def far_off(X):
    """Errors in a unit that no stranger forecasts."""
    return 1e3 * np.square(X - [0.3, 0.6]).sum(axis=1) + 1e4


@pytest.mark.parametrize(("surrogate", "initial"), [("mt-gp", []), ("mt-dngo", [7])])
def test_a_search_of_a_table_whose_related_tasks_are_never_believed_is_the_search_without_them(surrogate, initial):
    """To the bit: what strangers cost is nothing but time. (By chance they may forecast better for a while: not with these seeds.)"""
    rng = np.random.default_rng(7)
    unit = rng.random((60, 2))
    related = [Task(rng.random((20, 2)), rng.standard_normal(20)) for _ in range(3)]
    with_them, alone = (
        search_table(
            unit, far_off(unit), initial=initial, t=8, rng=np.random.default_rng(4), surrogate=name, related=others
        )
        for name, others in ((surrogate, related), (surrogate.removeprefix("mt-"), []))
    )
    assert with_them == alone
