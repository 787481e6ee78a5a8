"""DNGO, for one task and several: against its own regression, other activations, held-out points, related tasks."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from warmstart.bo.surrogates import DNGO, MultiTaskDNGO, Task
from warmstart.bo.surrogates.dngo.feature_network import Plan, scale_inputs, side_by_side, train
from warmstart.bo.surrogates.dngo.layer_prior import LayerPrior
from warmstart.bo.surrogates.inputs import Inputs
from warmstart.bo.surrogates.network import Network
from warmstart.history_store.errors import UsageError

POINTS = np.random.default_rng(9).random((40, 2))
QUICK = {"networks": 2, "steps": 200, "burn_in": 10}


def wave(X, shift=0.0):
    return np.sin(5 * X[:, 0] + shift) + X[:, 1] ** 2


def data(n=40, seed=0, d=2):
    X = np.random.default_rng(seed).random((n, d))
    return X, wave(X)


def rng(seed=0):
    return np.random.default_rng(seed)


def mean(model, X):
    return model.predict(X).mean.mean(axis=0)


def test_held_out_points_do_not_train():
    """Of five points each network misses one, and is trained as if it were not there."""
    X, y = data(5)
    moved = y + 100.0 * (np.arange(5) == 2)
    plan = Plan(20, 30, 0, 0.0, 0.2)
    first, second = (train(Network((2, 5, 1)), X, z, plan=plan, rng=rng(1)) for z in (y, moved))
    same = np.all(first == second, axis=1)
    assert 0 < same.sum() < 20


def test_side_by_side_features_are_one_map_of_variance_one():
    values = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])  # 2 networks x 2 points x 2 features
    np.testing.assert_allclose(side_by_side(values), [[1, 2, 5, 6], [3, 4, 7, 8]])  # 4 features: divided by 0.5 · √4
    theta = Network((2, 50, 50)).initial(5, rng=rng(), dtype=np.float64)
    shown = Inputs(1, (0,))(POINTS[:, :1]) * 2.0
    squares = np.square(side_by_side(Network((2, 50, 50), ("tanh", "tanh")).forward(theta, shown)[-1])).sum(axis=1)
    assert squares.mean() == pytest.approx(1.0, abs=0.5)


def test_scales_of_inputs_follow_the_evidence():
    """What plays no part is flattened, and a rough column steepened; other layers stay as drawn."""
    X, _ = data(80, d=3)
    shown = Inputs(3, range(3))(X)
    network = Network((6, 20, 20), ("tanh", "tanh"))
    theta = network.initial(3, rng=rng(), dtype=np.float64)
    z = np.sin(9.0 * X[:, 0]) + np.sin(5.0 * X[:, 1])
    scaled = scale_inputs(network, theta, X=shown, z=z, column=np.array([0, 1, 2, 0, 1, 2]))
    (was, _), *rest = network.layers(theta)
    (now, _), *others = network.layers(scaled)
    for before, after in zip(rest, others, strict=True):
        np.testing.assert_array_equal(before[0], after[0])
    ratio = (now / was).mean(axis=(0, 2))
    np.testing.assert_allclose(now / was, np.broadcast_to(ratio[None, :, None], now.shape))
    np.testing.assert_allclose(ratio[:3], ratio[3:])
    assert ratio[0] > ratio[1] > 1.5 * ratio[2], ratio


@pytest.mark.parametrize(
    "options",
    [
        {"inputs": "line"},
        {"prior_mean": "fixed"},
        {"training": "map", "prior_mean": "quadratic"},
        {"training": "evidence", "activation": "relu-tanh"},
    ],
    ids=str,
)
def test_smooth_functions_are_learned(options):
    model = DNGO(**QUICK | {"steps": 400} | options).fit(*data(60), rng=rng())
    assert np.corrcoef(mean(model, POINTS), wave(POINTS))[0, 1] > 0.97


@pytest.mark.parametrize(("prior_mean", "training"), [("quadratic", "auto"), ("fixed", "map")])
def test_gradients_and_fantasies_with_a_bowl(prior_mean, training):
    X, y = data(20)
    X[::4, 1] = np.nan
    model = DNGO(prior_mean=prior_mean, training=training, conditional=(1,), **QUICK).fit(X, y, rng=rng())
    points = POINTS[:6].copy()
    points[0, 1] = np.nan
    given = model.condition(points[:2], model.sample_joint(points[:2], 3, rng=rng()))
    for predict, slopes in (
        (lambda P: model.predict(P).mean, model.predict_gradient(points)[1]),
        (lambda P: given.predict(P)[0], given.predict_gradient(points)[2]),
    ):
        step = np.array([0.0, 1e-5])
        numeric = np.nan_to_num((predict(points + step) - predict(points - step)) / 2e-5)
        np.testing.assert_allclose(slopes[..., 1], numeric, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "gelu"}, "expected activation among tanh, relu, relu-tanh, got 'gelu'"),
        ({"networks": 0}, "expected positive hidden sizes, networks, samples and steps"),
        ({"held_out": 1.0}, r"expected held_out in \[0, 1\), got 1.0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        DNGO(**options)


# Several tasks.


def tasks(n=3, shift=0.3, points=30, meta=False):
    found = []
    for k in range(n):
        X, _ = data(points, seed=10 + k)
        found.append(Task(X, 3.0 * wave(X, shift * (k + 1)) + k, np.array([shift * (k + 1), 1.0]) if meta else None))
    return found


def test_without_related_tasks_it_is_the_single_task_model():
    X, y = data(12)
    one, other = (kind(**QUICK).fit(X, y, rng=rng()).predict(POINTS) for kind in (DNGO, MultiTaskDNGO))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.var, other.var)


def error(model):
    return np.sqrt(np.mean((mean(model, POINTS) - wave(POINTS)) ** 2))


def test_related_tasks_help_where_there_are_few_points():
    X, y = data(5)
    alone = DNGO().fit(X, y, rng=rng())
    together = MultiTaskDNGO(related=tasks(meta=True), meta=np.array([0.0, 1.0])).fit(X, y, rng=rng())
    assert error(together) < 0.8 * error(alone)


def other_tasks(points=30):
    """One of another function and one of noise."""
    first, second = tasks(2, points=points)
    return [Task(first.X, np.cos(7 * first.X[:, 1])), Task(second.X, rng(5).standard_normal(points))]


@pytest.mark.parametrize("points", [30, 100], ids=["as drawn", "trained"])
def test_what_predicts_the_target_better_is_believed(points):
    """With unrelated tasks, the surrogate is that of the target alone, to the last digit; with the same function it is not."""
    X, y = data(20)
    alone = DNGO(**QUICK).fit(X, y, rng=rng()).predict(POINTS)
    for related, same in ((other_tasks(points), True), (tasks(2, 0.0, points), False)):
        together = MultiTaskDNGO(related=related, **QUICK).fit(X, y, rng=rng()).predict(POINTS)
        assert np.array_equal(together.mean, alone.mean) == same


def test_left_out_targets_are_predicted_from_the_others():
    """Of one sample, by fits of the last layer without each of the points."""
    X, y = data(12)
    model = DNGO(**QUICK | {"networks": 1, "samples": 1}).fit(X, y, rng=rng())
    (head,), (features,), z = model._heads, model._features.values(X), model._targets
    alpha, beta, found = head.alpha[0], head.beta[0], []
    for i in range(len(X)):
        rest, told = np.delete(features, i, axis=0), np.delete((y - z.mean) / z.sd, i)
        K = beta * rest.T @ rest + alpha * np.eye(rest.shape[1])
        expected = features[i] @ np.linalg.solve(K, beta * rest.T @ told)
        var = features[i] @ np.linalg.solve(K, features[i]) + 1.0 / beta
        found.append(norm.logpdf(y[i], z.mean + z.sd * expected, z.sd * np.sqrt(var)))
    assert model.left_out(X, y) == pytest.approx(np.mean(found), rel=1e-6)


def test_what_last_layers_have_in_common_knows_no_order_of_tasks():
    features = np.column_stack([rng(3).standard_normal((30, 4)), np.ones(30)])
    z, task, place = rng(4).standard_normal(30), np.repeat(np.arange(3), (8, 12, 10)), np.array([1, 2, 0])
    one, two = (LayerPrior.of(features, z, of, 3, units=(0.1, 0.2)) for of in (task, place[task]))
    np.testing.assert_allclose(two.mean, one.mean, rtol=1e-9)
    np.testing.assert_allclose(two.root, one.root, rtol=1e-8, atol=1e-12)
    assert two.log_beta == pytest.approx(one.log_beta)


def test_where_every_network_saw_the_task_at_hand_related_tasks_are_kept_without_a_warning():
    X, value = np.random.default_rng(0).random((130, 2)), lambda X: (X[:, 0] - 0.3) ** 2
    model = MultiTaskDNGO(related=[Task(X, value(X))], networks=1, burn_in=3, held_out=0.0)
    model.fit(X[:3], value(X[:3]), rng=rng())
    assert math.isnan(model.left_out(X[:3], value(X[:3])))
