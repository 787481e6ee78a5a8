"""A person's packages may have any name, those of folders in our repository included: theirs are what is imported."""

import contextlib
import json
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import warmstart

ROOT = Path(__file__).parents[2]
NAMES = ("bo", "data_manifests", "history_store", "metafeat", "training")
pytestmark = pytest.mark.usefixtures("no_pictures_in_processes")


def run(folder, *words, **env):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=folder, check=False, env={**os.environ, **env}
    )


@pytest.fixture
def project(tmp_path):
    """Make a folder with five packages, whose names are those of our repository's folders; two are without `__init__.py`."""
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "parts.py").write_text("shift = 0.5\n")
        (tmp_path / name / "train.py").write_text(
            f"from {name}.parts import shift\n\ndef f(config):\n    return config['x'] + shift\n"
        )
        if name not in ("training", "data_manifests"):
            (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "space.yaml").write_text("x: [0.0, 1.0]\n")
    return tmp_path


MODULE = ("-m", "warmstart")  # with the working folder on Python's path
COMMAND = ("-P", "-c", "from warmstart.cli import main; main()")


@pytest.mark.parametrize(("name", "start"), [("training", COMMAND), ("training", MODULE)])
def test_an_objective_in_a_package_of_that_name_is_tuned(project, name, start):
    for module in ("select", "typing"):  # of Python, not of the working folder
        (project / f"{module}.py").write_text("raise SystemExit(9)\n")
    tune = ["tune", "--objective", f"{name}.train:f", "--space", "space.yaml", "--trials", "1", "--format", "json"]
    done = run(project, *start, *tune, "-q", "--storage", "s.journal")  # opened in half the time of a database
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["best"]
    assert best["error"] - best["config"]["x"] == pytest.approx(0.5)


def test_a_script_beside_them_has_both_theirs_and_ours(project):
    (project / "script.py").write_text(
        f"""
import warmstart
import {", ".join(f"{name}.train" for name in NAMES)}
from warmstart.bo import Optimizer
from warmstart.history_store.history import History
from warmstart.metafeat.feature_names import FEATURES
from warmstart.training.workloads import WORKLOADS

if __name__ == "__main__":
    found = warmstart.tune(objective=training.train.f, space="space.yaml", trials=1, storage="s.journal")
    print([round(trial.error - trial.config["x"], 6) for trial in found.trials])
"""
    )
    done = run(project, "script.py")
    assert done.stdout.strip() == "[0.5]", done.stderr


def test_a_process_has_one_copy_of_each_module():
    """Started in the checkout, where the folders lie on the path of Python too."""
    code = "from test_own_packages import copies; copies()"
    done = run(ROOT, "-c", code, PYTHONPATH=os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    assert done.returncode == 0, done.stderr


def copies():
    """Import all modules and compare their files."""
    for module in pkgutil.walk_packages(warmstart.__path__, "warmstart."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):  # of an extra
                import_module(module.name)
    assert not set(NAMES) & set(sys.modules)
    files = [
        os.path.realpath(module.__file__)
        for module in list(sys.modules.values())
        if getattr(module, "__file__", None) and os.path.realpath(module.__file__).startswith(str(ROOT))
    ]
    assert len(files) == len(set(files)) > 400
