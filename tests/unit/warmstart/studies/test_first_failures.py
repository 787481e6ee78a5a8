"""First failures of a call: which of them say that the objective is at fault."""

import pytest

from warmstart.studies.execution.worker import fail_alike
from warmstart.studies.objectives.base import TrialStatus

FAILED, CRASHED = TrialStatus.FAILED, TrialStatus.CRASHED


@pytest.mark.parametrize(
    ("ends", "alike"),
    [
        ([(FAILED, "got 'error: 0.27'"), (FAILED, "got 'error: 1.5e-05'")], True),
        (
            [(CRASHED, "ended with code 2: " + "x" * 100 + "a"), (CRASHED, "ended with code 2: " + "x" * 100 + "b")],
            True,
        ),
        ([(CRASHED, "KeyError: 'True'"), (CRASHED, "KeyError: 'False'")], True),
        ([(CRASHED, "KeyError: 'lr'"), (CRASHED, "ValueError: 'lr'")], False),
        ([(CRASHED, "no"), (FAILED, "no")], False),
        ([(TrialStatus.TIMEOUT, "no result in 5 s"), (TrialStatus.TIMEOUT, "no result in 5 s")], False),
        ([], False),
    ],
)
def test_alike_are_the_same_words_whatever_the_values(ends, alike):
    assert fail_alike(ends) is alike
