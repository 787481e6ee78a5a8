"""A worker for each GPU, of a machine whose GPUs are made up."""

import os
import shlex
import subprocess
import sys

import pytest

import warmstart
from warmstart.history_store.errors import UsageError
from warmstart.integrations.ray.cluster import Cluster
from warmstart.studies.execution.gpus import VISIBLE, chosen_gpus
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.tune_options import TuneOptions


@pytest.fixture
def three(tmp_path, monkeypatch):
    """Let `nvidia-smi` list three GPUs."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0\\n1\\n2\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(VISIBLE, raising=False)


@pytest.mark.parametrize(
    ("choice", "visible", "gpus"),
    [
        ("auto", None, ("0", "1", "2")),
        ("auto", "GPU-8f, 3", ("GPU-8f", "3")),
        ("1, 0", None, ("1", "0")),
        ([3], "2,3", ("3",)),
    ],
)
def test_gpus_keep_the_names_of_the_environment(three, monkeypatch, choice, visible, gpus):
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert chosen_gpus(choice) == gpus


@pytest.mark.parametrize(
    ("options", "visible", "words"),
    [
        ({"gpus": "auto"}, "", f"gpus: expected a GPU, got none: {VISIBLE} hides them"),
        ({"gpus": "0,0"}, None, "gpus: expected different GPUs as in 0,1 or auto, got '0,0'"),
        ({"gpus": "0,1"}, "4,5", f"gpus: expected GPUs among {VISIBLE}=4,5, got 0"),
        ({"gpus": 2}, None, "gpus: expected numbers of GPUs, or auto, got 2"),
        ({"gpus": "0", "device": "cuda:1"}, None, "gpus cannot be used with `device` cuda:1"),
        ({"gpus": "0", "cluster": Cluster()}, None, "gpus cannot be used with Ray"),
        ({"per_gpu": 2}, None, "per_gpu needs `gpus`"),
    ],
)
def test_gpus_that_cannot_be_used_are_refused(three, monkeypatch, options, visible, words):
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    with pytest.raises(UsageError) as error:
        TuneOptions.of(options)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("options", "places", "words"),
    [
        ({}, (None,), []),
        ({"gpus": "auto"}, ("0", "1", "2"), []),
        ({"gpus": "0,1", "per_gpu": 2}, ("0", "1", "0", "1"), []),
        ({"gpus": "0,1", "workers": 1}, ("0",), []),
        ({"gpus": "0,1", "workers": 3}, ("0", "1", "0"), ["3 workers share 2 GPUs, more than `per_gpu` 1"]),
        ({"workers": 2}, (None, None), ["All 2 workers see the same 3 GPUs"]),
        ({"workers": 2, "device": "cpu"}, (None, None), []),
    ],
)
def test_workers_take_the_gpus_in_turn_and_more_are_warned_of(three, options, places, words):
    said = []
    assert TuneOptions.of({**options, "on_message": said.append}).places == places
    assert [line[: len(start)] for line, start in zip(said, words, strict=True)] == words


def test_each_worker_sees_one_gpu_and_the_study_does_not_keep_it(three, tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys, time\n"
        "time.sleep(1)\n"
        f"open('seen', 'a').write(os.environ['{VISIBLE}']+ '\\n')\n"
        "print(abs(float(sys.argv[1]) - 0.3))\n"
    )
    monkeypatch.chdir(tmp_path)
    call = {
        "command": f"{sys.executable} {shlex.quote(str(script))} {{x}}",
        "space": {"x": [0.0, 1.0]},
        "study": "s",
        "storage": "s.journal",
    }
    found = warmstart.tune(**call, trials=6, gpus="0,2")
    assert VISIBLE not in os.environ
    assert set((tmp_path / "seen").read_text().split()) == {"0", "2"}
    again = warmstart.tune(**call, trials=7, gpus=[1])
    assert (len(found.trials), len(again.trials)) == (6, 7)
    assert (tmp_path / "seen").read_text().split()[-1] == "1"
    assert not {"gpus", "per_gpu"} & set(StudySpec.__dataclass_fields__)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_tasks_of_a_slurm_array_share_a_study(tmp_path):
    """Each task is a process of its own, whose environment names its GPU."""
    (tmp_path / "train.py").write_text(
        "import os, sys, time\n"
        "time.sleep(3)\n"
        f"line = os.environ['{VISIBLE}'] + ' ' + sys.argv[1]\n"
        "open('seen', 'a').write(line + '\\n')\n"
        "print(abs(float(sys.argv[1]) - 0.3))\n"
    )
    (tmp_path / "space.yaml").write_text("x: [0.0, 1.0]\n")
    words = f"tune --space space.yaml --study s --storage s.journal --trials 9 --gpus auto --command '{sys.executable} train.py {{x}}'"
    tasks = [
        subprocess.Popen(
            [sys.executable, "-m", "warmstart", *shlex.split(words)],
            cwd=tmp_path,
            env={**os.environ, VISIBLE: f"GPU-{task}", "SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task)},
        )
        for task in range(3)
    ]
    assert [task.wait() for task in tasks] == [0, 0, 0]
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    assert (len(seen), len({x for _, x in seen})) == (9, 9)
    assert {gpu for gpu, _ in seen} == {"GPU-0", "GPU-1", "GPU-2"}
