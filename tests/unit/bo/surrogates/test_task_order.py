"""Related tasks have no order: what every multi-task surrogate computes of them is the same in any other, rounding aside.

A network starts from a generator, which deals its first weights and its batches to the tasks by their places: two orders are then two
seeds of one posterior. That is shown in `tests/statistical/test_multitask.py`.
"""

import numpy as np
import pytest

from warmstart.bo.surrogates.bohamiann.bayesian_network import BayesianNetwork, Data
from warmstart.bo.surrogates.dngo.layer_prior import LayerPrior
from warmstart.bo.surrogates.network import Network

ORDER = np.array([2, 0, 1])
"""Of three related tasks; the target stays the last."""


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
