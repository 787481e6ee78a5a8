"""What starting costs, and how large the packages are. That a cold `suggest` loads no torch: test_cli_contract.py."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_BYTES = 10_000_000
COMMANDS = {"collect", "evaluate", "evaluations", "inspect", "maintain", "plot", "predict", "serve", "suggest", "tune"}


def test_package_data_is_at_most_10_mb():
    given = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    files = {file for package, patterns in given.items() for each in patterns for file in (ROOT / package).glob(each)}
    assert any(file.name == "history.h5" for file in files)
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES


@pytest.mark.parametrize(("args", "loaded"), [(["--help"], set()), (["history", "list", "--help"], {"inspect"})])
def test_help_imports_the_command_that_is_called_alone(args, loaded):
    code = f"import sys; from warmstart.cli import main; main({args}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {name.rpartition(".")[2] for name in done.stderr.split() if name.startswith("warmstart.cli.")}
    assert found & COMMANDS == loaded


@pytest.mark.slow
def test_help_takes_at_most_100_ms():
    """CPU seconds, the least of twenty runs: others that work beside take nothing from it but the cache."""
    assert min(_cpu_seconds([sys.executable, "-m", "warmstart", "--help"]) for _ in range(20)) <= 0.1


def _cpu_seconds(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_the_process_of_a_persons_trials_loads_no_numpy():
    code = "import sys; import warmstart.studies.execution.child; print({'numpy', 'PIL', 'warmstart.training.workloads'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
