import functools
import sys

import pytest

from warmstart.history_store.errors import UsageError
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.base import Pruned
from warmstart.studies.objectives.function import FunctionObjective
from warmstart.studies.objectives.load import load_objective


def report(step, error):
    raise Pruned


def called(function, dataset="photos"):
    objective = FunctionObjective(function, dataset)
    objective.prepare()
    return objective({"x": 1}, seed=7, budget=3.0, report=report)


class Trainer:
    def __call__(self, configuration, budget):
        return configuration, budget


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda config: config, {"x": 1}),
        (lambda params, /, seed: (params, seed), ({"x": 1}, 7)),
        (
            lambda configuration, dataset, budget, reporter, seed: (configuration, dataset, budget, reporter, seed),
            ({"x": 1}, "photos", 3.0, report, 7),
        ),
        (lambda c, *, report, epochs=5: (c, report, epochs), ({"x": 1}, report, 5)),
        (
            lambda config, **others: (config, others),
            ({"x": 1}, {"dataset": "photos", "budget": 3.0, "reporter": report, "seed": 7}),
        ),
        (functools.partial(lambda depth, config: (depth, config), 4), (4, {"x": 1})),
        (Trainer(), ({"x": 1}, 3.0)),
    ],
)
def test_a_function_gets_what_its_signature_takes(function, given):
    assert called(function) == given


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda config, epochs: 0,
            r"^objective: expected a function of configuration, .*, which needs 'epochs'\. Take ",
        ),
        (lambda: 0, r"^objective: expected a function that takes a configuration, got .* with the parameters \(\)"),
    ],
)
def test_a_function_that_asks_for_something_else(function, message):
    with pytest.raises(UsageError, match=message):
        called(function)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Make a folder of somebody's own, whose modules have names that are taken elsewhere."""
    (tmp_path / "code").mkdir()
    (tmp_path / "train.py").write_text(
        "from colorsys import mine\n"
        "class Model:\n    @staticmethod\n    def fit(config, dataset): return {'error': config['x'] + mine, 'n': len(dataset)}\n"
        "constant = 3\n"
    )
    (tmp_path / "colorsys.py").write_text("mine = 0.5")
    (tmp_path / "code" / "deep.py").write_text("def objective(config): return config['x']")
    (tmp_path / "lacks.py").write_text("import surely_not_installed")
    (tmp_path / "wrong.py").write_text("def objective(config) return 1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_is_imported_in_the_child_alone_with_its_folder_first(project):
    objective = load_objective("train:Model.fit", names=["x"], dataset="photos")
    with TrialRunner(objective) as runner:
        outcome = runner.run({"x": 0.25}, seed=0)
    assert (outcome.error, outcome.metrics) == (0.75, {"n": 6.0})
    assert "train" not in sys.modules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing:objective", r"^objective: expected a module that can be imported from .*, got 'nothing' \(no module 'nothing'\)"),
        ("train:objective", r"^objective: expected a function of .*train.py, got 'objective', which it has not"),
        ("train:constant", r"^objective: expected a function, got 'train:constant', which is a int"),
        ("wrong:objective", r"^objective: expected one that loads, got SyntaxError: expected ':'"),
        ("train", r"^objective: expected module:function or folder/file.py:function, got 'train'. Write"),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_called(project, text, message):
    with pytest.raises(UsageError, match=message), TrialRunner(load_objective(text, names=["x"])):
        pass
