"""What error an answer expects: on the shipped history, and none where too little is known."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import warmstart
from warmstart.metafeat.feature_names import FEATURES
from warmstart.suggestions.expectations import views


def test_the_shipped_history_tells_the_error_of_digits():
    found = warmstart.answer("sklearn:digits", exclude_group="sklearn_digits", workload="cnn")
    expected = found.expected_error
    assert 0 <= expected.low <= expected.value <= expected.high < 0.2, "digits are easy"
    assert expected.level == 0.8
    for design in found.suggestions:
        assert 0 <= design.expected_error.low <= design.expected_error.value <= design.expected_error.high <= 1
    document = found.to_dict()
    assert document["expected_error"] == expected.to_dict()
    assert set(document["suggestions"][0]["expected_error"]) == {"value", "low", "high", "level"}


def test_an_interval_is_wider_where_few_images_validate(tmp_path):
    """The same 400 training images, judged on 40 or on 400 others."""
    digits = load_digits()
    images = np.repeat(digits.images.astype(np.uint8)[..., None] * 15, 3, axis=-1)
    found = {}
    for n_val in (40, 400):
        path = tmp_path / f"{n_val}.npz"
        held = slice(400, 400 + n_val)
        np.savez(path, x_train=images[:400], y_train=digits.target[:400], x_val=images[held], y_val=digits.target[held])
        found[n_val] = warmstart.answer(path, exclude_group="sklearn_digits", workload="cnn", k=1).expected_error
    assert found[40].value == pytest.approx(found[400].value, abs=0.02), "nearly the same features"
    assert found[40].high - found[40].low > 1.3 * (found[400].high - found[400].low)


def test_values_that_were_moved_are_not_those_that_were_forecast():
    space = {"learning_rate": {"log": [1e-4, 1e-1]}, "batch_size": {"int": [8, 512]}}
    found = warmstart.answer("sklearn:digits", exclude_group="sklearn_digits", space=space)
    assert all(design.expected_error is None for design in found.suggestions if not design.measured)
    assert found.expected_error is not None


def test_the_views_are_errors_first():
    features = np.zeros((1, len(FEATURES)))
    for name, value in {"largest_class": 0.3, "nn_gain": 0.2, "best_landmark": 0.6, "log_n": 5.0}.items():
        features[0, FEATURES.index(name)] = value
    wide, narrow = views(features)
    assert wide[0, :7] == pytest.approx([0.5, 0.7, 0.7, 0.7, 0.7, 0.4, 0.7])
    assert narrow[0] == pytest.approx([*wide[0, :7], 5.0, 0, 0, 0])
