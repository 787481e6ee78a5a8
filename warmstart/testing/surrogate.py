"""The contract of surrogates; inherit `SurrogateContract` and return the tested surrogate."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from warmstart.bo.surrogates import Surrogate
from warmstart.history_store.errors import DataError, UsageError

POINTS = np.random.default_rng(9).random((20, 3))


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    return X, X[:, 0] + 0.3 * rng.standard_normal(n)


def awkward():
    X, y = rows(10)
    yield pytest.param(X, np.zeros(10), id="zero targets")
    for n in (1, 3):
        yield pytest.param(X[:n], y[:n], id=f"{n} points")
    yield pytest.param(np.repeat(X[:2], 5, axis=0), y, id="duplicates that disagree")
    yield pytest.param(np.column_stack([X[:, :2], np.full(10, 0.5)]), y, id="constant column")
    for scale in (1e-100, 1e100):
        yield pytest.param(X, y * scale, id=f"targets of {scale}")
    yield pytest.param(X, y + 1e8, id="targets far from 0")
    yield pytest.param(X.tolist(), y.tolist(), id="lists")


def fitted(surrogate, n=12, **options):
    X, y = rows(n)
    return surrogate(**options).fit(X, y, rng=np.random.default_rng(1))


def differences(values, points, step=1e-5):
    """Compute gradients by central differences, on the last axis of the result of `values`."""
    columns = []
    for k in range(points.shape[1]):
        shift = np.zeros(points.shape[1])
        shift[k] = step
        columns.append((values(points + shift) - values(points - shift)) / (2 * step))
    return np.stack(columns, axis=-1)


def assert_gradient(gradient, expected):
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def with_inactive(n, seed=0):
    X, y = rows(n, seed)
    X[::3, 2] = np.nan
    return X, y


def fantasies(model, points, n, seed=3):
    prediction, rng = model.predict(points), np.random.default_rng(seed)
    latent = model.sample_joint(points, n, rng=rng)
    return latent + np.sqrt(prediction.noise)[:, None, None] * rng.standard_normal(latent.shape)


class SurrogateContract(ABC):
    """A surrogate on a few points in three dimensions."""

    exact: ClassVar[bool] = True
    """Whether it conditions on pending points exactly, by Bayes' rule."""

    @pytest.fixture
    @abstractmethod
    def surrogate(self) -> Callable[..., Surrogate]:
        """Return the factory of the surrogate: a class or a function that takes `conditional`."""

    @pytest.mark.parametrize(("X", "y"), list(awkward()))
    def test_predictions_are_finite(self, surrogate, X, y):
        prediction = surrogate().fit(X, y, rng=np.random.default_rng(0)).predict(POINTS)
        s = len(prediction.mean)
        assert prediction.mean.shape == prediction.var.shape == (s, len(POINTS))
        assert prediction.noise.shape == (s,)
        for values in (prediction.mean, prediction.var, prediction.noise):
            assert values.dtype == np.float64
            assert np.isfinite(values).all()
        assert np.all(prediction.var > 0)
        assert np.all(prediction.noise > 0)

    def test_variance_is_positive_also_where_it_was_seen(self, surrogate):
        X, y = rows(10)
        assert np.all(surrogate().fit(X, y, rng=np.random.default_rng(0)).predict(X).var > 0)

    def test_one_dimension(self, surrogate):
        X = np.linspace(0, 1, 8)[:, None]
        prediction = (
            surrogate().fit(X, np.cos(3 * X[:, 0]), rng=np.random.default_rng(0)).predict(np.array([[0.05], [0.95]]))
        )
        mean = prediction.mean.mean(axis=0)
        assert mean[0] > 0.8
        assert mean[1] < -0.8

    def test_a_second_fit_forgets_the_first_data(self, surrogate):
        rng, (X, y) = np.random.default_rng(0), rows(12)
        model = surrogate().fit(X, y, rng=rng).fit(X, -y, rng=rng)
        mean = model.predict(X).mean.mean(axis=0)
        assert np.corrcoef(mean, -y)[0, 1] > 0.5

    def test_the_generator_is_the_only_randomness(self, surrogate):
        X, y = rows(9)
        first, second = (surrogate().fit(X, y, rng=np.random.default_rng(4)).predict(POINTS) for _ in range(2))
        np.testing.assert_array_equal(first.mean, second.mean)
        np.testing.assert_array_equal(first.var, second.var)

    def test_the_arrays_of_the_caller_stay_as_they_are(self, surrogate):
        X, y = rows(9)
        copies = X.copy(), y.copy()
        surrogate().fit(X, y, rng=np.random.default_rng(4)).predict(X)
        np.testing.assert_array_equal(X, copies[0])
        np.testing.assert_array_equal(y, copies[1])

    @pytest.mark.parametrize("value", [np.nan, -np.inf])
    def test_targets_that_are_no_numbers_are_refused(self, surrogate, value):
        X, y = rows(4)
        y[2] = value
        with pytest.raises(
            DataError, match=rf"expected finite targets, got y\[2\]={value}. Leave failed evaluations out"
        ):
            surrogate().fit(X, y, rng=np.random.default_rng(0))

    @pytest.mark.parametrize(
        ("X", "y", "error", "message"),
        [
            (np.zeros((3, 2)), np.zeros(4), UsageError, r"got 3 points and targets of shape \(4,\)"),
            (np.zeros((0, 2)), np.zeros(0), UsageError, "got 0 points"),
            (np.zeros(3), np.zeros(3), UsageError, r"expected `n x d` points, got shape \(3,\)"),
            (np.zeros((3, 0)), np.zeros(3), UsageError, r"got shape \(3, 0\)"),
            (np.full((3, 2), np.nan), np.zeros(3), DataError, "expected finite points, got NaN or inf"),
        ],
    )
    def test_points_that_do_not_fit_are_refused(self, surrogate, X, y, error, message):
        with pytest.raises(error, match=message):
            surrogate().fit(X, y, rng=np.random.default_rng(0))

    def test_gradients_are_differences(self, surrogate):
        model = fitted(surrogate)
        prediction, dmean, dvar = model.predict_gradient(POINTS)
        plain = model.predict(POINTS)
        np.testing.assert_allclose(prediction.mean, plain.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(prediction.var, plain.var, rtol=1e-6)
        np.testing.assert_array_equal(prediction.noise, plain.noise)
        assert dmean.shape == dvar.shape == (*plain.mean.shape, 3)
        assert_gradient(dmean, differences(lambda X: model.predict(X).mean, POINTS))
        assert_gradient(dvar, differences(lambda X: model.predict(X).var, POINTS))

    def test_gradients_at_the_data_are_finite(self, surrogate):
        X, y = rows(10)
        _, dmean, dvar = surrogate().fit(X, y, rng=np.random.default_rng(0)).predict_gradient(X)
        assert np.isfinite(dmean).all()
        assert np.isfinite(dvar).all()

    def test_joint_predictions_have_the_predicted_moments_and_gradients(self, surrogate):
        model, points = fitted(surrogate), POINTS[:5]
        prediction, dmean, dvar = model.predict_gradient(points)
        mean, covariance, joint_dmean, dcovariance = model.joint_gradient(points)
        np.testing.assert_allclose(mean, prediction.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(joint_dmean, dmean, rtol=1e-7, atol=1e-9)
        variances = np.diagonal(covariance, axis1=1, axis2=2)
        np.testing.assert_allclose(variances, prediction.var, rtol=1e-6, atol=1e-11 * prediction.var.max())
        np.testing.assert_allclose(covariance, covariance.swapaxes(1, 2), atol=1e-10 * covariance.max())
        assert np.all(np.linalg.eigvalsh(covariance) > -1e-9 * covariance.max())
        of_variances = 2.0 * np.diagonal(dcovariance, axis1=1, axis2=2).swapaxes(1, 2)
        np.testing.assert_allclose(of_variances, dvar, rtol=1e-6, atol=1e-8 * np.abs(dvar).max())

        def with_fixed(first):
            return model.joint_gradient(np.concatenate([first, points]))[1][:, :5, 5:]

        assert_gradient(dcovariance, differences(with_fixed, points))

    def test_joint_covariances_are_those_of_joint_draws(self, surrogate):
        model, points, n = fitted(surrogate), POINTS[:4], 4000
        _, covariance, _, _ = model.joint_gradient(points)
        draws = model.sample_joint(points, n, rng=np.random.default_rng(6))
        centred = draws - draws.mean(axis=1, keepdims=True)
        sampled = np.einsum("snj,snk->sjk", centred, centred) / n
        variances = np.diagonal(covariance, axis1=1, axis2=2)
        error = np.sqrt((variances[:, :, None] * variances[:, None] + covariance**2) / n)
        assert np.all(np.abs(sampled - covariance) < 6 * error + 1e-9)

    def test_joint_predictions_where_something_is_inactive(self, surrogate):
        X, y = with_inactive(12)
        model = surrogate(conditional=(2,)).fit(X, y, rng=np.random.default_rng(1))
        _, covariance, dmean, dcovariance = model.joint_gradient(X[:4])
        assert np.isfinite(covariance).all()
        assert np.isfinite(dcovariance).all()
        assert not dmean[:, [0, 3], 2].any()
        assert not dcovariance[:, [0, 3], :, 2].any()

    def test_joint_draws_have_the_predicted_moments(self, surrogate):
        model, n = fitted(surrogate), 4000
        prediction, draws = model.predict(POINTS[:6]), model.sample_joint(POINTS[:6], n, rng=np.random.default_rng(2))
        assert draws.shape == (len(prediction.mean), n, 6)
        mean = draws.mean(axis=1)
        assert np.all(np.abs(mean - prediction.mean) < 5 * np.sqrt(prediction.var / n) + 1e-6)
        np.testing.assert_allclose(draws.var(axis=1), prediction.var, rtol=0.15, atol=1e-6)

    def test_joint_draws_are_of_one_function(self, surrogate):
        points = np.concatenate([POINTS[:2], POINTS[:1], POINTS[1:2] + 1e-4])
        draws = fitted(surrogate).sample_joint(points, 50, rng=np.random.default_rng(2))
        np.testing.assert_allclose(draws[..., 2:], draws[..., :2], atol=0.05 * draws.std())

    def test_joint_draws_come_from_the_generator(self, surrogate):
        model = fitted(surrogate)
        first, second = (model.sample_joint(POINTS, 3, rng=np.random.default_rng(7)) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_conditioning_keeps_shapes_and_numbers(self, surrogate):
        model = fitted(surrogate)
        s = len(model.predict(POINTS).mean)
        mean, var = model.condition(POINTS[:4], fantasies(model, POINTS[:4], 5)).predict(POINTS)
        assert mean.shape == (s, 5, len(POINTS))
        assert var.shape in {(s, 1, len(POINTS)), (s, 5, len(POINTS))}
        assert np.isfinite(mean).all()
        assert np.isfinite(var).all()
        assert np.all(var > 0)

    def test_without_pending_points_conditioning_changes_nothing(self, surrogate):
        model = fitted(surrogate)
        plain = model.predict(POINTS)
        mean, var = model.condition(np.zeros((0, 3)), np.zeros((len(plain.mean), 2, 0))).predict(POINTS)
        np.testing.assert_allclose(mean, np.repeat(plain.mean[:, None], 2, axis=1), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(var, np.broadcast_to(plain.var[:, None], var.shape), rtol=1e-9)

    def test_conditioning_knows_no_order_of_pending_points(self, surrogate):
        model, order = fitted(surrogate), np.array([2, 0, 3, 1])
        Y = fantasies(model, POINTS[:4], 3)
        ordered = model.condition(POINTS[:4], Y).predict(POINTS)
        shuffled = model.condition(POINTS[:4][order], Y[..., order]).predict(POINTS)
        for first, second in zip(ordered, shuffled, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-9)

    def test_conditioning_follows_what_is_told(self, surrogate):
        model = fitted(surrogate)
        plain, point = model.predict(POINTS[:1]), POINTS[:1]
        sd = np.sqrt(plain.var + plain.noise[:, None])
        Y = (plain.mean + sd * np.array([-1.5, 1.5]))[:, :, None]
        mean, _ = model.condition(point, Y).predict(point)
        low, high = mean[..., 0].mean(axis=0)
        assert low < plain.mean.mean() < high

    def test_fantasies_change_nothing_on_average(self, surrogate):
        """The expectation over y of the mean given y is the mean; exact for exact conditioning."""
        if not self.exact:
            pytest.skip("conditions approximately")
        model, n = fitted(surrogate), 2000
        plain = model.predict(POINTS)
        mean, var = model.condition(POINTS[:4], fantasies(model, POINTS[:4], n)).predict(POINTS)
        explained = plain.var - var[:, 0]
        assert np.all(explained > -1e-9 * plain.var - 1e-12)
        assert np.all(np.abs(mean.mean(axis=1) - plain.mean) < 5 * np.sqrt(np.maximum(explained, 0) / n) + 1e-6)
        np.testing.assert_allclose(mean.var(axis=1), explained, rtol=0.2, atol=1e-4 * plain.var.max())

    def test_gradients_given_pending_points_are_differences(self, surrogate):
        model = fitted(surrogate)
        conditioned = model.condition(POINTS[:4], fantasies(model, POINTS[:4], 3))
        mean, var, dmean, dvar = conditioned.predict_gradient(POINTS[5:])
        plain = conditioned.predict(POINTS[5:])
        np.testing.assert_allclose(mean, plain[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(var, plain[1], rtol=1e-6)
        assert dmean.shape == (*mean.shape, 3)
        assert dvar.shape == (*var.shape, 3)
        assert_gradient(dmean, differences(lambda X: conditioned.predict(X)[0], POINTS[5:]))
        assert_gradient(dvar, differences(lambda X: conditioned.predict(X)[1], POINTS[5:]))

    @pytest.mark.parametrize("shape", [(1, 4), (1, 2, 3)])
    def test_fantasies_that_do_not_fit_are_refused(self, surrogate, shape):
        model = fitted(surrogate)
        with pytest.raises(UsageError, match=r"expected fantasies of shape \(\d+, F, 4\), got"):
            model.condition(POINTS[:4], np.zeros(shape))

    def test_a_restored_state_goes_on_as_the_saved_one_would(self, surrogate):
        rng, (X, y) = np.random.default_rng(0), rows(12)
        model = surrogate().fit(X[:10], y[:10], rng=rng)
        saved = json.loads(json.dumps(model.state(), allow_nan=False))
        restored, copy = surrogate(), np.random.default_rng()
        restored.restore(saved)
        copy.bit_generator.state = rng.bit_generator.state
        for n in (11, 12):
            original = model.fit(X[:n], y[:n], rng=rng).predict(POINTS)
            two = restored.fit(X[:n], y[:n], rng=copy).predict(POINTS)
            np.testing.assert_array_equal(original.mean, two.mean)
            np.testing.assert_array_equal(original.var, two.var)

    def test_the_state_before_a_fit_is_a_new_one(self, surrogate):
        X, y = rows(9)
        saved = json.loads(json.dumps(surrogate().state(), allow_nan=False))
        restored = surrogate()
        restored.restore(saved)
        first, second = (
            model.fit(X, y, rng=np.random.default_rng(4)).predict(POINTS) for model in (surrogate(), restored)
        )
        np.testing.assert_array_equal(first.mean, second.mean)

    def test_inactive_columns(self, surrogate):
        X, y = with_inactive(15)
        points = POINTS.copy()
        points[::2, 2] = np.nan
        model = surrogate(conditional=(2,)).fit(X, y, rng=np.random.default_rng(0))
        plain, dmean, dvar = model.predict_gradient(points)
        for values in (plain.mean, plain.var, dmean, dvar, model.sample_joint(points, 2, rng=np.random.default_rng(0))):
            assert np.isfinite(values).all()
        assert np.all(dmean[:, ::2, 2] == 0)
        assert np.all(dvar[:, ::2, 2] == 0)
        assert np.abs(dmean[:, 1::2, 2]).max() > 0
        conditioned = model.condition(points[:4], fantasies(model, points[:4], 2))
        mean, var, dmean, _ = conditioned.predict_gradient(points)
        assert np.isfinite(mean).all()
        assert np.all(var > 0)
        assert np.all(dmean[:, :, ::2, 2] == 0)

    def test_a_column_that_is_always_or_never_inactive(self, surrogate):
        X, y = rows(10)
        for column in (np.full(10, np.nan), X[:, 2]):
            X[:, 2] = column
            prediction = (
                surrogate(conditional=(2,)).fit(X, y, rng=np.random.default_rng(0)).predict(with_inactive(6)[0])
            )
            assert np.isfinite(prediction.mean).all()
            assert np.all(prediction.var > 0)

    def test_other_columns_must_be_finite(self, surrogate):
        X, y = with_inactive(10)
        with pytest.raises(DataError, match=r"expected finite points, got NaN or inf\. Name"):
            surrogate(conditional=(1,)).fit(X, y, rng=np.random.default_rng(0))
        with pytest.raises(UsageError, match=r"expected conditional columns in 0..2, got \[3\]"):
            surrogate(conditional=(3,)).fit(X, y, rng=np.random.default_rng(0))

    def test_whether_a_column_counts_is_learned(self, surrogate):
        """Targets that depend only on activity are distinguished by it."""
        rng = np.random.default_rng(0)
        X = rng.random((30, 3))
        X[::2, 2] = np.nan
        y = np.where(np.isnan(X[:, 2]), -1.0, 1.0) + 0.05 * rng.standard_normal(30)
        points = POINTS.copy()
        points[::2, 2] = np.nan
        mean = surrogate(conditional=(2,)).fit(X, y, rng=rng).predict(points).mean.mean(axis=0)
        assert mean[::2].max() < -0.3
        assert mean[1::2].min() > 0.3
