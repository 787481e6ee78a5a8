"""The nearest of choices that are numbers, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warmstart.history_store.conversion import NumericChoices


@pytest.mark.parametrize(
    ("choices", "value", "nearest"),
    [
        ([16, 32, 64], 22, 16),  # by factors: 22/16 = 1.375, 32/22 = 1.455
        ([16, 32, 64], 23, 32),
        ([64, 16, 32], 1e9, 64),
        ([64, 16, 32], -5.0, 16),
        ([10, 20, 30, 40], 26, 30),
        ([10, 20, 30, 40], 25, 20),
        ([16, 32], 22, 16),
        ([1e-4, 1e-2], 9e-4, 1e-4),  # the middle by factors is 1e-3
        ([1e-4, 1e-2], 1.1e-3, 1e-2),
        ([0, 0.1, 0.2], 0.16, 0.2),
        (["0.1", "1", "10"], 2.0, "1"),
        ([30], 64, 30),
    ],
)
def test_the_nearest(choices: list[Any], value: float, nearest: Any) -> None:
    numeric = NumericChoices.of(choices)
    assert numeric is not None
    found, moved = numeric.nearest(np.array([value, np.nan]))
    assert found == [nearest, None]
    assert moved.tolist() == [True, False]
    same, still = numeric.nearest(np.array([float(choice) for choice in choices]))
    assert (same, still.any()) == (list(choices), False)


@pytest.mark.parametrize("choices", [[1, "a"], [True, False], [1, None], ["nan", 1], [1, 1.0, "1"], []])
def test_what_is_no_list_of_numbers(choices: list[Any]) -> None:
    assert NumericChoices.of(choices) is None


def test_the_bounds_reach_half_a_step_beyond() -> None:
    made = [NumericChoices.of(choices) for choices in ([16, 64, 256], [10, 20, 30], [5])]
    assert [each and each.bounds for each in made] == [pytest.approx((8, 512)), (5, 35), (5, 5)]
