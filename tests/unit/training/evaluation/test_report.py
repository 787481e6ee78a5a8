"""What a report says of an outcome, against its plain definition."""

import json
from dataclasses import replace

import numpy as np
import pytest

from warmstart.bo.transfer.regret import clustered_interval
from warmstart.history_store.errors import UsageError
from warmstart.training.evaluation.methods import Method
from warmstart.training.evaluation.replay import DatasetResult, Outcome
from warmstart.training.evaluation.report import full_rows, make_figures, make_report, summary_rows
from warmstart.training.evaluation.table import ErrorTable

H = 4
GROUPS = ("a", "a", "b", "c")
CURVES = {
    "mine": np.array([[[0.4, 0.2, 0.0, 0.0]], [[0.2, 0.2, 0.2, 0.2]], [[0.9, 0.5, 0.5, 0.0]], [[0.1, 0.1, 0.1, 0.1]]]),
    "portfolio": np.array(
        [[[0.5, 0.5, 0.5, 0.5]], [[0.2, 0.1, 0.1, 0.0]], [[0.9, 0.9, 0.9, 0.9]], [[0.6, 0.6, 0.6, 0.6]]]
    ),
}


@pytest.fixture
def outcome():
    table = ErrorTable("t", np.random.default_rng(0).random((4, 6)), ("p", "q", "r", "s"), GROUPS)
    played = tuple(
        DatasetResult(
            row, {name: curves[row] for name, curves in CURVES.items()}, {"mine": float(row), "portfolio": 5.0}
        )
        for row in range(4)
    )
    methods = {name: Method(f"about {name}", "strategy", None) for name in CURVES}
    distances = {"far": np.where(np.equal.outer(GROUPS, GROUPS), np.nan, table.true_distances(normalised=False))}
    return Outcome(table, "leave-source-out", H, 1, 0, methods, played, distances)


@pytest.fixture
def report(outcome):
    return make_report(outcome, reference="mine")


def test_it_is_json_and_names_everything(report):
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    head = {key: report[key] for key in ("protocol", "n_datasets", "n_groups", "n_configs", "times", "horizon", "ours")}
    assert head == {
        "protocol": "leave-source-out",
        "n_datasets": 4,
        "n_groups": 3,
        "n_configs": 6,
        "times": [1, 3],
        "horizon": 4,
        "ours": "mine",
    }


def test_means_are_over_datasets_with_intervals_over_groups(report):
    mine = report["rivals"]["mine"]
    expected = clustered_interval(CURVES["mine"][:, 0, 2], groups=GROUPS)
    assert mine["regret"]["3"] == {"mean": expected.mean, "low": expected.low, "high": expected.high}
    assert mine["regret"]["3"]["mean"] == pytest.approx(0.2)
    np.testing.assert_allclose(mine["curve"]["mean"], CURVES["mine"][:, 0].mean(0))
    np.testing.assert_allclose(mine["per_dataset"], CURVES["mine"][:, 0])
    assert (mine["evaluations_to_0.05"]["mean"], mine["evaluations_to_0.05"]["median"]) == (1.5, 1.5)


def test_differences_are_paired_and_flagged(report):
    found = {(one["second"], one["measure"]): one for one in report["differences"]}
    assert set(found) == {("portfolio", measure) for measure in ("regret@1", "regret@3", "evaluations_to_0.05")}
    expected = clustered_interval(CURVES["mine"][:, 0, 2] - CURVES["portfolio"][:, 0, 2], groups=GROUPS)
    one = found["portfolio", "regret@3"]
    assert (one["first"], one["mean"]) == ("mine", expected.mean)
    assert one["two_standard_errors"] == (abs(expected.mean) > 2 * expected.standard_error)
    assert found["portfolio", "evaluations_to_0.05"]["two_standard_errors"]


def test_promises_are_of_the_datasets_that_have_one(outcome):
    promised = {"mine": np.full(H, 0.25)}
    played = tuple(replace(one, promised=promised if row else {}) for row, one in enumerate(outcome.results))
    found = make_report(replace(outcome, results=played), reference="mine")["promises"]
    assert list(found) == ["mine"]
    assert found["mine"]["3"]["promised"] == 0.25
    assert found["mine"]["3"]["seen"] == pytest.approx(np.mean([one.curves["mine"][:, 2].mean() for one in played[1:]]))


def test_it_lists_where_ours_hurts(report):
    assert report["hurt"] == [
        {"dataset": "q", "ours": 0.2, "best_rival": "portfolio", "regret": 0.1, "time": 3},
    ]


def test_rows_for_people_and_for_csv(report):
    rows = {row["method"]: row for row in summary_rows(report)}
    assert rows["portfolio"]["regret@3"] == pytest.approx(0.525)
    assert rows["portfolio"]["difference@3"].startswith("-0.325")
    assert "difference@3" not in rows["mine"]
    full = {row["rival"]: row for row in full_rows(report)}
    assert full["portfolio"]["regret@3 ours less mean"] == pytest.approx(-0.325)
    assert full["mine"]["table"] == "t"


def test_a_method_that_was_not_played_is_told(outcome):
    with pytest.raises(
        UsageError, match=r"reference: expected a method of the evaluation \(mine, portfolio\), got 'yours'"
    ):
        make_report(outcome, reference="yours")


def test_figures_are_best_errors_by_acquisition_start_and_dataset(outcome):
    from dataclasses import replace

    methods = {"ei/latin": Method("x", "search", None)}
    curves = np.array([[1.0, 0.5], [1.0, 0.0]])
    played = tuple(DatasetResult(row, {"ei/latin": curves}, {"ei/latin": 1.0}) for row in range(4))
    found = make_figures(replace(outcome, methods=methods, results=played))
    one, errors = found["paper"]["ei"]["latin"]["q"], outcome.table.errors[1]
    np.testing.assert_allclose(one["mean"], [errors.max(), errors.min() + 0.25 * np.ptp(errors)])
    assert one["low"][1] < one["mean"][1] < one["high"][1]
    assert one["low"][0] == one["high"][0] == one["mean"][0]
