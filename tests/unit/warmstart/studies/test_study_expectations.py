"""What error a study expects: promised before its first trial, sharper after each, beside what came."""

import json
from dataclasses import replace

import numpy as np
import pytest

import warmstart
from warmstart.bo.transfer.expected_error import DatasetExpectation
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.expectations import StudyExpectations, expectation_line
from warmstart.studies.results.expected_errors import expectations_of
from warmstart.studies.results.report import _warm_lines
from warmstart.studies.results.study_record import read_study_record, records_of_report
from warmstart.studies.results.trial import Trial
from warmstart.studies.state.reading import open_to_read
from warmstart.studies.state.spec import StudySpec, WarmConfig

SPACE = '{"name": null, "hyperparameters": [{"type": "uniform_float", "name": "x", "lower": 0.0, "upper": 1.0, "default_value": 0.5, "log": false, "meta": null}], "conditions": [], "forbiddens": [], "python_module_version": "1.2.0", "format_version": 0.4}'
FORESEEN = DatasetExpectation(
    np.sqrt([0.10, 0.20, 0.09]),
    np.array([-0.05, -0.05, -0.05]),
    np.array([0.05, 0.05, 0.05]),
    np.full((3, 3), 0.01) + 0.005 * np.eye(3),
)


def plan(**more):
    warm = tuple(WarmConfig({"x": x}) for x in (0.25, 0.75))
    spec = StudySpec(
        space=SPACE, objective={"function": "f"}, dataset=None, fingerprint=None, expectation=FORESEEN.to_dict(), **more
    )
    return replace(spec, configs=warm)


def trial(number, x, error, *, status=TrialStatus.OK, feasible=True):
    return Trial(number, {"x": x}, error, status, 1.0, 0, feasible=feasible)


def test_before_the_first_trial_it_is_what_was_promised():
    found = expectations_of(plan(), ())
    assert found.best == found.promised
    assert found.promised.value == pytest.approx(0.09, abs=1e-5)
    assert found.next == 0
    assert found.upcoming[1].value == pytest.approx(0.10, abs=1e-5)
    assert found.expected_of({"x": 0.75}).value == pytest.approx(0.20, abs=1e-5)
    assert found.expected_of({"x": 0.5}) is None


def test_each_trial_sharpens_what_is_expected():
    found = expectations_of(plan(), [trial(0, 0.25, 0.16)])
    (first,) = found.trials
    assert first.expected.value == pytest.approx(0.10, abs=1e-5)
    assert first.error == 0.16
    assert found.best.value > found.promised.value, "it came out worse than foreseen"
    width = found.best.high - found.best.low
    roots = np.sqrt([found.best.high, found.best.low])
    assert np.ptp(roots) < 0.1 * 0.95, "narrower than before, on the scale on which it is wide"
    assert width > 0
    assert found.next == 1
    # by hand: one residual of a Gaussian, a fifth of whose covariance is a configuration's own
    gain = 0.01 * 0.8 / 0.015
    assert found.upcoming[1].value == pytest.approx((np.sqrt(0.2) + gain * (0.4 - np.sqrt(0.1))) ** 2, rel=1e-4)
    assert found.of(0) == first.expected


def test_a_configuration_of_the_search_bounds_the_best_and_nothing_else():
    found = expectations_of(plan(), [trial(0, 0.25, 0.10), trial(1, 0.5, 0.03)])
    assert found.trials[1].expected is None
    assert found.best.value == found.best.high == 0.03
    assert found.next == 1


def test_of_warm_configurations_that_the_history_never_measured_nothing_is_expected():
    """Usual fine-tunings follow what the history suggests."""
    known = plan()
    spec = replace(known, configs=(*known.configs, *(WarmConfig({"x": x}, measured=False) for x in (0.1, 0.2, 0.3))))
    trials = [trial(number, each.config["x"], 0.2 - number / 50) for number, each in enumerate(spec.configs)]
    for n in range(len(trials) + 1):
        found = expectations_of(spec, trials[:n])
        assert [each.expected is None for each in found.trials] == [False, False, True, True, True][:n]
        assert [config for config, _ in found.warm] == [{"x": 0.25}, {"x": 0.75}]
        assert found.next == (n if n < 2 else None)
        assert (found.upcoming is None) == (n >= 2)
    assert found.best.value <= trials[-1].error
    assert found.expected_of({"x": 0.1}) is None
    record = json.loads(json.dumps(found.to_dict()))
    assert StudyExpectations.from_dict(record).to_dict() == record


