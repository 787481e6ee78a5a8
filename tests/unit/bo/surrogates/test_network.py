"""Networks and their inputs: derivatives against finite differences, stacks against one network at a time."""

import math

import numpy as np
import pytest

from warmstart.bo.surrogates.inputs import Inputs
from warmstart.bo.surrogates.network import Network

SHAPES = [
    Network((3, 5, 4, 2), ("relu", "tanh", "linear")),
    Network((3, 1)),
]


@pytest.fixture(params=SHAPES, ids=str)
def case(request):
    rng, net = np.random.default_rng(0), request.param
    theta = net.initial(4, rng=rng, dtype=np.float64)
    return net, theta + 0.1 * rng.standard_normal(theta.shape), rng.standard_normal((7, 3)), rng


def test_one_network_by_hand():
    theta = np.array([[1.0, -2.0, 0.5, 0.25, 3.0, 1.0, -1.0]])  # 1-2-1: weights (1, -2), biases (0.5, 0.25), (3, 1), -1
    (output,) = Network((1, 2, 1)).forward(theta, np.array([[0.3]]))[-1]
    assert output[0, 0] == pytest.approx(3 * math.tanh(0.8) + math.tanh(-0.35) - 1, abs=1e-15)


def test_start_has_the_variance_of_its_fan_in():
    net = Network((200, 100, 50), ("relu", "linear"))
    theta = net.initial(3, rng=np.random.default_rng(1))
    (w, b), (v, c) = net.layers(theta)
    assert theta.dtype == np.float32
    assert w.var() == pytest.approx(2 / 200, rel=0.05)
    assert v.var() == pytest.approx(1 / 100, rel=0.05)
    assert not b.any()
    assert not c.any()


def test_gradient_of_the_weights(case):
    net, theta, X, rng = case
    slope = rng.standard_normal((4, 7, net.sizes[-1]))
    gradient = net.backward(theta, net.forward(theta, X), slope)
    for _ in range(3):
        step = rng.standard_normal(theta.shape)
        up, down = ((slope * net.forward(theta + e * step, X)[-1]).sum((1, 2)) for e in (1e-6, -1e-6))
        np.testing.assert_allclose((gradient * step).sum(1), (up - down) / 2e-6, rtol=1e-6, atol=1e-8)


def test_gradient_of_the_inputs_is_a_row_of_the_jacobian(case):
    net, theta, X, rng = case
    values = net.forward(theta, X)
    jacobian = net.jacobian(theta, values)
    assert jacobian.shape == (4, 7, 3, net.sizes[-1])
    for k in range(3):
        step = 1e-6 * np.eye(3)[k]
        numeric = (net.forward(theta, X + step)[-1] - net.forward(theta, X - step)[-1]) / 2e-6
        np.testing.assert_allclose(jacobian[:, :, k], numeric, rtol=1e-6, atol=1e-8)
    slope = rng.standard_normal((4, 7, net.sizes[-1]))
    np.testing.assert_allclose(
        net.input_gradient(theta, values, slope), np.einsum("kbio,kbo->kbi", jacobian, slope), rtol=1e-10, atol=1e-12
    )


def test_inputs_by_hand():
    inputs = Inputs(4, (2, 1))
    X = np.array([[0.0, 0.5, np.nan, 1.0], [0.75, np.nan, 1.0, 0.5]])
    root = math.sqrt(0.5)
    np.testing.assert_allclose(inputs(X), [[-1, 1, root, 0, root, 0], [0.5, 0, 0, 1, 0, 0]], atol=1e-15)
    assert inputs.width == 6
    np.testing.assert_array_equal(Inputs(2)(np.array([[0.0, 1.0]])), [[-1.0, 1.0]])


def test_inputs_pull_gradients_back():
    rng = np.random.default_rng(0)
    inputs, X = Inputs(4, (1, 3)), rng.random((5, 4))
    X[2, 3] = X[0, 1] = np.nan
    slope = rng.standard_normal((2, 5, inputs.width))
    found = inputs.pull_back(X, slope)
    for k in range(4):
        step = 1e-6 * np.eye(4)[k]
        numeric = (slope * (inputs(X + step) - inputs(X - step)) / 2e-6).sum(-1)
        np.testing.assert_allclose(found[..., k], numeric, rtol=1e-6, atol=1e-9)
    assert found[0, 2, 3] == found[1, 0, 1] == 0
