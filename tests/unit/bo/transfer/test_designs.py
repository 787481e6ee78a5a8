"""Initial designs: defaults, filling, refusals, and what importing them costs."""

import subprocess
import sys

import numpy as np
import pytest

from warmstart.bo.transfer.designs import designs, initial_designs
from warmstart.bo.transfer.strategies import Choice
from warmstart.history_store.errors import DataError, UsageError

NAN = np.nan
ERRORS = np.array(
    [
        [0.1, 0.2, 0.3, 0.4],
        [0.4, 0.1, 0.2, 0.3],
        [0.9, 0.8, 0.2, 0.7],
    ]
)


@pytest.mark.parametrize("strategy", [None, "nearest"])
def test_without_distances_the_portfolio_answers(strategy):
    rows = initial_designs(ERRORS, None, 3, strategy=strategy)
    assert rows == initial_designs(ERRORS, k=3, strategy="portfolio")


def test_choices_name_neighbour_distance_and_error():
    assert designs(ERRORS, [3.0, 2.0, 1.0], 2, strategy="nearest") == [Choice(2, 2, 1.0, 0.2), Choice(1, 1, 2.0, 0.1)]


def test_a_shortage_is_filled_by_the_portfolio_of_the_rest():
    choices = designs(ERRORS, [3.0, 2.0, 1.0], 4, strategy="nearest")
    assert [choice.row for choice in choices] == [2, 1, 0, 3]
    assert choices[3] == Choice(3, None, None, None)


@pytest.mark.parametrize(
    ("errors", "error", "message"),
    [
        (np.empty((0, 4)), UsageError, r"got shape \(0, 4\)"),
        ([[0.1, 0.2], [0.1]], UsageError, "expected errors to be an array of numbers"),
        ([[NAN, NAN], [NAN, NAN]], DataError, "at least one measured error, got 4 NaN"),
        ([[0.1, -np.inf]], DataError, "infinite"),
    ],
)
def test_errors_that_cannot_be_used(errors, error, message):
    with pytest.raises(error, match=message):
        initial_designs(errors, None, 1)


@pytest.mark.parametrize(
    ("distances", "error", "message"),
    [
        ([1.0, 2.0], UsageError, r"expected one distance a dataset \(3\), got shape \(2,\)"),
        ([1.0, NAN, 2.0], DataError, r"distances of 0 or more, got distances\[1\]=nan"),
        ([-1.0, 2.0, 3.0], DataError, r"got distances\[0\]=-1"),
    ],
)
def test_distances_that_cannot_be_used(distances, error, message):
    with pytest.raises(error, match=message):
        initial_designs(ERRORS, distances, strategy="portfolio")


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, r"expected k in 1\.\.4, .* got k=0"),
        (5, r"expected k in 1\.\.4, the number of configurations, got k=5"),
        (2.0, "expected a whole number of designs, got k=2.0"),
    ],
)
def test_counts_that_cannot_be_met(k, message):
    with pytest.raises(UsageError, match=message):
        initial_designs(ERRORS, None, k)


def test_unknown_names():
    with pytest.raises(
        UsageError, match="expected a strategy among joint, nearest, portfolio, average-rank, got 'best'"
    ):
        initial_designs(ERRORS, strategy="best")
    with pytest.raises(UsageError, match="expected dedupe among next_best, next_neighbour, keep, got 'drop'"):
        initial_designs(ERRORS, dedupe="drop")


def test_import_loads_numpy_and_nothing_heavy():
    code = """
import sys
import bo, warmstart.bo.transfer.designs, warmstart.bo.transfer.novelty, warmstart.bo.space.sampling, warmstart.bo.transfer.regret
from warmstart.bo.transfer.designs import initial_designs
initial_designs([[0.1, 0.2], [0.3, 0.2]], [1.0, 2.0], 2)
heavy = {"scipy", "ConfigSpace", "pandas", "torch", "h5py", "PIL", "sklearn", "faiss", "optuna"}
print(sorted(heavy & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
