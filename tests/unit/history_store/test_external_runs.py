"""Runs of other tools."""

import numpy as np
import pytest

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns


@pytest.mark.parametrize("name", [b"\xff", 9_223_372_036_854_775_808, ("a",), None])
def test_names_are_text(name):
    for label, params, datasets in (("hyperparameters", {name: [1]}, []), ("datasets", {}, [None, name])):
        if label == "datasets" and name is None:
            continue
        with pytest.raises(DataError, match=f"damaged: expected text as the names of {label}, got "):
            ForeignRuns("damaged", params, np.zeros(1), [], datasets, np.zeros(1), [], [], [])
