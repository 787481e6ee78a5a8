"""Folders of trials, and the log of all."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from warmstart.history_store.errors import StorageError
from warmstart.studies.execution.joined_log import JoinedLog
from warmstart.studies.execution.trial_folder import RECORD, TrialOutputs, remove_trial_folders
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.command import CommandObjective
from warmstart.studies.objectives.metric import Metric

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "tune.md").read_text(encoding="utf-8")


def test_an_interrupted_trial_gets_its_folder_again_and_another_trial_of_the_number_does_not(tmp_path):
    outputs = TrialOutputs(path=tmp_path / "trials")
    first = outputs.make_folder("s", 0, 7, {"lr": 0.1, "sizes": (1, 2)})
    (first.path / "last.pt").write_text("checkpoint")
    assert outputs.make_folder("s", 0, 7, {"lr": 0.1, "sizes": (1, 2)}) == first
    other = outputs.make_folder("s", 0, 7, {"lr": 0.2})
    assert [first.path.name, other.path.name] == ["0", "0-2"]
    (first.output).write_text("old\n")
    (other.output).write_text("".join(f"line {n}\n" for n in range(9)) + "\n")
    assert outputs.last_lines("s", 0) == [f"line {n}" for n in range(4, 9)]
    assert outputs.last_lines("s", 1) == []
    assert TrialOutputs(path=outputs.path, is_shared=True).make_folder("a/b", 0, 7, {}).path.name == "a-b-0"
    remove_trial_folders(outputs.path, "s")
    assert [path.name for path in outputs.path.iterdir()] == ["a-b-0"]
    assert TrialOutputs().make_folder("s", 0, 7, {}) is None


def test_a_folder_that_cannot_be_made_ends_the_call(tmp_path):
    (tmp_path / "trials").write_text("a file")
    with pytest.raises(StorageError, match=r"trials: expected a folder in which trials can have theirs"):
        TrialOutputs(path=tmp_path / "trials").make_folder("s", 0, 7, {})


def test_lines_of_workers_do_not_mix(tmp_path):
    logs = [JoinedLog(tmp_path / "all.log") for _ in range(2)]
    outputs = [(tmp_path / name).open("ab+", buffering=0) for name in "ab"]
    for number, (log, output) in enumerate(zip(logs, outputs, strict=True)):
        log.begin(output.fileno(), 0, f"trial {number}")
    for log, output in zip(logs, outputs, strict=True):
        output.write(b"half of a line")
        log.copy()
    for log, output in zip(logs, outputs, strict=True):
        output.write(b", its end\nno end")
        log.copy()
        log.copy(is_last=True)
        log.close()
        output.close()
    assert (tmp_path / "all.log").read_text().splitlines() == [
        *("== trial 0 ==", "== trial 1 =="),
        *(f"trial {n} | {line}" for n in range(2) for line in ("half of a line, its end", "no end")),
    ]


def test_a_trial_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.delenv("WARMSTART_DIR", raising=False)  # of a trial in a thread, elsewhere
    (script,) = re.findall(r"```python\n# resumable\.py\n(.*?)```", PAGE, re.DOTALL)
    (arguments,) = re.findall(r'"python resumable\.py (.*?)"', PAGE)
    monkeypatch.chdir(tmp_path)
    slow = "        time.sleep(0.5)\n        new.write_text"
    Path("resumable.py").write_text(
        script.replace("import os", "import os\nimport time").replace("        new.write_text", slow)
    )
    objective = CommandObjective(f"{shlex.quote(sys.executable)} resumable.py {arguments}", ["lr"])
    objective.metric = Metric("named:val_acc", maximize=True)
    outputs, steps = TrialOutputs(tmp_path / "trials.log", tmp_path / "trials"), []
    with TrialRunner(objective, log=outputs.log) as runner:
        for _ in range(2):
            folder = outputs.make_folder("s", 3, 7, {"lr": 0.01})
            stop = None if steps else 3.0
            outcome = runner.run(
                {"lr": 0.01},
                seed=7,
                title="s, trial 3",
                folder=folder,
                report=lambda step, error, stop=stop: steps.append(step) or step == stop,
            )
    assert outcome.status == "ok"
    lines = folder.output.read_text().splitlines()
    (after,) = (int(line.split()[-1]) for line in lines if line.startswith("trial 3 goes on after epoch"))
    assert steps == [1, 2, 3, *range(after + 1, 9)]
    assert "epoch 3 val_acc 0.653" in lines
    assert {path.name for path in folder.path.iterdir()} == {RECORD, "output.log", "last.json"}
    assert f"s, trial 3 | {lines[-1]}" in outputs.log.read_text().splitlines()
    assert "WARMSTART_DIR" not in os.environ
