import json
import os
import re
import subprocess
import sys

import pytest
from bad_inputs import TABLE, build


@pytest.fixture(scope="module")
def world(tiny, tmp_path_factory):
    import shutil

    root = tmp_path_factory.mktemp("bad")
    history, model = shutil.copy(tiny.history, root / "tiny.h5"), shutil.copy(tiny.model, root / "tiny.safetensors")
    return build(root, history, model)


def companions(path):
    return {
        file.name: file.read_bytes() for file in path.parent.glob(path.name + "*") if not file.name.endswith(".lock")
    }


def arguments(bad, world):
    args = [str(part) for part in bad.arguments(world)]
    if args[0] == "suggest":
        args += [] if "--history" in args else ["--history", str(world.history)]
        args += [] if "--model" in args else ["--model", str(world.model)]
    return args


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: f"{bad.kind}-{bad.name}")
def test_bad_input_is_told_and_changes_nothing(bad, world, cli):
    before = companions(world.history)
    run = cli(*arguments(bad, world))
    assert run.code == bad.code, run.err
    assert run.out == ""
    assert "Traceback" not in run.err
    assert re.search(bad.match, run.err.replace("\n", " ")), run.err
    if bad.code in (3, 4):
        assert re.search(r"expected .* got\b", run.err.replace("\n", " ")), run.err
    assert companions(world.history) == before


def spawn(bad, world):
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "warmstart", *arguments(bad, world), "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def check_process(bad, world):
    before = companions(world.history)
    done = spawn(bad, world)
    assert done.returncode == bad.code, done.stderr
    assert done.stdout == ""
    error = json.loads(done.stderr)["error"]
    assert set(error) - {"params"} == {"type", "message", "exit_code"}
    assert error["exit_code"] == bad.code
    assert re.search(bad.match, error["message"])
    assert companions(world.history) == before


@pytest.mark.parametrize("kind", ["array", "option"])
def test_some_in_a_process_of_its_own(kind, world):
    check_process(next(bad for bad in TABLE if bad.kind == kind), world)
