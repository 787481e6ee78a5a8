import re
import sys
from pathlib import Path

import pytest

from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.command import CommandObjective
from warmstart.studies.objectives.load import load_objective

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tune.md").read_text(encoding="utf-8")
NAMES = ("log10_learning_rate", "alpha")
CONFIG = {"log10_learning_rate": -2.0, "alpha": 1e-4}


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """Write the files that the page shows."""
    for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)


def test_the_function_and_the_command_of_the_page_measure_the_same(scripts):
    (command,) = re.findall(r'`--command "(python .*?)"`', PAGE)
    with TrialRunner(load_objective("train:objective", names=NAMES)) as runner:
        function = runner.run(CONFIG, seed=3)
    with TrialRunner(CommandObjective(command.replace("python", sys.executable, 1), NAMES)) as runner:
        program = runner.run(CONFIG, seed=3)
    assert function.status == program.status == "ok"
    assert function.error == program.error < 0.2
    assert program.constraints == {"good enough": 0.0}
    assert [step for step, _ in function.curve] == list(range(1, 11))
    assert function.curve == program.curve


def test_the_page_names_every_status():
    assert {status for status in TrialStatus if f"`{status}`" not in PAGE} == {TrialStatus.OK}
