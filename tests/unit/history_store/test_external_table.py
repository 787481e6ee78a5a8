"""Tables of runs of any space: which cells are numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_table import read_table


def column(folder: Path, *cells: str) -> list[object]:
    """Read a column of cells."""
    (folder / "runs.csv").write_text("\n".join(["x,error", *(f"{cell},0.5" for cell in cells)]) + "\n")
    return list(read_table(folder / "runs.csv")[0].params["x"])


@pytest.mark.parametrize(
    "cells",
    [("1_1", "2_2"), ("007", "008"), ("nan", "nan"), ("inf", "Infinity"), ("007", "8"), ("\u0661", "2"), ("1e", "2")],
)
def test_names_stay_names(tmp_path: Path, cells: tuple[str, ...]) -> None:
    assert column(tmp_path, *cells) == list(cells)


def test_numbers_are_numbers(tmp_path: Path) -> None:
    assert column(tmp_path, "1", "-20", "", "+0.5", "1e-3", ".5", "1.", " 7", "1E5") == [
        *(1, -20, None, 0.5, 0.001, 0.5, 1.0, 7, 1e5)
    ]
    assert [type(cell) for cell in column(tmp_path, "8", "0", "8.0")] == [int, int, float]


def test_two_columns_of_one_hyperparameter_are_told(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("lr,config.lr,error\n0.1,0.2,0.5\n")
    with pytest.raises(DataError, match=r"expected one column of 'lr', got 'lr' and 'config.lr'"):
        read_table(tmp_path / "runs.csv")
