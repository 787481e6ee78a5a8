"""What an installation without torch does, and the one sentence of all that it cannot do."""

import json
import os
import subprocess
import sys
from gzip import decompress
from pathlib import Path
from shutil import copy

import pytest

HERE = Path(__file__).parent
HIDDEN = HERE.parent / "without_torch"
NEEDS = "needs the extra `pictures`: pip install 'warmstart[pictures]'."
DIGITS = ("--dataset", "sklearn:digits")
CONFIG = {
    "log10_learning_rate": -3, "log10_decay_rate": -6, "batch_size": 16, "num_layers_conv": 3,
    "num_layers_fc": 1, "dropout_rate": 0.2,
}  # fmt: skip
SEVERAL = """
import contextlib, io, json, sys
from warmstart.cli import main

for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
OPTUNA = """
import optuna
from warmstart.integrations.optuna import WarmStartSampler, warm_start

study = optuna.create_study(sampler=WarmStartSampler(n_startup_trials=2))
warm_start(study, dataset="sklearn:digits", k=2)
study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=4)
print(len(study.trials))
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs code in a folder of its own, where torch cannot be imported."""

    def start(code, given=None):
        path = os.pathsep.join([str(HIDDEN), *sys.path])
        env = {**os.environ, "PYTHONPATH": path, "WARMSTART_CACHE": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(given), capture_output=True, text=True, cwd=tmp_path, env=env, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return start


@pytest.mark.usefixtures("no_pictures_in_processes")
def test_it_answers_tunes_and_keeps_a_history(run, tmp_path):
    (tmp_path / "job.py").write_text("def error(config):\n    return abs(config['x'] - 0.5)\n")
    (tmp_path / "space.yaml").write_text("x: [0.0, 1.0]\n")
    commands = [
        ("suggest", *DIGITS, "--explain", "--format", "json"),
        ("tune", "--objective", "job.py:error", "--space", "space.yaml", "--trials", "3", "--storage", "s.db"),
        ("history", "create", "mine.h5", "--space", "compact"),
        ("history", "add", "mine.h5", *DIGITS, "--name", "digits", "--group", "digits"),
        ("history", "record", "mine.h5", "--dataset", "digits", "--error", "0.1", "--config", json.dumps(CONFIG)),
        ("history", "verify", "mine.h5"),
    ]
    found = run(SEVERAL, commands)
    for words, (code, _, err) in zip(commands, found, strict=True):
        assert code == 0, (words, err)
    assert json.loads(found[0][1])
    assert [err.count("pip install 'warmstart[pictures]'") for _, _, err in found] == [1, 0, 0, 0, 0, 0]


def test_it_samples_for_optuna(run):
    assert run(OPTUNA) == [4]


def test_it_says_what_to_install(run, tmp_path):
    archive = HERE.parent / "compat" / "v1"
    (tmp_path / "networks.safetensors").write_bytes(decompress((archive / "networks.safetensors.gz").read_bytes()))
    copy(archive / "history.h5", tmp_path / "tiny.h5")
    calls = [
        (("tune", *DIGITS, "--trials", "1"), "The workload cnn"),
        (("tune", *DIGITS, "--workload", "transfer", "--trials", "1"), "A pretrained network"),
        (("predict", "networks.safetensors", "sklearn:digits"), "This"),
        (("fit-similarity", "--history", "tiny.h5", "--out", "model.safetensors", "--steps", "1"), "This"),
    ]
    for (words, user), (code, _, err) in zip(calls, run(SEVERAL, [words for words, _ in calls]), strict=True):
        assert code == 2, words
        assert f"error: {user} {NEEDS}" in err.replace("\n", " ")
