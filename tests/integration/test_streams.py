"""Streams that are closed, full, or written to by libraries."""

import json
import os
import subprocess
import sys

import pytest

LIST = f'"{sys.executable}" -m warmstart history list'


def shell(line, **more):
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=120, check=False, **more)


def test_a_closed_stream_is_none_to_write_to():
    run = shell(f"{LIST} >&-")
    assert run.returncode == 0
    assert "unexpected" not in run.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")  # noqa: PTH110
def test_a_full_disk_is_told_in_one_line():
    run = shell(f"{LIST} --format json >/dev/full")
    error = json.loads(run.stderr)["error"]
    assert (run.returncode, error["type"]) == (4, "StorageFullError")
    assert error["message"].startswith("expected room for the result, got")
    assert shell(f"{LIST} none.h5 2>/dev/full").returncode == 2


def test_a_path_that_the_system_refuses_is_told_in_one_line(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "loop", "x" * 5000):
        run = shell(f"{LIST} {path}")
        assert run.returncode == 4
        assert "unexpected" not in run.stderr


def test_what_libraries_write_does_not_stand_beside_json():
    program = (
        "import os, sys\n"
        "from importlib import import_module\n"
        "module = import_module('warmstart.cli.main')\n"
        "def run(args):\n"
        "    os.write(2, b'a library has something to say\\n')\n"
        "    raise FileNotFoundError('nothing there')\n"
        "module._run = run\n"
        "sys.argv = ['warmstart', 'history', 'list', '--format', 'json']\n"
        "sys.exit(module.main())\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert json.loads(run.stderr)["error"]["exit_code"] == run.returncode
