"""No function is longer than 64 lines or has more than 8 parameters, but those named here, each with its reason."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES, MOST_PARAMETERS = 64, 8

COMMAND = "a command: its parameters are its options"
PUBLIC = "a public function: keywords, handed on as one record"
SURROGATE = "a public constructor: hyperparameters by name, each documented"
ALLOWED = {
    "warmstart/client.py:Client.record": PUBLIC,
    "warmstart/integrations/optuna/sampler.py:WarmStartSampler.__init__": PUBLIC,
    "warmstart/integrations/optuna/warm_trials.py:warm_start": PUBLIC,
    "training/collection/collect.py:collect": PUBLIC,
    "training/siamese/from_history.py:train_from_history": PUBLIC,
    "training/siamese/train.py:train_siamese": PUBLIC,
    "bo/optimizer.py:Optimizer.__init__": "a public constructor: checks, then one record of settings; most lines are its arguments' text",
    "bo/search.py:search_table": PUBLIC,
    "bo/constraints/network_classifier.py:NetworkClassifier.__init__": SURROGATE,
    "bo/surrogates/bohamiann/model.py:Bohamiann.__init__": SURROGATE,
    "bo/surrogates/dngo/model.py:DNGO.__init__": SURROGATE,
    "bo/surrogates/gp/model.py:GaussianProcess.__init__": SURROGATE,
    "bo/surrogates/gp/multitask.py:MultiTaskGaussianProcess.__init__": SURROGATE,
    "warmstart/cli/collect.py:collect": COMMAND,
    "warmstart/cli/evaluate.py:evaluate": COMMAND,
    "warmstart/cli/evaluations.py:add": COMMAND,
    "warmstart/cli/tune.py:tune": COMMAND,
}


def functions(tree: ast.AST, owner: str = ""):
    """List functions with the names of the classes around them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{owner}{node.name}", node
            yield from functions(node, f"{owner}{node.name}.")
        else:
            yield from functions(node, owner)


def size(node) -> tuple[int, int]:
    """Count lines, and parameters without self."""
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return node.end_lineno - node.lineno + 1, len([each for each in given if each.arg not in ("self", "cls")])


@pytest.fixture(scope="module")
def large():
    found = {}
    for package in ("warmstart", "training", "bo"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, node in functions(ast.parse(path.read_text(encoding="utf-8"))):
                lines, parameters = size(node)
                if lines > MOST_LINES or parameters > MOST_PARAMETERS:
                    found[f"{path.relative_to(ROOT).as_posix()}:{name}"] = (lines, parameters)
    return found


def test_functions_are_small(large):
    assert {name: large[name] for name in large.keys() - ALLOWED.keys()} == {}


def test_no_reason_outlives_its_function(large):
    assert sorted(ALLOWED.keys() - large.keys()) == []


def test_public_functions_have_little_of_their_own(large):
    """What is allowed for its parameters has few statements: it checks, makes a record and hands it on."""
    for place in (name for name, reason in ALLOWED.items() if reason == PUBLIC):
        path, _, name = place.partition(":")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        node = next(node for found, node in functions(tree) if found == name)
        assert len(node.body) <= 16, place
