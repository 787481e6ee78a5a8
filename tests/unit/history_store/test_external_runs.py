"""Runs of other tools."""

import numpy as np
import pytest

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns


@pytest.mark.parametrize("name", [b"\xff", 9_223_372_036_854_775_808, None])
def test_names_of_hyperparameters_are_text(name):
    with pytest.raises(DataError, match="damaged: expected text as the names of hyperparameters, got "):
        ForeignRuns("damaged", {name: [1]}, np.zeros(1), [], [], np.zeros(1), [], [], [])