@pytest.mark.parametrize(
    "nothing", [trial(0, 0.25, None, status=TrialStatus.PRUNED), trial(0, 0.25, 0.02, feasible=False)]
)
def test_what_gave_no_error_that_counts_tells_nothing(nothing):
    found = expectations_of(plan(), [nothing])
    assert found.best == found.promised
    assert found.next == 0


def test_where_the_study_is_about_something_else_nothing_is_said():
    assert expectations_of(replace(plan(), expectation={}), ()) is None
    assert expectations_of(plan(), [trial(0, 0.25, 2.3)]) is None, "a loss, no error"
    assert expectations_of(replace(plan(), metric="loss"), ()) is None
    assert expectations_of(replace(plan(), metric="reward", maximize=True, scale="any"), ()) is None
    assert expectations_of(replace(plan(), metric="accuracy", maximize=True), ()) is not None
    assert expectations_of(replace(plan(), metric="val_error"), ()) is not None


def test_it_goes_through_json_and_through_the_study():
    found = expectations_of(plan(), [trial(0, 0.25, 0.16), trial(1, 0.5, 0.3)])
    again = StudyExpectations.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.to_dict() == found.to_dict()
    spec = StudySpec.from_json(plan().to_json(), "here")
    assert expectations_of(spec, ()).promised.to_dict() == found.promised.to_dict()
    assert "expectation" not in json.loads(replace(plan(), expectation={}).to_json())


def test_a_line_says_what_was_promised_and_what_came():
    first, network = trial(0, 0.25, 0.16), {"workload": "cnn", "target_budget": "steps"}
    found = expectations_of(replace(plan(), objective=network), [first])
    line = expectation_line(found, first, Metric())
    assert line.startswith("Expected before the first trial: a best error of 0.09 (0.0625 to 0.122); measured: 0.16.")
    assert "More trials are expected to reach" in line
    assert expectation_line(found, None, Metric()).endswith("no result yet.")
    accuracy = expectation_line(found, first, Metric("accuracy", maximize=True))
    assert "a best accuracy of 0.91 (0.877 to 0.938); measured: 0.84." in accuracy
    for other in (plan(), replace(plan(), objective=network, budget=40.0)):
        line = expectation_line(expectations_of(other, [first]), first, Metric())
        assert line.startswith("Expected before the first trial, for the history's network and budget: a best error of")


def test_a_study_on_the_shipped_history_tells_all_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    found = warmstart.tune(
        "sklearn:digits",
        objective=lambda config: 0.06,
        trials=2,
        exclude_group="sklearn_digits",
        surrogate="gp-map",
        progress=seen.append,
        report=True,
    )
    asked = warmstart.answer("sklearn:digits", exclude_group="sklearn_digits", workload="cnn")
    assert found.expected.promised.value == pytest.approx(asked.expected_error.value, abs=1e-4)
    assert found.expected.trials[0].expected.value == pytest.approx(asked.suggestions[0].expected_error.value, abs=1e-4)
    assert found.expected.next == 2, "the third warm configuration was not run"
    assert seen[0].expected.best == found.expected.promised
    assert seen[-1].expected.best == found.expected.best != found.expected.promised
    assert any(running.expected == found.expected.trials[0].expected for each in seen for running in each.running)
    document = found.to_dict()
    assert document["expected_error"] == found.expected.best.to_dict()
    assert document["expectation"]["trials"][1]["error"] == 0.06
    assert "## Promised and came" in (tmp_path / found.report).read_text()
    reported = json.loads((tmp_path / found.report).with_suffix(".json").read_text())
    assert reported["expectation"] == document["expectation"]
    cut = replace(found.trials[0], number=2, error=None, status=TrialStatus.PRUNED)  # and then run again
    again = replace(found, trials=(cut, *found.trials))
    assert "\n".join(_warm_lines(again, plan())).count("| 0.06 |") == 2
    (record,) = records_of_report(reported, "report")
    assert record.expected_line == found.expected_line
    with open_to_read(found.storage) as store:
        assert read_study_record(store, found.study).expected_line.startswith(found.expected_line[:70])
