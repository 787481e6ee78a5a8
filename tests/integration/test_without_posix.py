"""The command line where the package finds no POSIX names: what is meant to run on Windows runs, the rest is refused.

No Windows was at hand; `without_posix` tells what is taken away.
"""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = [sys.executable, str(Path(__file__).parents[1] / "without_posix.py")]
OBJECTIVE = """
def f(config, *, seed, budget, report):
    report(1, 0.5)
    return (config["x"] - 0.3) ** 2
"""


@pytest.fixture
def command(tmp_path):
    (tmp_path / "obj.py").write_text(OBJECTIVE)
    (tmp_path / "space.yaml").write_text("x: [0.0, 1.0]\n")

    def run(*words):
        return subprocess.run([*RUN, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_a_history_is_made_read_and_replaced(command):
    for words in (
        ("create", "h.h5", "--space", "compact"),
        ("add", "h.h5", "--dataset", "sklearn:digits", "--name", "digits", "--group", "digits"),
        ("compact", "h.h5"),
    ):
        process = command("history", *words)
        assert process.returncode == 0, process.stderr


def test_functions_are_tuned(command):
    process = command("tune", "--objective", "obj.py:f", "--space", "space.yaml", "--trials", "2")
    assert process.returncode == 0, process.stderr


def test_trees_of_processes_are_refused_in_a_line(command):
    process = command("tune", "--command", "python obj.py {x}", "--space", "space.yaml")
    assert process.returncode == 2
    assert process.stderr.splitlines()[-1].startswith("error: commands, several workers, collections and the service")
    assert "WSL2" in process.stderr


@pytest.mark.slow
def test_pictures_are_classified(command):
    assert command("example", "photos").returncode == 0
    process = command("classify", "photos", "--time", "3m", "--out", "c.safetensors")
    assert process.returncode == 0, process.stderr
    process = command("predict", "c.safetensors", "photos/3", "--format", "json")
    assert process.returncode == 0, process.stderr
