"""What an installation without torch does, and the one sentence of all that it cannot do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HIDDEN = HERE.parent / "without_torch"
NEEDS = "needs the extra `pictures`: pip install 'warmstart[pictures]'."
DIGITS = ("--dataset", "sklearn:digits")


@pytest.fixture
def run(tmp_path):
    """Return a function that starts Python in a folder of its own, where torch cannot be imported."""

    def start(*words):
        path = os.pathsep.join([str(HIDDEN), *sys.path])
        env = {**os.environ, "PYTHONPATH": path, "WARMSTART_CACHE": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, cwd=tmp_path, env=env, check=False
        )

    return start


@pytest.fixture
def warmstart(run):
    return lambda *words: run("-m", "warmstart", *map(str, words))


@pytest.mark.parametrize(
    "words",
    [
        ("suggest", *DIGITS, "--explain"),
        ("neighbours", *DIGITS),
        ("history", "list"),
    ],
)
def test_it_answers(words, warmstart):
    done = warmstart(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert done.stderr.count("pip install 'warmstart[pictures]'") == (words[0] != "history")


def test_it_tunes_a_function_and_reports(warmstart, tmp_path):
    (tmp_path / "job.py").write_text("def error(config):\n    return abs(config['x'] - 0.5)\n")
    (tmp_path / "space.yaml").write_text("x: [0.0, 1.0]\n")
    done = warmstart("tune", "--objective", "job.py:error", "--space", "space.yaml", "--trials", 3, "--storage", "s.db")
    assert done.returncode == 0, done.stderr
    assert warmstart("studies", "list", "--storage", "s.db").returncode == 0


def test_it_samples_for_optuna(run):
    code = """
import optuna
from warmstart.integrations.optuna import WarmStartSampler, warm_start

study = optuna.create_study(sampler=WarmStartSampler(n_startup_trials=2))
warm_start(study, dataset="sklearn:digits", k=2)
study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=4)
print(len(study.trials))
"""
    done = run("-c", code)
    assert (done.returncode, done.stdout.strip()) == (0, "4"), done.stderr


def test_it_keeps_a_history(warmstart):
    values = {"log10_learning_rate": -3, "log10_decay_rate": -6, "batch_size": 16, "num_layers_conv": 3}
    config = json.dumps(values | {"num_layers_fc": 1, "dropout_rate": 0.2})
    for words in (
        ("create", "mine.h5", "--space", "compact"),
        ("add", "mine.h5", *DIGITS, "--name", "digits", "--group", "digits"),
        ("record", "mine.h5", "--dataset", "digits", "--error", 0.1, "--config", config),
        ("verify", "mine.h5"),
        ("export", "mine.h5", "runs.csv"),
    ):
        done = warmstart("history", *words)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "user"),
    [
        (("suggest", *DIGITS, "--workload", "transfer"), "This"),
        (("tune", *DIGITS, "--trials", 1), "The workload cnn"),
        (("tune", *DIGITS, "--workload", "transfer", "--trials", 1), "A pretrained network"),
        (("predict", "networks.safetensors", "sklearn:digits"), "This"),
        (("train", "--history", "tiny.h5", "--out", "model.safetensors", "--steps", 1), "This"),
    ],
)
def test_it_says_what_to_install(words, user, warmstart, tmp_path):
    from gzip import decompress
    from shutil import copy

    archive = HERE.parent / "compat" / "v1"
    (tmp_path / "networks.safetensors").write_bytes(decompress((archive / "networks.safetensors.gz").read_bytes()))
    copy(archive / "history.h5", tmp_path / "tiny.h5")
    done = warmstart(*words)
    assert done.returncode == 2
    assert f"error: {user} {NEEDS}" in done.stderr.replace("\n", " ")
