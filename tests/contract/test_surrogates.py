"""What every surrogate keeps, whatever it is given."""

import numpy as np
import pytest

from bo.surrogates import SURROGATES
from history_store.errors import DataError, UsageError

POINTS = np.random.default_rng(9).random((20, 3))


@pytest.fixture(params=sorted(SURROGATES))
def surrogate(request):
    return SURROGATES[request.param]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    return X, X[:, 0] + 0.3 * rng.standard_normal(n)


def awkward():
    X, y = rows(10)
    yield pytest.param(X, np.full(10, 0.3), id="constant targets")
    yield pytest.param(X, np.zeros(10), id="zero targets")
    for n in (1, 2, 3):
        yield pytest.param(X[:n], y[:n], id=f"{n} points")
    yield pytest.param(np.repeat(X[:2], 5, axis=0), y, id="duplicates that disagree")
    yield pytest.param(np.repeat(X[:2], 5, axis=0), np.repeat(y[:2], 5), id="duplicates that agree")
    yield pytest.param(np.column_stack([X[:, :2], np.full(10, 0.5)]), y, id="constant column")
    for scale in (1e-8, 1e8, 1e-100, 1e100):
        yield pytest.param(X, y * scale, id=f"targets of {scale}")
    yield pytest.param(X, y + 1e8, id="targets far from 0")
    yield pytest.param(X, np.array([1e6, *y[1:]]), id="an outlier")
    yield pytest.param(X.astype(np.float32), y.astype(np.float32), id="float32")
    yield pytest.param(X.tolist(), y.tolist(), id="lists")


@pytest.mark.parametrize(("X", "y"), list(awkward()))
def test_predictions_are_finite(surrogate, X, y):
    prediction = surrogate().fit(X, y, rng=np.random.default_rng(0)).predict(POINTS)
    s = len(prediction.mean)
    assert prediction.mean.shape == prediction.var.shape == (s, len(POINTS))
    assert prediction.noise.shape == (s,)
    for values in (prediction.mean, prediction.var, prediction.noise):
        assert values.dtype == np.float64
        assert np.isfinite(values).all()
    assert np.all(prediction.var > 0)
    assert np.all(prediction.noise > 0)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_variance_is_positive_also_where_it_was_seen(surrogate, scale):
    X, y = rows(10)
    assert np.all(surrogate().fit(X, y * scale, rng=np.random.default_rng(0)).predict(X).var > 0)


def test_one_dimension(surrogate):
    X = np.linspace(0, 1, 8)[:, None]
    prediction = (
        surrogate().fit(X, np.cos(3 * X[:, 0]), rng=np.random.default_rng(0)).predict(np.array([[0.05], [0.95]]))
    )
    mean = prediction.mean.mean(axis=0)
    assert mean[0] > 0.8
    assert mean[1] < -0.8


def test_a_second_fit_forgets_the_first_data(surrogate):
    rng, (X, y) = np.random.default_rng(0), rows(12)
    model = surrogate().fit(X, y, rng=rng).fit(X, -y, rng=rng)
    mean = model.predict(X).mean.mean(axis=0)
    assert np.corrcoef(mean, -y)[0, 1] > 0.5


def test_the_generator_is_the_only_randomness(surrogate):
    X, y = rows(9)
    first, second = (surrogate().fit(X, y, rng=np.random.default_rng(4)).predict(POINTS) for _ in range(2))
    np.testing.assert_array_equal(first.mean, second.mean)
    np.testing.assert_array_equal(first.var, second.var)


def test_the_arrays_of_the_caller_stay_as_they_are(surrogate):
    X, y = rows(9)
    kept = X.copy(), y.copy()
    surrogate().fit(X, y, rng=np.random.default_rng(4)).predict(X)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_targets_that_are_no_numbers_are_refused(surrogate, value):
    X, y = rows(4)
    y[2] = value
    with pytest.raises(DataError, match=rf"expected finite targets, got y\[2\]={value}. Leave failed evaluations out"):
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
def test_points_that_do_not_fit_are_refused(surrogate, X, y, error, message):
    with pytest.raises(error, match=message):
        surrogate().fit(X, y, rng=np.random.default_rng(0))
