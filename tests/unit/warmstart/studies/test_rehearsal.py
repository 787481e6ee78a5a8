"""A rehearsed trial: what is found in its output, and what it used and wrote."""

import os
import sys
from pathlib import Path

import pytest

from warmstart.history_store.errors import UsageError
from warmstart.studies.rehearsal import gpu_memory, rehearse
from warmstart.studies.tune_options import TuneOptions

SCRIPT = """
import argparse, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--mode", default="trains")
args = parser.parse_args()
held = bytearray(b"x" * (100 << 20))
if args.mode == "crashes":
    print("reading data")
    raise SystemExit("no such folder: data")
for epoch in range(1, 4):
    print(f"Epoch {epoch}: loss {1 / epoch:.3f}, \\x1b[32mval_acc {60 + 10 * epoch}%\\x1b[0m")
time.sleep(60 if args.mode == "hangs" else 1)
open("model.pt", "w").write("x")
open(os.path.join(os.environ["WARMSTART_DIR"], "last.pt"), "w").write("x")
print("done")
"""


@pytest.fixture
def rehearsed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    command = f"{sys.executable} train.py --lr {{lr}}"

    def run(more="", **options):
        values = {"command": command + more, "space": {"lr": {"log": (1e-4, 0.1)}}, "trials": 10}
        return rehearse(None, TuneOptions.of(values | options))

    return run


def test_the_metric_its_reports_and_what_was_written_are_found(rehearsed):
    found = rehearsed()
    assert (found.guess.option, found.guess.name, found.value, found.steps) == ("score", "val_acc", 0.9, (1, 2, 3))
    assert found.is_usable
    assert set(found.files) == {"model.pt", "{warmstart.dir}/last.pt"}
    assert found.usage.n_bytes > 100e6
    words = dict(found.lines)
    assert words["metric"].startswith("val_acc 0.9, larger is better, as in 'val_acc 90%'")
    assert words["reports"].startswith("3, at steps 1 to 3")
    assert "; 10 trials take about " in words["time"]
    assert not list(Path().glob("*.db"))


def test_a_named_metric_is_read_as_a_study_reads_it(rehearsed):
    found = rehearsed(loss="loss")
    assert (found.guess, found.value, found.metric.name, found.metric.maximize) == (None, 0.333, "loss", False)


def test_a_trial_is_stopped_after_its_time_and_what_it_printed_counts(rehearsed):
    found = rehearsed(" --mode hangs", trial_timeout=8)
    assert (found.outcome.status, found.value, found.is_usable) == ("timeout", 0.9, True)
    assert dict(found.lines)["time"].startswith("stopped after 8 s")


def test_a_crash_shows_what_was_printed_last(rehearsed):
    found = rehearsed(" --mode crashes")
    assert (found.is_usable, set(found.last_lines)) == (False, {"reading data", "no such folder: data"})
    with pytest.raises(UsageError, match=r"^rehearse needs `command` or `objective`"):
        rehearse(None, TuneOptions.of({}))


def test_the_memory_of_gpus_is_read_from_nvidia_smi(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0, 1024\\n1, 3.5\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert gpu_memory() == {0: 1024.0, 1: 3.5}
    program.write_text("#!/bin/sh\nexit 9\n")
    assert gpu_memory() == {}
