"""Tables as spreadsheets and programs write them: one reader for labels, runs, exports and initial configurations."""

import csv
from pathlib import Path

import pytest

from warmstart.history_store.csv_table import read_csv
from warmstart.history_store.errors import DataError
from warmstart.history_store.quoting import in_csv
from warmstart.integrations.importers.run_folders import read_rows
from warmstart.suggestions.initial_configs import read_initial

COLUMNS = {"lr": ["0.001", "0.1"], "opt": ["adam", "sgd, fast"]}


@pytest.mark.parametrize(
    "data",
    [
        b'lr,opt\n0.001,adam\n0.1,"sgd, fast"\n',
        b'\xef\xbb\xbflr;opt\r\n0,001;adam\r\n0,1;"sgd, fast"\r\n',
        b"lr\topt\n0.001\tadam\n0.1\tsgd, fast\n",
        "lr\topt\n0,001\tadam\n0,1\tsgd, fast\n".encode("utf-16"),
        b"sep=;\r\nlr;opt\r\n0.001;adam\r\n0.1;sgd, fast\r\n",
        b" lr ; opt \n 0.001 ; adam \n 0.1 ; sgd, fast \n",
        b'lr,opt,,\n0.001,adam,,\n0.1,"sgd, fast",,\n,,,\n\n',
        b'lr,opt\r0.001,adam\r0.1,"sgd, fast"\r',
        b"lr;opt\n0,1%;adam\n10%;sgd, fast\n",
        b'lr,opt\n"0,1%",adam\n"10%","sgd, fast"\n',
    ],
)
def test_one_table_in_many_forms(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    assert read_csv(tmp_path / "t.csv").numeric_columns() == COLUMNS
    assert read_initial(tmp_path / "t.csv") == [{"lr": 0.001, "opt": "adam"}, {"lr": 0.1, "opt": "sgd, fast"}]
    assert [row["opt"] for row in read_rows(tmp_path / "t.csv", "runs")] == COLUMNS["opt"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "got an empty file"),
        (b"a,b\n1,2\r3,4\n5,6\n", "expected a CSV file"),
        (b'a,b\n1,"2\n', "quotes that stay open"),
        (b"a,b\n1,2,3\n", "got 3 cells for 2 names in line 2"),
        (b"a,a\n1,2\n", "expected one column for 'a', got two"),
        (b"B\xe4r,b\n1,2\n", "no UTF-8"),
    ],
)
def test_what_is_no_table(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_csv(tmp_path / "t.csv")


def test_texts_are_kept_where_a_comma_is_no_decimal_one(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("width;lr;note\n64,128;0.5;50%\n256,128;0.1;x\n")
    assert read_csv(tmp_path / "t.csv").numeric_columns()["width"] == ["64,128", "256,128"]
    assert read_csv(tmp_path / "t.csv").numeric_columns()["note"] == ["50%", "x"]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rows = [["a", "b"], ["\rother", "line\nfeed"], ["x" * 300_000, '"q", ']]
    (tmp_path / "t.csv").write_text(in_csv(rows[0], rows[1:], raw=True), newline="")
    assert list(map(list, read_csv(tmp_path / "t.csv").rows)) == rows[1:]
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == rows
