"""The commands and the code of the page on Ray, where Ray is."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warmstart.integrations.ray.cluster import RayExecutor

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "optuna-ray.md").read_text(encoding="utf-8")
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='Ray is not installed: pip install "warmstart[ray]"'
)


def fenced(language, word):
    (found,) = [
        code for code in re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if word in code
    ]
    return found


@needs_ray
@pytest.mark.slow
def test_the_study_of_the_page(tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    Path("quadratic.py").write_text(fenced("python", "# quadratic.py"))
    exec(fenced("python", "space.json"), {})
    command = fenced("bash", "--ray")
    run = cli(*command.split()[1:], "--format", "json")
    assert run.code == 0, run.err
    assert run.json()["trials"] == {"ok": 8}
    assert set(run.json()["best"]["config"]) == {"x"}


@needs_ray
@pytest.mark.slow
def test_the_executor_of_the_page(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    code = tmp_path / "page.py"
    code.write_text(fenced("py", "RayExecutor(Cluster"))
    done = subprocess.run([sys.executable, code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[1, 2, 3]\n"), done.stderr


def test_options_of_the_page_are_options(cli):
    for command in (["tune"], ["history", "collect"]):
        text = cli(*command, "--help-all").out
        for option in ("--ray", "--ray-address", "--cpus-per-trial", "--gpus-per-trial"):
            assert option in text
            assert f"`{option}" in PAGE
    assert RayExecutor.__name__ in PAGE
