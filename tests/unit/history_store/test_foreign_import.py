"""Runs of another tool as evaluations: what they are worth, what is left out, what a second import adds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.external_import import carry_out, plan_import
from warmstart.history_store.external_runs import ForeignRuns, as_columns
from warmstart.history_store.history import History
from warmstart.history_store.mapping import Wishes
from warmstart.history_store.records import DatasetInfo, Status
from warmstart.history_store.space import dump_space
from warmstart.training.workloads.cnn.space import target_space


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History.create(tmp_path / "h.h5", dump_space(target_space())) as made:
        made.add_dataset(DatasetInfo("photos", "home", n_train=0, n_val=0, n_test=0, n_classes=0))
        yield made


def runs(values: Sequence[float], **changes: Any) -> ForeignRuns:
    n = len(values)
    foreign = ForeignRuns(
        kind="runs of a test",
        params=as_columns([{"batch_size": 8 + row % 8, "lr": 10.0 ** -(1 + row % 4)} for row in range(n)]),
        values=np.array(values, dtype=np.float64),
        status=[Status.CRASHED if math.isnan(value) else Status.OK for value in values],
        datasets=[None] * n,
        durations=np.arange(n, dtype=np.float64),
        seeds=[None] * n,
        origins=["import/test"] * n,
        curves=[()] * n,
    )
    return replace(foreign, **changes)


def test_runs_become_evaluations(history: History) -> None:
    foreign = runs(
        [0.25, math.nan, 1.0], seeds=[7, None, 7], curves=[((2, 0.5), (1, 0.75), (2, 0.3), (-1, 0.1), (4, 1.5)), (), ()]
    )
    plan = plan_import(history, foreign, dataset="photos")
    carry_out(history, plan)
    first, second, third = history.evaluations("photos")
    assert first.config == {
        "batch_size": 8,
        "log10_learning_rate": -1.0,
        "dropout_rate": 0.45,
        "log10_decay_rate": -6.0,
        "num_layers_conv": 5,
        "num_layers_fc": 2,
    }
    assert (first.error, first.seed, first.duration, first.origin) == (0.25, 7, 0.0, "import/test")
    assert first.curve == ((1, 0.75), (2, 0.3))  # sorted, one an update, no point that is no error
    assert (second.status, second.seed) == (Status.CRASHED, None)
    assert math.isnan(second.error)
    assert third.error == 1.0
    assert plan.to_dict()["imported"] == plan.to_dict()["n_evaluations"] == history.n_evaluations == 3
    assert plan.datasets == ()


@pytest.mark.parametrize(
    ("values", "maximised", "error_range", "errors", "said"),
    [
        ([0.25, 0.75], False, None, [0.25, 0.75], "0 is error 0, 1 is error 1"),
        ([0.25, 0.75], True, None, [0.75, 0.25], "1 is error 0, 0 is error 1"),
        ([25.0, 75.0], True, (100.0, 0.0), [0.75, 0.25], "100 is error 0, 0 is error 1"),
        ([0.5, 9.0, -1.0], False, (0.0, 2.0), [0.25, 1.0, 0.0], "0 is error 0, 2 is error 1; 2 beyond are clipped"),
        ([0.25], None, (1.0, 0.0), [0.75], "1 is error 0, 0 is error 1"),
        ([1.0 + 1e-12], False, None, [1.0], "0 is error 0, 1 is error 1"),
    ],
)
def test_values_become_errors(
    history: History,
    values: list[float],
    maximised: bool | None,
    error_range: tuple[float, float] | None,
    errors: list[float],
    said: str,
) -> None:
    plan = plan_import(history, runs(values, maximised=maximised), dataset="photos", error_range=error_range)
    assert [e.error for e in plan.evaluations] == errors
    assert plan.objective == said


@pytest.mark.parametrize(
    ("changes", "options", "kind", "message"),
    [
        ({}, {}, UsageError, "dataset: runs of a test does not name its dataset"),
        ({"datasets": ["a", "b"]}, {"dataset": "photos"}, UsageError, r"cannot be used with .*, which names its datasets \(a, b\)"),
        ({"maximised": None}, {"dataset": "photos"}, UsageError, "error_range: .* does not say which values are best"),
        ({}, {"dataset": "photos", "error_range": (1.0, 1.0)}, UsageError, "expected two different numbers BEST,WORST"),
        ({}, {"dataset": "photos", "error_range": (math.nan, 1.0)}, UsageError, "expected two different numbers"),
        (
            {"maximised": True},
            {"dataset": "photos", "error_range": (0.0, 100.0)},
            UsageError,
            "error_range: expected the best value first, and more is better in .*, got 0,100. Give 100,0",
        ),
        ({"values": np.array([0.5, 3.5])}, {"dataset": "photos"}, DataError, r"expected errors in \[0, 1\], got values from 0\.5 to 3\.5\. Say"),
        ({"maximised": True, "values": np.array([0.5, -0.1])}, {"dataset": "photos"}, DataError, "expected accuracies"),
        ({"params": {"x": [1, 2]}}, {"dataset": "photos"}, DataError, "runs of a test: expected hyperparameters in common"),
        ({}, {"dataset": "photos", "wishes": Wishes(fill={"no": 1})}, UsageError, "^fill"),
        ({}, {"dataset": " "}, DataError, "expected a dataset name"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported(
    history: History, changes: dict[str, Any], options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        carry_out(history, plan_import(history, replace(runs([0.5, 0.25]), **changes), **options))
    assert history.n_evaluations == 0


def test_a_second_import_adds_what_is_new(history: History) -> None:
    first = runs([0.5, 0.25, 0.25, math.nan])
    carry_out(history, plan_import(history, first, dataset="photos"))
    again = plan_import(history, first, dataset="photos")
    assert (len(again.evaluations), again.already_there) == (0, 4)
    carry_out(history, again)
    grown = plan_import(history, runs([0.5, 0.25, 0.25, math.nan, 0.125, 0.5]), dataset="photos")
    assert ([e.error for e in grown.evaluations], grown.already_there) == ([0.125, 0.5], 4)
    elsewhere = plan_import(history, replace(first, origins=["import/other"] * 4), dataset="photos")
    assert len(elsewhere.evaluations) == 4


def test_no_runs_at_all(history: History) -> None:
    with pytest.raises(DataError, match=r"runs of a test: expected runs that have ended, got none\. Wait"):
        plan_import(history, runs([]), dataset="photos")
    with pytest.raises(DataError, match=r"got none \(2 still running\)\. Wait"):
        plan_import(history, runs([], left_out={"still running": 2}), dataset="photos")


@pytest.mark.parametrize("best", [0.0, 1.0])
def test_infinite_values_are_no_errors(history: History, best: float) -> None:
    with pytest.raises(DataError, match=r"expected finite values, got inf for 1 of 2 runs\. Give such runs the status"):
        plan_import(history, runs([0.5, math.inf]), dataset="photos", error_range=(best, 1 - best))


def test_runs_that_differ_in_what_was_dropped_keep_apart(history: History) -> None:
    foreign = runs([0.5, 0.25], params={"batch_size": [8, 8], "augment": ["no", "yes"]}, seeds=[3, 3])
    plan = plan_import(history, foreign, dataset="photos")
    assert [e.seed for e in plan.evaluations] == [3, None]
    assert plan.notes == ("1 runs of one configuration and seed: the seed is left out",)
    carry_out(history, plan)
    assert history.n_evaluations == 2
    assert plan_import(history, foreign, dataset="photos").already_there == 2
