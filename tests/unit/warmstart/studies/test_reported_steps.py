"""The numbers that stand for steps in a storage: whole, and small enough for every database."""

import pytest

from warmstart.studies.state.reported_steps import LARGEST, numbers_of


@pytest.mark.parametrize(
    ("steps", "taken", "known", "numbers"),
    [
        ([1.0, 2.0], [], {}, [1, 2]),
        ([1.5, 2.0], [1], {}, [2, 3]),
        ([1.5, 2.0], [1, 2], {2: 1.5}, [2, 3]),
        ([float(LARGEST), 2.0**31, 2.0**40], [0], {}, [LARGEST, 1, 2]),
        ([2.0**31, 2.0**40], [7], {}, [8, 9]),
    ],
)
def test_a_step_has_its_own_number_where_that_is_free_and_small(steps, taken, known, numbers):
    assert list(numbers_of(steps, taken=taken, fractional=known).values()) == numbers
