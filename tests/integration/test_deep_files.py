"""Files that are nested too deep, endless, or hold numbers too long to read: an error that names the file, never a crash."""

import io
import json
import os
import tarfile

import pytest
from bad_inputs import GOOD_CONFIG
from stripes import pictures, write_folder

from warmstart.history_store.history import History
from warmstart.history_store.limits import JOURNAL_BYTES

DEEP = "[" * 100_000
ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def refused(run, *words, code=3):
    assert run.code == code, run.err
    for word in (*words, "expected"):
        assert word in run.err
    assert "unexpected" not in run.err


@pytest.mark.parametrize(
    ("name", "text"), [("x.json", DEEP), ("x.cls", "7" * 5000), ("x.json", '{"label": ' + "7" * 5000 + "}")]
)
def test_labels_of_a_shard(cli, use_tiny, tmp_path, name, text):
    folder = write_folder(tmp_path / "p", *pictures(1))
    picture = next(folder.rglob("*.png")).read_bytes()
    with tarfile.open(tmp_path / "s.tar", "w") as shard:
        for number in range(6):
            for member, data in ((f"{number}.png", picture), (f"{number}.{name[2:]}", text.encode())):
                about = tarfile.TarInfo(member)
                about.size = len(data)
                shard.addfile(about, io.BytesIO(data))
    refused(cli("neighbours", "--dataset", tmp_path / "s.tar"), "s.tar")


def test_a_cell_of_a_table_of_labels(cli, use_tiny, tmp_path):
    folder = write_folder(tmp_path / "p", *pictures(1))
    (tmp_path / "labels.csv").write_text("file,label\na.png," + "x" * 200_000 + "\n")
    refused(cli("neighbours", "--dataset", folder, "--labels", tmp_path / "labels.csv"), "labels.csv", "is one of its")


@pytest.mark.parametrize("option", ["--config", "--curve"])
def test_json_of_a_run(cli, tiny, tmp_path, option):
    (tmp_path / "deep.json").write_text(DEEP)
    args = {"--config": json.dumps(GOOD_CONFIG), option: f"@{tmp_path}/deep.json"}
    run = cli("history", "record", tiny.history, "-d", "stripes1", "--error", 0.5, *(w for pair in args.items() for w in pair))  # fmt: skip
    refused(run, option, "nested too deep", code=2)


@pytest.mark.parametrize(
    "text", [ALIASES, "a: &a\n  b: *a\n", "x: " + "[" * 3000 + "]" * 3000 + "\n"], ids=["bomb", "endless", "deep"]
)
def test_settings_of_runs(cli, tiny, tmp_path, text):
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "args.yaml").write_text(text)
    (tmp_path / "runs" / "a" / "summary.csv").write_text("epoch,eval_top1\n0,50\n")
    run = cli("history", "import", tiny.history, tmp_path / "runs", "-d", "d", "--metric", "eval_top1", "--dry-run")
    refused(run, "args.yaml")


def test_a_folder_of_runs_in_a_circle(cli, tiny, tmp_path):
    run = tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    for number in range(30):
        (run / f"link{number}").symlink_to("..")
    (run / "self").symlink_to("self")
    found = cli("history", "import", tiny.history, tmp_path / "runs", "-d", "d", "--dry-run")
    assert found.code in (2, 3)
    assert "unexpected" not in found.err


def test_a_sparse_journal_costs_neither_memory_nor_time(cli, tiny, tmp_path):
    path = tmp_path / "h.h5"
    path.write_bytes(tiny.history.read_bytes())
    journal = tmp_path / "h.h5.journal"
    journal.touch()
    os.truncate(journal, 200 * 2**30)
    for command in (("list",), ("verify",), ("compact",)):
        run = cli("history", *command, path)
        refused(run, code=4)
    assert JOURNAL_BYTES.variable in run.err


def test_a_lock_planted_as_a_hard_link_is_not_written(tiny, tmp_path):
    path, other = tmp_path / "h.h5", tmp_path / "precious"
    path.write_bytes(tiny.history.read_bytes())
    path.chmod(0o644)
    other.write_text("precious")
    other.chmod(0o600)
    os.link(other, f"{path}.lock")
    with History.open(path, write=True) as history:
        history.compact()
    assert other.read_text() == "precious"
    assert other.stat().st_mode & 0o777 == 0o600
