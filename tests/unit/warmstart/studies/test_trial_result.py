import math

import numpy as np
import pytest
import torch
import weather

from warmstart.studies.objectives.result import NOTE_CHARS, one_line, read_result


@pytest.mark.parametrize("value", [0.25, np.float32(0.25), np.array([0.25]), torch.tensor(0.25), {"error": 0.25}])
def test_a_number_is_the_error(value):
    outcome = read_result(value, 2.0)
    assert (outcome.error, outcome.status, outcome.duration, outcome.note) == (0.25, "ok", 2.0, "")


def test_a_mapping_says_more():
    outcome = read_result(
        {
            "error": 1,
            "duration": 7,
            "constraints": {"fits": True, "fast": False, "memory": -0.5, "small": np.bool_(True)},
            "accuracy": np.float64(0.75),
            "nothing": math.nan,
            "name": "run 3",
            "history": [1, 2],
        },
        2.0,
    )
    assert (outcome.error, outcome.status, outcome.duration) == (1.0, "ok", 7.0)
    assert outcome.constraints == {"fits": 0.0, "fast": 1.0, "memory": -0.5, "small": 0.0}
    assert outcome.metrics["accuracy"] == 0.75
    assert sorted(outcome.metrics) == ["accuracy", "nothing"]


@pytest.mark.parametrize(
    ("what", "note"),
    [
        ("nothing", "expected an error that is one finite number, got nothing (None)"),
        ("text", "expected an error that is one finite number, got '0.5'"),
        ("two in an array", "expected an error that is one finite number, got array([0.1, 0.2])"),
        ("nan", "expected an error that is one finite number, got nan"),
        ("truth", "expected an error that is one finite number, got True"),
        ("no error", "expected a mapping with an error, got {'loss': 0.1}; `metric` 'loss' takes that key"),
        ("negative duration", "expected a duration of 0 or more seconds, got -1"),
        ("constraint of text", "expected a constraint 'fits' that is one finite number, got 'yes'"),
        ("constraints of another kind", "expected constraints as a mapping, got [0.1]"),
        ("its own class", "expected an error that is one finite number, got a Unprintable"),
    ],
)
def test_what_is_no_error_failed(what, note):
    outcome = read_result(weather.give({"what": what}, seed=0, budget=None, report=None), 2.0)
    assert (outcome.error, outcome.status, outcome.duration, outcome.note) == (None, "failed", 2.0, note)


class Odd(dict):
    """What raises when it is read."""

    def items(self):
        raise KeyError("gone")


@pytest.mark.parametrize(
    ("value", "note"),
    [
        ({"error": 0.1, "constraints": {"a": np.array([1.0, 2.0])}}, "expected a constraint 'a' that is one finite number, got array([1., 2.])"),
        ({"error": torch.ones(2)}, "expected an error that is one finite number, got tensor([1., 1.])"),
        (Odd(error=0.1), "expected a result that can be read, got KeyError: 'gone'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_failed_and_raises_nothing(value, note):
    outcome = read_result(value, 2.0)
    assert (outcome.error, outcome.status, outcome.duration, outcome.note) == (None, "failed", 2.0, note)


def test_a_number_too_large_and_a_status_that_is_none():
    huge = read_result(weather.give({"what": "huge"}, seed=0, budget=None, report=None), 0.0)
    assert huge.status == "failed"
    assert len(huge.note) <= NOTE_CHARS
    status = read_result({"error": 0.1, "status": "great"}, 0.0)
    assert status.note.startswith("expected a status of ok, diverged, failed")
    assert status.note.endswith("got 'great'")


def test_a_mapping_may_say_how_the_trial_ended():
    diverged = read_result({"error": 0.9, "status": "diverged"}, 0.0)
    assert (diverged.error, diverged.status) == (0.9, "diverged")
    crashed = read_result({"status": "crashed", "note": "no\nluck"}, 0.0)
    assert (crashed.error, crashed.status, crashed.note) == (None, "crashed", "no luck")


def test_a_note_is_one_line_that_a_terminal_shows():
    assert one_line("a\n\tb\x1b[31m c\u2028d") == "a b [31m c d"
    assert one_line("x" * 1000) == "x" * (NOTE_CHARS - 1) + "…"
