"""How far a command is, at any time."""

import io
import math
import time

import pytest

from warmstart import bar as module
from warmstart.bar import Bar, progress_on_stderr
from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.wording import duration
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.expectations import StudyExpectations
from warmstart.studies.results.progress import RunningTrial, StudyProgress, show_progress


@pytest.fixture
def clock():
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    return Clock()


def test_time_left_counts_down_between_two_updates(clock):
    bar = Bar("tuning", clock=clock)
    bar.show(2, 10, "trial 2", left_s=90.0, since=95.0, more="best 0.1 (trial 0)")
    assert bar.line() == "tuning: 2/10, trial 2 for 5 s, best 0.1 (trial 0), 2 min left"
    clock.now += 60
    assert bar.line() == "tuning: 2/10, trial 2 for 1 min, best 0.1 (trial 0), 30 s left"
    clock.now += 30
    assert bar.left == "0 s left"
    clock.now += 1
    assert bar.left == ""  # it takes longer than was thought


def test_the_bar_moves_inside_a_unit_and_never_past_it(clock):
    bar = Bar("tuning", clock=clock)
    bar.show(2, 4, "", left_s=20.0)
    clock.now += 5
    assert bar.completed == pytest.approx(2.5)
    clock.now += 10
    assert bar.completed == pytest.approx(2.95)
    bar.show(2.99, 4, "", left_s=20.0)
    assert bar.completed == pytest.approx(2.99)


def test_what_is_left_follows_from_the_pace_where_nobody_tells(clock):
    bar = Bar("training", clock=clock)
    bar.show(0, 100, "")
    assert bar.left == ""
    clock.now += 10
    bar.show(20, 100, "loss 0.1")
    assert bar.left == "40 s left"
    bar.show(0, 50, "another model")  # begins anew
    assert bar.left == ""


def test_what_nobody_knows_is_not_estimated(clock):
    bar = Bar("tuning", clock=clock)
    bar.show(0, 2, "")
    clock.now += 10
    show_progress(bar.show, StudyProgress(1, 2, None, math.nan, (), "s"), "", Metric())
    assert bar.line() == "tuning: 1/2"


def test_each_interval_says_what_it_is_of(clock):
    bar, accuracy = Bar("tuning", clock=clock), Metric("accuracy", maximize=True)
    known = StudyExpectations(ExpectedError(0.1, 0.05, 0.2), (), (), None)
    for metric, trial, end in ((Metric(), "0.08 to 0.3", "0.05 to 0.2"), (accuracy, "0.7 to 0.92", "0.8 to 0.95")):
        running = (RunningTrial(3, clock.now - 7, None, None, None, expected=ExpectedError(0.2, 0.08, 0.3)),)
        show_progress(bar.show, StudyProgress(3, 9, None, math.nan, (), "s", running, known), "", metric)
        assert bar.line() == f"tuning: 3/9, trial 3 ({trial} expected) for 7 s, in the end {end}"


def test_parts_of_trials_under_way_are_none_that_ended(clock):
    bar = Bar("tuning", clock=clock)
    running = tuple(RunningTrial(number, clock.now, 5.0, 0.2, 0.6) for number in (3, 4, 5, 6))
    show_progress(bar.show, StudyProgress(3, 9, None, math.nan, (), "s", running), "", Metric())
    assert bar.count == "3/9"
    assert bar.completed == pytest.approx(5.4)


@pytest.mark.parametrize(("total", "count"), [(None, "3"), (12, "3/12")])
def test_a_total_may_be_unknown(clock, total, count):
    bar = Bar("tuning", clock=clock)
    bar.show(3.4, total, "")
    assert (bar.count, bar.line()) == (count, f"tuning: {count}")
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=80).print(bar.render())
    assert count in out.getvalue()


def test_markup_in_a_text_is_text(clock):
    from rich.console import Console

    bar, out = Bar("tuning", clock=clock), io.StringIO()
    bar.show(1, 2, "[bold]photos[/bold] [/]")
    Console(file=out, width=80, force_terminal=True).print(bar.render())
    assert "[bold]photos[/bold] [/]" in out.getvalue()


def test_off_a_terminal_a_line_says_the_same(monkeypatch, capsys):
    monkeypatch.setattr(module, "LINE_S", 0.05)
    with progress_on_stderr("collecting") as show:
        show(3, 9, "digits, configuration 4", left_s=600.0)
        said, end = "", time.monotonic() + 60
        while said.count("\n") < 2 and time.monotonic() < end:
            time.sleep(0.01)
            said += capsys.readouterr().err
    lines = (said + capsys.readouterr().err).splitlines()
    assert len(lines) >= 2
    assert set(lines) <= {"collecting: 0", "collecting: 3/9, digits, configuration 4, 10 min left"}
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (3000, "50 min"), (3600, "1 h"), (4800, "1 h 20 min"), (200_000, "2 d 7 h")],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text
