"""Related tasks have no order: what every multi-task surrogate computes of them is the same in any other, rounding aside.

A network starts from a generator, which deals its first weights and its batches to the tasks by their places: two orders are then two
seeds of one posterior. That is shown in `tests/statistical/test_multitask.py`.
"""

import numpy as np
import pytest

from warmstart.bo.surrogates import SURROGATES, Task
from warmstart.bo.surrogates.bohamiann.bayesian_network import BayesianNetwork, Data
from warmstart.bo.surrogates.dngo.layer_prior import LayerPrior
from warmstart.bo.surrogates.network import Network
from warmstart.bo.surrogates.tasks import Pool, reduced_meta

ORDER = np.array([2, 0, 1])
"""Of three related tasks; the target stays the last."""
QUICK = {
    "mt-gp": {"samples": 8, "burn_in": 60},
    "mt-dngo": {},
}


def tasks(metas=True):
    rng = np.random.default_rng(0)
    made = []
    for n in (5, 8, 6):
        X = rng.random((n, 2))
        made.append(Task(X, 3.0 * rng.standard_normal(n), rng.random(4) if metas else None))
    return made


def permuted(related):
    return [related[i] for i in ORDER]


def target(n=7):
    X = np.random.default_rng(1).random((n, 2))
    return X, np.sin(4.0 * X[:, 0])


@pytest.mark.parametrize("n", [0, 7])
def test_units_of_the_target_know_no_order(n):
    one, two = (Pool.of(related, *target(n)) for related in (tasks(), permuted(tasks())))
    np.testing.assert_allclose([two.mean, two.sd, *two.units], [one.mean, one.sd, *one.units], rtol=1e-12)
    for place, task in enumerate([*ORDER, 3]):
        np.testing.assert_allclose(two.z[two.task == place], one.z[one.task == task], atol=1e-12)


def test_reduced_meta_features_move_with_their_tasks():
    own = np.random.default_rng(2).random(4)
    one, two = (reduced_meta(related, own) for related in (tasks(), permuted(tasks())))
    expected = one[[*ORDER, 3]]
    np.testing.assert_allclose(two @ two.T, expected @ expected.T, atol=1e-12)  # the sign of a component is free


def test_what_last_layers_have_in_common_knows_no_order():
    rng = np.random.default_rng(3)
    features = np.column_stack([rng.standard_normal((30, 4)), np.ones(30)])
    z, task = rng.standard_normal(30), np.repeat(np.arange(3), (8, 12, 10))
    place = np.argsort(ORDER)
    one, two = (LayerPrior.of(features, z, of, 3, units=(0.1, 0.2)) for of in (task, place[task]))
    np.testing.assert_allclose(two.mean, one.mean, rtol=1e-9)
    np.testing.assert_allclose(two.root, one.root, rtol=1e-8, atol=1e-12)
    assert two.log_beta == pytest.approx(one.log_beta)


def test_a_posterior_of_networks_knows_no_order():
    """Its energy, with the latent numbers and noises of tasks moved along, and its predictions for every task."""
    rng, order = np.random.default_rng(4), np.array([2, 0, 1, 3])
    model = BayesianNetwork(Network((3 + 5, 10, 1)), 4, 5)
    theta, p = rng.standard_normal((2, model.n_parameters)), model.network.n_weights
    X, z, task = rng.standard_normal((20, 3)), rng.standard_normal(20), rng.integers(4, size=20)
    moved = theta.copy()
    moved[:, p:-4] = theta[:, p:-4].reshape(2, 4, 5)[:, order].reshape(2, -1)
    moved[:, -4:] = theta[:, -4:][:, order]
    place = np.argsort(order)
    precisions = model.precisions(theta)
    one, two = Data(X, z, task), Data(X, z, place[task])
    np.testing.assert_allclose(
        model.energy(moved, two, precisions=precisions), model.energy(theta, one, precisions=precisions), rtol=1e-12
    )
    slope, moved_slope = (
        model.gradient(at, data, precisions=precisions, out=np.empty_like(theta))
        for at, data in ((theta, one), (moved, two))
    )
    np.testing.assert_allclose(moved_slope[:, :p], slope[:, :p], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moved_slope[:, -4:], slope[:, -4:][:, order], rtol=1e-9, atol=1e-9)
    for t in range(4):
        for left, right in zip(model.outputs(moved, X, int(place[t])), model.outputs(theta, X, t), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_task_that_is_given_several_times_is_no_harm(name):
    X, y = target(6)
    U = np.random.default_rng(5).random((20, 2))
    seen, Z = Task(U, np.sin(4.0 * U[:, 0])), np.random.default_rng(6).random((100, 2))
    error = []
    for related in ([seen], [seen] * 3):
        model = SURROGATES[name](related=related, **QUICK[name]).fit(X, y, rng=np.random.default_rng(0))
        prediction = model.predict(Z)
        assert np.isfinite(prediction.mean).all()
        assert np.all(prediction.var > 0.0)
        error.append(np.sqrt(np.mean((prediction.mean.mean(axis=0) - np.sin(4.0 * Z[:, 0])) ** 2)))
    assert error[1] < max(1.5 * error[0], 0.1), error
