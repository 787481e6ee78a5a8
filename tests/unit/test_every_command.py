"""What runs on the lowest versions and from the wheel forgets no command and no dependency."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from warmstart.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]


def test_every_command_has_a_sample():
    samples = runpy.run_path(str(ROOT / "scripts" / "every_command.py"))["SAMPLES"]
    assert set(samples) == {f"{command.group} {command.name}".strip() for command in COMMANDS}
    assert all(samples.values())


def test_every_dependency_has_one_lowest_version():
    pytest.importorskip("packaging")
    lowest = runpy.run_path(str(ROOT / "scripts" / "lowest_versions.py"))
    found = lowest["lowest_allowed"](lowest["EXTRAS"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {re.split("[>=<]", text)[0].lower() for text in project["dependencies"]} <= set(found)
    assert all(lowest["lowest_allowed"]((extra,)) for extra in project["optional-dependencies"] if extra != "dev")


def test_the_readme_has_examples_to_run():
    examples = runpy.run_path(str(ROOT / "scripts" / "readme_commands.py"))["examples"]
    found = examples((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {kind for kind, _ in found} == {"bash", "python", "train.py", "space.yaml"}
    assert all(text.startswith("warmstart ") for kind, text in found if kind == "bash")
