"""CSV and Parquet: what people write by hand, and what they get wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import histories
import pytest

from warmstart.history_store.errors import DataError, HistoryVersionError, MissingPathError, UsageError
from warmstart.history_store.exchange import export_history, import_evaluations, import_history
from warmstart.history_store.external_import import plan_import
from warmstart.history_store.external_table import read_table
from warmstart.history_store.history import History

HEADER = "dataset,optimizer,momentum,layers,rate,width,epochs,error"
ROW = "digits,sgd,0.5,3,0.01,8,3,0.25"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    with histories.to_be_copied():
        histories.empty(folder / "h.h5").close()
    return folder


@pytest.fixture
def history(empty: Path, tmp_path: Path) -> Iterator[History]:
    shutil.copytree(empty, tmp_path, dirs_exist_ok=True)
    with History.open(tmp_path / "h.h5", write=True) as history:
        yield history


def csv(folder: Path, *lines: str) -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_made_by_hand(history: History, tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        "\ufeffdataset,config.optimizer,momentum,layers,rate,width,epochs,error,status,seed,curve,group",
        'digits,sgd,0.5,3,0.01,8,3,0.25,,7,"[[1, 0.5], [2, 0.25]]",',
        "digits,adam,,4,1e-3,all,3,0.5,diverged,,,",
        "mein,adam,,4.0,0.001,true,3,,crashed,0,[],Gruppe",
        "digits,adam,,4,0.001,True,3,0.125,ok,1.0,,",
    )
    added = import_evaluations(history, path)
    assert (added.n_evaluations, added.n_configs, added.datasets) == (4, 3, ("mein",))
    a, b, c, d = history.evaluations("digits")[0], *history.evaluations("digits")[1:2], *history.evaluations("mein"), history.evaluations("digits")[2]  # fmt: skip
    assert a.config == {"optimizer": "sgd", "momentum": 0.5, "layers": 3, "rate": 0.01, "width": 8, "epochs": 3}
    assert (a.error, a.seed, a.curve, a.origin) == (0.25, 7, ((1, 0.5), (2, 0.25)), "import/mine.csv")
    assert "momentum" not in b.config
    assert b.config["width"] == "all"
    assert (b.status.value, b.seed) == ("diverged", None)
    assert c.config["width"] is True
    assert type(c.config["layers"]) is int
    assert c.status.value == "crashed"
    assert (d.seed, d.config) == (1, c.config)
    assert (history.dataset("mein").group, history.dataset("mein").n_images) == ("Gruppe", 0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "expected a CSV file in UTF-8 with a header"),
        (["a,b", "1"], "expected columns of evaluations and the hyperparameters .*, got 'a'"),
        ([HEADER.replace("dataset,", ""), ROW[7:]], "expected a column 'dataset', got the columns optimizer"),
        ([HEADER.replace("error", "seed"), ROW.replace("0.25", "1")], "expected a column 'error' or 'status'"),
        ([HEADER.replace("layers", "layer"), ROW], "expected columns of evaluations .*, got 'layer'"),
        ([HEADER.replace("layers", "config.odd"), ROW], "got 'config.odd'"),
        ([HEADER + ",config.layers", ROW + ",3"], "expected one column for 'layers', got two"),
        ([HEADER, ROW, ROW.replace("digits", "")], r"mine\.csv line 3: expected the name of a dataset, got ''"),
        ([HEADER, ROW.replace("0.25", "low")], "line 2: error: expected a number, got 'low'"),
        ([HEADER, ROW.replace("0.25", "25")], r"line 2: .*expected an error in \[0, 1\], got error=25"),
        ([HEADER, ROW.replace("0.25", "")], "line 2: .*Record a run without one under its status"),
        ([HEADER, ROW.replace(",3,0.01", ",3.5,0.01")], r"line 2: layers: expected a whole number, got '3\.5'"),
        ([HEADER, ROW.replace(",3,0.01", ",99,0.01")], "expected one that the space 'test' allows"),
        ([HEADER, ROW.replace("sgd", "SGD")], "line 2: optimizer: expected one of sgd, adam, got 'SGD'"),
        ([HEADER, ROW.replace("sgd,0.5", "adam,0.5")], "expected one that the space 'test' allows"),
        ([HEADER, ROW.replace("0.01", "fast")], "line 2: rate: expected a number, got 'fast'"),
        ([HEADER + ",status", ROW + ",fine"], "line 2: expected a status among .*, got 'fine'"),
        ([HEADER + ",status", ROW + ",oom"], "line 2: .*expected error NaN for status 'oom'"),
        ([HEADER + ",seed", ROW + ",-1"], r"line 2: .*expected a seed in 0 \.\."),
        ([HEADER + ",seed", ROW + ",1.5"], r"line 2: seed: expected a whole number, got '1\.5'"),
        ([HEADER + ",duration", ROW + ",long"], "line 2: duration: expected a number"),
        ([HEADER + ",curve", ROW + ",1;2"], "line 2: curve: expected JSON pairs"),
        ([HEADER + ",curve", ROW + ',"[[1, null]]"'], "line 2: curve: expected JSON pairs"),
        ([HEADER + ",curve", ROW + f',"[[1, {"9" * 309}]]"'], "line 2: curve: expected JSON pairs"),
        ([HEADER + ",curve", ROW + ',"[[2, 0.5], [1, 0.5]]"'], "line 2: .*expected a curve of increasing updates"),
        ([HEADER + ",seed", ROW + ",1", ROW + ",1"], "a second time"),
        ([HEADER, ROW + ",9,9"], "expected a CSV file"),
    ],
)
def test_what_people_get_wrong(history: History, tmp_path: Path, lines: list[str], message: str) -> None:
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    path = csv(tmp_path, *lines) if lines else tmp_path / "mine.csv"
    path.touch()
    with pytest.raises(DataError, match=message):
        import_evaluations(history, path)
    path.unlink()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_no_file_of_that_kind(history: History, tmp_path: Path) -> None:
    with pytest.raises(MissingPathError, match="expected a file of evaluations, got nothing there"):
        import_evaluations(history, tmp_path / "none.csv")
    with pytest.raises(UsageError, match=r"expected a name that ends in \.csv or \.parquet, got '\.xlsx'"):
        import_evaluations(history, tmp_path / "none.xlsx")
    with pytest.raises(UsageError, match="got 'no ending'"):
        export_history(history, tmp_path / "none")
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(DataError, match="expected a Parquet file"):
        import_evaluations(history, tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="expected a CSV file in UTF-8"):
        import_evaluations(history, tmp_path / "x.csv")


def test_a_new_history_needs_a_space(tmp_path: Path) -> None:
    path = csv(tmp_path, HEADER, ROW)
    with pytest.raises(DataError, match="got one that names no search space"):
        import_history(path, tmp_path / "new.h5")
    path.with_suffix(".json").write_text('{"something": "else"}')
    with pytest.raises(DataError, match="got one that names no search space"):
        import_history(path, tmp_path / "new.h5")
    path.with_suffix(".json").write_text('{"format": "warmstart-evaluations", "version": 2}')
    with pytest.raises(HistoryVersionError, match='expected version "1", got "2"'):
        import_history(path, tmp_path / "new.h5")
    path.with_suffix(".json").write_text('{"format": "warmstart-evaluations", "version": 1}')
    with pytest.raises(DataError, match="got no 'configs'"):
        import_history(path, tmp_path / "new.h5")
    assert not (tmp_path / "new.h5").exists()


@pytest.mark.parametrize("beside", [b'{"loss": 1}\n{"loss": 2}\n', b'{"name": "caf\xe9"}', b"[" * 100_000, None])
def test_a_json_file_of_something_else_does_not_matter(history: History, tmp_path: Path, beside: bytes | None) -> None:
    path = csv(tmp_path, HEADER, ROW)
    if beside is None:
        path.with_suffix(".json").mkdir()
    else:
        path.with_suffix(".json").write_bytes(beside)
    assert import_evaluations(history, path).n_evaluations == 1


def test_an_import_that_fails_leaves_no_history(history: History, tmp_path: Path) -> None:
    history.extend(histories.runs())
    export_history(history, tmp_path / "runs.csv")
    head, row, *_ = (tmp_path / "runs.csv").read_text().splitlines()
    (tmp_path / "runs.csv").write_text(f"{head}\n{row}\n{row}\n")
    (tmp_path / "new").mkdir()
    with pytest.raises(DataError, match="a second time"):
        import_history(tmp_path / "runs.csv", tmp_path / "new" / "h.h5")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "runs.csv").write_text(f"{head}\n{row}\n")
    with import_history(tmp_path / "runs.csv", tmp_path / "new" / "h.h5") as made:
        assert made.n_evaluations == 1


def test_another_space_is_refused(history: History, tmp_path: Path) -> None:
    from warmstart.history_store.space import dump_space
    from warmstart.training.workloads.cnn.space import target_space

    export_history(history, tmp_path / "runs.csv")
    target = History.create(tmp_path / "other.h5", dump_space(target_space()))
    with target, pytest.raises(DataError, match="got another space"):
        import_evaluations(target, tmp_path / "runs.csv")


def test_runs_on_other_images_of_the_name_are_refused(tmp_path: Path) -> None:
    out, run = tmp_path / "runs.csv", histories.runs()[0]
    with histories.empty(tmp_path / "theirs.h5", ()) as theirs:
        for name in ("digits", "idle"):
            theirs.add_dataset(histories.info(name, fingerprint="content:1"))
        theirs.append(run)
        export_history(theirs, out)
    with histories.empty(tmp_path / "mine.h5", ()) as mine:
        mine.add_dataset(histories.info("idle", fingerprint="content:2"))  # no run is on it
        mine.add_dataset(histories.info("digits", fingerprint="content:2"))
        message = r"expected runs on 'digits' as .*mine\.h5 has it \(content:2\), got .* \(content:1\)\. .*`warmstart history bundle`"
        with pytest.raises(DataError, match=message):
            import_evaluations(mine, out)
        runs, described = read_table(out)
        with pytest.raises(DataError, match=message):
            plan_import(mine, runs, described=described)
        assert mine.n_evaluations == 0
    for fingerprint in ("content:1", ""):  # the same images, and runs alone
        with histories.empty(tmp_path / f"new{fingerprint[-1:]}.h5", ()) as mine:
            mine.add_dataset(histories.info("digits", fingerprint=fingerprint))
            assert import_evaluations(mine, out).n_evaluations == 1


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_export_replaces_what_it_is_named_and_nothing_else(history: History, tmp_path: Path, suffix: str) -> None:
    history.extend(histories.runs())
    (tmp_path / "kept").mkdir()
    out, mine = tmp_path / f"runs.{suffix}", tmp_path / f"runs.{suffix}.tmp"
    out.symlink_to(Path("kept", f"real.{suffix}"))
    mine.write_text("mine")
    for _ in range(2):  # where the link leads nowhere yet, and to an older export
        export_history(history, out)
        assert out.is_symlink()
    assert mine.read_text() == "mine"
    with import_history(out, tmp_path / "new.h5") as new:
        assert new.n_evaluations == 9
    assert [file.name for file in (tmp_path / "kept").iterdir()] == [f"real.{suffix}"]


def test_pandas_is_loaded_when_needed_only() -> None:
    code = "import sys, warmstart.history_store.exchange; print({'pandas', 'pyarrow', 'ConfigSpace', 'scipy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "set()\n"
