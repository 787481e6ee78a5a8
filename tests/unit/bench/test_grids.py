"""Grid tables: what a row becomes, and that the measured ones are whole where they are there."""

from pathlib import Path

import pytest
from grids import read_grid

from warmstart.bo.space.encoding import Encoding

MEASURED = Path(__file__).parents[4] / "shared" / "tables" / "grids"


def test_rows_become_configurations_and_the_first_of_two_counts(tmp_path):
    text = (
        "kappa,tau,batch,perplexity,seconds\n0.5,4,16,1300.5,60\n1.0,4,16,1200,30\n0.5,4,16,1301,61\n0.5,1,16,1400,10\n"
    )
    (tmp_path / "lda_on_grid.csv").write_text(text)
    grid = read_grid(tmp_path, "lda")
    assert grid.configs[1] == {"kappa": 1.0, "tau": 4.0, "batch": 16.0}
    assert grid.errors.tolist() == [1300.5, 1200, 1400]
    assert grid.seconds.tolist() == [60, 30, 10]
    encoding = Encoding(grid.space)
    assert encoding.size == 4
    assert encoding.columns(encoding.encode(grid.configs)).tolist() == [[0, 1], [1, 1], [0, 0]]


@pytest.mark.skipif(not MEASURED.is_dir(), reason="the measured tables are not here")
@pytest.mark.parametrize(
    ("name", "rows", "least"), [("lda", 288, 1266.167382), ("svm", 1400, 0.2411), ("logreg", 9680, 0.0685)]
)
def test_the_measured_tables_are_whole(name, rows, least):
    grid = read_grid(MEASURED, name)
    assert len(grid.configs) == len(grid.errors) == len(grid.seconds) == rows
    assert grid.errors.min() == least
    assert Encoding(grid.space).size == rows
