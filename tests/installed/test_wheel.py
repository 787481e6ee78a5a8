"""The built wheel, unpacked into site-packages, changes nothing for projects whose names are those of our folders.

Names the wheel: ``WARMSTART_WHEEL=dist/warmstart-….whl pytest tests/installed``; CI does, once it has built one.
"""

import json
import os
import socket
import subprocess
import sys
import time
import venv
import zipfile
from collections import Counter
from pathlib import Path

import pytest

WHEEL = os.environ.get("WARMSTART_WHEEL")
pytestmark = pytest.mark.skipif(WHEEL is None, reason="needs a built wheel: WARMSTART_WHEEL=FILE")
FOLDERS = ("bo", "data_manifests", "history_store", "metafeat", "training")
PROJECTS = {
    "a folder without __init__": (
        {"training/data/a.py": "x = 1", "run.py": "import training.data.a as a; print(a.x)"},
        "run.py",
    ),
    "a module": ({"bo.py": "x = 2", "run.py": "import bo; print(bo.x)"}, "run.py"),
    "a package": (
        {"history_store/__init__.py": "x = 3", "run.py": "import history_store; print(history_store.x)"},
        "run.py",
    ),
    "a subpackage": (
        {"metafeat/__init__.py": "", "metafeat/deep.py": "x = 4", "run.py": "from metafeat.deep import x; print(x)"},
        "run.py",
    ),
    "data": (
        {
            "data_manifests/a.txt": "5",
            "run.py": "from importlib.resources import files; print((files('data_manifests') / 'a.txt').read_text())",
        },
        "run.py",
    ),
    "a module run with -m": ({"training/train.py": "print(6)"}, "-m training.train"),
    "a package run with -m": ({"bo/__init__.py": "", "bo/__main__.py": "print(7)"}, "-m bo"),
    "a test suite": (
        {
            "training/model.py": "x = 8",
            "test_it.py": "from training.model import x\n\ndef test():\n    assert x == 8\n",
        },
        "-m pytest -q -p no:cacheprovider -p no:randomly test_it.py",
    ),
    "a name that is imported late": (
        {"training/late.py": "x = 9", "run.py": "import importlib; print(importlib.import_module('training.late').x)"},
        "run.py",
    ),
    "a project that uses warmstart too": (
        {
            "training/model.py": "x = 10",
            "bo.py": "y = 1",
            "run.py": "import bo, training.model\nfrom warmstart.bo import Optimizer\nprint(training.model.x + bo.y)",
        },
        "run.py",
    ),
}


@pytest.fixture(scope="module")
def wheel() -> Path:
    assert WHEEL is not None
    return Path(WHEEL).resolve()


@pytest.fixture(scope="module")
def pythons(tmp_path_factory, wheel) -> dict[bool, Path]:
    """Make two environments, without the wheel and with it; both find the packages of this one."""
    made = {}
    for has_wheel in (False, True):
        folder = tmp_path_factory.mktemp("with" if has_wheel else "without")
        venv.create(folder, symlinks=True)
        python = folder / "bin" / "python"
        (site,) = (folder / "lib").glob("python*/site-packages")
        if has_wheel:
            zipfile.ZipFile(wheel).extractall(site)
        (site / "here.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
        made[has_wheel] = python
    return made


def test_it_brings_one_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"warmstart"}
    inside = {name.split("/")[1] for name in names if name.startswith("warmstart/")}
    assert set(FOLDERS) <= inside
    assert max(Counter(names).values()) == 1
    assert {f"warmstart/{folder}/py.typed" for folder in FOLDERS if folder != "data_manifests"} <= set(names)
    assert any(name.startswith("warmstart/data_manifests/") and name.endswith(".toml") for name in names)
    assert not any("/tests/" in name or name.endswith((".pyc", "conftest.py")) for name in names)


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_runs_as_before(name, pythons, tmp_path):
    files, command = PROJECTS[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    uses_ours = "warmstart" in str(files)
    said = []
    for has_wheel, python in pythons.items():
        if has_wheel or not uses_ours:
            done = subprocess.run(
                [python, "-B", *command.split()], capture_output=True, text=True, cwd=tmp_path, check=False
            )
            assert done.returncode == 0, done.stderr
            said.append(done.stdout.partition(" in ")[0])  # a test suite prints its seconds
    assert len(set(said)) == 1


def test_another_wheel_shares_no_file_with_it(wheel):
    """Those of a wheel that brings all of our folders' names would have replaced ours, and their removal deleted them."""
    theirs = {f"{folder}/__init__.py" for folder in FOLDERS}
    assert not theirs & set(zipfile.ZipFile(wheel).namelist())


def test_the_image_of_the_service_gets_healthy_and_ends(pythons, tmp_path):
    """What the Dockerfile sets, runs and checks, without docker."""
    lines = (Path(__file__).parents[2] / "deploy/Dockerfile").read_text().replace("/data", str(tmp_path)).splitlines()
    ends = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}
    check, python = json.loads(ends["HEALTHCHECK"].partition("CMD ")[2]), str(pythons[True])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    env = os.environ | dict(pair.split("=", 1) for pair in ends["ENV"].split() if "PATH" not in pair)
    env |= {"WARMSTART_PORT": port}
    serve = [python, "-m", *json.loads(ends["CMD"])]
    subprocess.run([*serve, "--new-token", "ann"], cwd=tmp_path, env=env, check=True)
    with subprocess.Popen(serve, cwd=tmp_path, env=env) as server:
        for _ in range(300):
            health = subprocess.run([python, *check[1:-1], check[-1].replace("8383", port)], capture_output=True)
            if health.returncode == 0:
                break
            time.sleep(1)
        assert server.poll() is None
        assert health.returncode == 0, health.stderr
        server.terminate()
        assert server.wait(60) == 0
