"""Metrics of one's own: where they are found, the errors that they stand for, what contradicts them."""

import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.history_store.errors import UsageError
from warmstart.studies.objectives.command import CommandObjective
from warmstart.studies.objectives.function import FunctionObjective
from warmstart.studies.objectives.measured import with_metric
from warmstart.studies.objectives.metric import PLAIN, ContradictionError, Metric
from warmstart.studies.objectives.result import read_result
from warmstart.studies.objectives.workload import WorkloadObjective


@pytest.mark.parametrize(
    ("metric", "value", "error"),
    [
        (Metric("accuracy", maximize=True), 0.9, 0.1),
        (Metric("r2", maximize=True), -0.5, 1.5),
        (Metric("accuracy", maximize=True, scale="percent"), 91.5, 0.085),
        (Metric("loss"), 91.5, 91.5),
        (Metric("error", scale="percent"), 8.5, 0.085),
        (Metric("reward", maximize=True, scale="any"), 200.0, -200.0),
        (PLAIN, 0.3, 0.3),
    ],
)
def test_the_error_of_a_value_and_back(metric, value, error):
    assert metric.to_error(value) == pytest.approx(error, abs=1e-12)
    assert metric.to_value(metric.to_error(value)) == value


@given(st.floats(0, 1), st.floats(0, 1), st.booleans(), st.sampled_from(["fraction", "percent", "any", None]))
def test_a_better_value_never_has_a_larger_error(one, other, maximize, scale):
    metric = Metric(None, maximize, scale)
    better, worse = (max(one, other), min(one, other)) if maximize else (min(one, other), max(one, other))
    assert metric.to_error(better) <= metric.to_error(worse)


@pytest.mark.parametrize("scale", ["fraction", "percent", "any", None])
def test_no_number_is_the_best_where_it_is_the_worst(scale):
    assert Metric(None, True, scale).to_error(-math.inf) == math.inf
    assert Metric(None, False, scale).to_error(math.inf) == math.inf
    assert math.isnan(Metric(None, True, scale).to_error(math.nan))


@pytest.mark.parametrize(
    ("metric", "value", "message"),
    [
        (Metric("accuracy", maximize=True), 91.5, r"expected accuracy of at most 1 with `maximize`, got 91.5. .* `scale` percent"),
        (Metric("error", scale="fraction"), 91.5, r"expected error in \[0, 1\], got 91.5"),
        (Metric("accuracy", maximize=True, scale="percent"), 101.0, r"expected accuracy in \[0, 100\], got 101. .*any"),
        (Metric("reward", maximize=True), 200.0, r"got 200. .* `scale` any"),
    ],
)  # fmt: skip
def test_a_value_that_contradicts_the_metric(metric, value, message):
    with pytest.raises(ContradictionError, match=message):
        metric.to_error(value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("accuracy",), r"^metric: expected a metric of which less is better, got 'accuracy'. Add `maximize`"),
        (("val/top1",), r"^metric: .*less is better"),
        (("val_loss", True), r"^metric: .*more is better, got 'val_loss'"),
        (("regex:(",), r"^metric: expected a regular expression after regex:, got '\('"),
        (("file:x.json",), r"^metric: expected file:PATH:KEY"),
        (("",), r"^metric: expected a key, last"),
        ((3,), r"^metric: expected a key, last"),
        (("x", "yes"), r"^maximize: expected true or false, got 'yes'"),
        (("x", True, "percents"), r"^scale: expected one of fraction, percent, any, got 'percents'"),
    ],
)
def test_a_metric_that_says_what_cannot_be(fields, message):
    with pytest.raises(UsageError, match=message):
        Metric(*fields)


PRINTS = {
    "log": 'print("epoch 1 acc=0.25"); print("acc=0.75 after 12.5 s")',
    "json": 'print(\'{"step": 1, "val": {"acc": 0.5}}\'); print(\'{"val": {"acc": 0.75}, "n": 3}\'); print("saved")',
    "file": 'import pathlib; pathlib.Path("m7.json").write_text(\'{"val": {"acc": 0.75}}\')',
    "nothing": 'print("done")',
    "nan": 'print(float("nan"))',
    "no number": 'print("epoch 1 loss 0.52"); print("epoch 2 loss -Inf, info: infinite")',
    "texts": 'print(\'{"step": 1, "acc": "n/a"}\'); print(\'{"step": "2", "acc": "0.5"}\'); print(\'{"acc": 0.75}\')',
    "silent": "",
}


