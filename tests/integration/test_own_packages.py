"""A person's own `training` and `bo` beside ours: in a trial they are what is imported; elsewhere the cause is named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("no_pictures_in_processes")
SPACE = {
    "name": "one",
    "hyperparameters": [
        {"type": "uniform_float", "name": "x", "lower": 0.0, "upper": 1.0, "default_value": 0.5, "log": False}
    ],
    "conditions": [],
    "forbiddens": [],
    "format_version": 0.4,
}
TRAIN = "from training.parts import shift\ndef f(config):\n    return config['x'] + shift\n"


@pytest.fixture
def project(tmp_path):
    """Make a folder with a `training` package of its own, and one of pictures that is called `bo`."""
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "train.py").write_text(TRAIN)
    (tmp_path / "training" / "parts.py").write_text("shift = 0.5\n")
    (tmp_path / "training" / "__init__.py").write_text("")
    (tmp_path / "bo" / "cats").mkdir(parents=True)
    (tmp_path / "run.py").write_text(
        "from training.parts import shift\ndef g(config):\n    return config['x'] + shift\n"
    )
    (tmp_path / "space.json").write_text(json.dumps(SPACE))
    return tmp_path


MODULE = ("-m", "warmstart")
COMMAND = ("-P", "-c", "import sys; from warmstart.cli import main; sys.exit(main())")


def tune(project, objective, *, start=COMMAND, **env):
    """Tune for one trial, as the installed command does unless told otherwise: the working folder is not on its path."""
    args = ["tune", "--objective", objective, "--space", "space.json", "--trials", "1", "--format", "json", "-q"]
    args += ["--storage", "s.journal"]  # opened in half the time of a database
    return subprocess.run(
        [sys.executable, *start, *args],
        capture_output=True, text=True, cwd=project, check=False, env={**os.environ, **env},
    )  # fmt: skip


def shift(done):
    """Return what the objective added to x; 0.5 where it is the person's."""
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["best"]
    return best["error"] - best["config"]["x"]


def test_an_objective_in_a_package_called_training_is_tuned(project):
    assert shift(tune(project, "training.train:f")) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("objective", "start"), [("run:g", COMMAND), ("bo:f", COMMAND), ("bo.py:f", COMMAND), ("training.train:f", MODULE)]
)
def test_so_is_one_that_imports_it_a_file_called_bo_and_python_m(project, objective, start):
    if objective.startswith("bo"):
        (project / "bo.py").write_text("def f(config):\n    return config['x'] + 0.5\n")
    assert shift(tune(project, objective, start=start)) == pytest.approx(0.5)


def test_what_of_ours_gave_way_is_said_to_have(project):
    (project / "training" / "train.py").write_text("def f(config):\n    import training.collection.plan\n")
    done = tune(project, "training.train:f", start=MODULE)
    assert done.returncode == 5
    assert "No module named 'training.collection' in " in done.stderr
    assert "a package of warmstart has the same name" in done.stderr


def test_a_name_that_trials_need_is_refused_by_name(project):
    (project / "history_store").mkdir()
    (project / "history_store" / "mine.py").write_text("def f(config):\n    return 1\n")
    done = tune(project, "history_store.mine:f", start=MODULE)
    assert done.returncode == 2
    assert (
        "expected another name than 'history_store', as trials need warmstart's own package of that name" in done.stderr
    )


def script(folder, text):
    (folder / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, cwd=folder, check=False, timeout=100
    )


@pytest.mark.parametrize("name", ["training", "bo", "metafeat", "history_store"])
def test_a_package_that_hides_ours_is_named(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    done = script(tmp_path, "import warmstart")
    assert done.returncode == 1
    assert f"ImportError: warmstart: expected its own package {name!r} from {ROOT}, got one" in done.stderr
    assert f"of the same name from {tmp_path}, which hides it. Rename that" in done.stderr


def test_a_file_that_hides_ours_is_named_when_it_was_imported_before(tmp_path):
    (tmp_path / "bo.py").write_text("")
    assert "expected its own package 'bo'" in script(tmp_path, "import bo\nimport warmstart").stderr


def test_a_folder_of_pictures_hides_nothing(tmp_path):
    for name in ("training", "bo"):
        (tmp_path / name / "cats").mkdir(parents=True)
    done = script(tmp_path, "import warmstart\nfrom bo.transfer.strategies import STRATEGIES\nprint(len(STRATEGIES))")
    assert (done.stdout.strip(), done.returncode) == ("4", 0), done.stderr


def test_a_script_beside_a_folder_without_init_tunes_what_is_in_it(tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "train.py").write_text("def f(config):\n    return config['x'] + 0.5\n")
    text = """
import warmstart
from ConfigSpace import ConfigurationSpace, Float
if __name__ == "__main__":
    space = ConfigurationSpace()
    space.add(Float("x", (0.0, 1.0)))
    found = warmstart.tune(objective="training.train:f", space=space, trials=1, storage="s.journal")
    print([round(trial.error - trial.config["x"], 6) for trial in found.trials])
"""
    done = script(tmp_path, text)
    assert done.stdout.strip() == "[0.5]", done.stderr
