"""Configurations as numbers: counts that other programs write otherwise, and values that a space lacks."""

import numpy as np
import pytest

from warmstart.history_store.axes import coordinates
from warmstart.spaces import read_space

SPACE = read_space({"dropout": {"float": [0, 0.9], "step": 0.1}, "optimizer": {"choice": ["sgd", "adam"]}, "lr": {"log": [1e-4, 1.0]}})  # fmt: skip


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"dropout": 0.3}, 3 / 9),
        ({"dropout": 3 * 0.1 + 0.0}, 3 / 9),
        ({"dropout": 0.34}, 3 / 9),
        ({"dropout": 5.0}, 1.0),
        ({}, 0.5),
    ],
)
def test_numbers_take_the_nearest_count(config, expected):
    assert coordinates(SPACE, ["dropout"], [config]) == pytest.approx(np.array([[expected]]))


def test_a_choice_that_a_space_lacks_is_as_if_not_told():
    given = [{"optimizer": "adam", "lr": 1e-2}, {"optimizer": "lion", "lr": 1.0}]
    np.testing.assert_allclose(coordinates(SPACE, ["optimizer", "lr"], given), [[1.0, 0.5], [0.5, 1.0]])