@pytest.mark.parametrize(
    ("prints", "spec", "expected"),
    [
        ("log", "regex:acc=([0-9.]+)", 0.25),
        ("log", "regex:acc=[0-9.]+", "expected score that is one finite number, got 'acc=0.75'"),
        (
            "log",
            "regex:f1=(.*)",
            "expected 'regex:f1=(.*)' in what it prints, got none; the last line is 'acc=0.75 after 12.5 s'",
        ),
        (
            "log",
            "acc",
            "got none; the last line is 'acc=0.75 after 12.5 s'; `score` acc takes that number",
        ),
        ("nan", "last", "expected score that is one finite number, got nan"),
        ("no number", "last", "expected score that is one finite number, got -inf"),
        ("texts", "acc", 0.25),
        ("silent", "accuracy", "expected 'accuracy' in what it prints, got no line"),
        ("json", "val.accuracy", "got none; the last line is 'saved'"),
        ("log", "last", "expected score of at most 1"),
        ("json", "val.acc", 0.25),
        ("json", "val.f1", "expected 'val.f1' in what it prints"),
        ("file", "file:m{seed}.json:val.acc", 0.25),
        ("file", "file:m{seed}.json:f1", "expected 'f1' in m7.json"),
        ("nothing", "file:m{seed}.json:f1", "expected m7.json to be written by the trial"),
        ("nothing", "accuracy", "got none"),
    ],
)
def test_where_a_command_says_its_metric(prints, spec, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(PRINTS[prints])
    reports = []
    command = CommandObjective(f"{sys.executable} script.py {{x}} {{seed}}", ["x"])
    objective = with_metric(command, Metric(spec, maximize=True))
    outcome = read_result(objective({"x": 1}, seed=7, budget=None, report=lambda *point: reports.append(point)), 0.0)
    if isinstance(expected, float):
        assert (outcome.error, outcome.note) == (expected, "")
        lines = [(1.0, 0.75), (2.0, 0.25)] if prints == "log" else []
        assert reports == {"json": [(1.0, 0.5)], "texts": [(2.0, 0.5)]}.get(prints, lines)
    else:
        assert outcome.error is None
        assert expected in outcome.note


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (None, "score"),
        ("last", "score"),
        ("regex:acc=([0-9.]+)", "score"),
        ("file:m.json:val.acc", "val.acc"),
        ("acc", "acc"),
    ],
)
def test_reports_are_read_wherever_the_metric_is_found(spec, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(
        f'print(\'{{"step": 1, "{name}": 0.25}}\'); print(\'{{"step": 2, "{name}": 0.5}}\')\n'
        "open('m.json', 'w').write('{\"val\": {\"acc\": 0.75}}'); print('acc=0.75'); print('{\"acc\": 0.75}')\n"
        + ("print(0.75)\n" if spec is None else "")
    )
    objective, heard = with_metric(CommandObjective(f"{sys.executable} m.py {{x}}", ["x"]), Metric(spec, True)), []
    found = objective({"x": 1}, seed=7, budget=None, report=lambda *point: heard.append(point))
    assert heard == [(1.0, 0.75), (2.0, 0.5)]
    assert read_result(found, 0.0).error == 0.25


def test_a_report_whose_metric_is_no_number_is_named_in_the_log(tmp_path, capsys):
    (tmp_path / "script.py").write_text(PRINTS["texts"])
    objective = with_metric(
        CommandObjective(f"{sys.executable} {tmp_path}/script.py {{x}}", ["x"]), Metric("acc", True)
    )
    objective({"x": 1}, seed=7, budget=None, report=lambda *_: None)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == 'warmstart: no report: expected a step and a metric that are numbers, got {"step": 1, "acc": "n/a"}'


def test_a_file_of_an_earlier_trial_does_not_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps({"accuracy": 0.9}))
    objective = with_metric(CommandObjective("true {x}", ["x"]), Metric("file:metrics.json:accuracy", maximize=True))
    outcome = read_result(objective({"x": 1}, seed=0, budget=None, report=None), 0.0)
    assert outcome.note == "expected metrics.json to be written by the trial, got none of it"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.75, 0.25),
        ({"accuracy": 0.75, "n": 2}, 0.25),
        ({"accuracy": 0.75, "error": 0.9}, 0.25),
        ({"accuracy": float("nan")}, "finite number"),
        ({"error": 0.25}, "expected 'accuracy' in the result, got {'error': 0.25}"),
        ({"accuracy": "high"}, "got 'high'"),
        (None, "got None"),
        (75.0, "at most 1"),
        ({"status": "crashed"}, ""),
    ],
)
def test_what_a_function_returns(given, expected):
    objective = with_metric(FunctionObjective(lambda config: given), Metric("accuracy", maximize=True))
    outcome = read_result(objective({}, seed=0, budget=None, report=None), 0.0)
    if isinstance(expected, float):
        assert outcome.error == expected
    else:
        assert outcome.error is None
        assert expected in outcome.note


def test_reports_are_metrics_too():
    heard = []
    objective = with_metric(
        FunctionObjective(lambda config, report: report(1, 0.5) or report(2, 80)), Metric(None, maximize=True)
    )
    found = objective({}, seed=0, budget=None, report=lambda *point: heard.append(point))
    assert heard == [(1, 0.5)]
    assert "got 80" in read_result(found, 0.0).note


def test_a_report_that_is_no_number_is_told_by_who_takes_it():
    heard = []
    objective = with_metric(
        FunctionObjective(lambda config, report: report(1, -math.inf) or report(2, "n/a") or 0.5),
        Metric(None, maximize=True),
    )
    objective({}, seed=0, budget=None, report=lambda *point: heard.append(point))
    assert heard == [(1, math.inf), (2, "n/a")]


def test_objectives_without_such_a_metric():
    with pytest.raises(
        UsageError, match=r"^maximize: expected an objective or a command of your own, got the built-in"
    ):
        with_metric(WorkloadObjective("photos", device="cpu"), Metric(None, maximize=True))
    with pytest.raises(
        UsageError, match=r"^metric: expected the key of a number in what the function returns, got 'last'"
    ):
        with_metric(FunctionObjective(lambda config: 1), Metric("last"))


@pytest.mark.parametrize(
    ("metric", "tells"),
    [
        (Metric("last"), True),
        (Metric("regex:acc=([0-9.]+)"), True),
        (Metric(r"regex:(\d+)"), True),
        (Metric("regex:val_loss=([0-9.]+)"), False),
        (Metric("last", maximize=True), False),
        (Metric("regex:acc=([0-9.]+)", maximize=True), False),
        (Metric("error"), False),
        (Metric("file:m.json:error"), False),
        (Metric(), False),
    ],
)
def test_where_no_name_tells_the_direction_a_line_does(metric, tells):
    expected = f"The least number that {metric.spec} finds is the best: add `maximize` where larger is better."
    assert metric.direction_note == (expected if tells else "")
