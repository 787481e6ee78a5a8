"""Errors name arguments; options are spelled by the command line alone."""

import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

import warmstart
from warmstart.cli.errors import error_text, is_option, option_of
from warmstart.history_store import errors
from warmstart.history_store.errors import BrokenImagesError, UsageError, WarmstartError

ROOT = Path(warmstart.__file__).parents[1]
BELOW = [
    path
    for package in ("warmstart", "training", "metafeat", "bo", "history_store")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.relative_to(ROOT).parts[:2] != ("warmstart", "cli") and path.name != "study_commands.py"
]
"""All but the command line, and the module that writes the command lines of studies."""
KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, WarmstartError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_shows_the_argument_in_python_and_the_option_on_the_command_line(kind):
    if kind is BrokenImagesError:
        return
    error = kind("expected one of a, b, got 'c'. Leave it out.", param="exclude_group")
    assert str(error) == "exclude_group: expected one of a, b, got 'c'. Leave it out."
    assert error_text(error) == "--exclude-group: expected one of a, b, got 'c'. Leave it out."
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.params, again.message) == (str(error), ("exclude_group",), error.message)


def test_arguments_that_a_message_speaks_of_are_spelled_and_other_words_are_not():
    error = UsageError("expected `c` errors with `space` or `save_model`, `warmstart train` made none.", param="k")
    assert error_text(error) == "-k: expected `c` errors with --space or --save-model, `warmstart train` made none."


@pytest.mark.parametrize("message", ["needs `dataset`.", "cannot be used with `dataset`."])
def test_arguments_that_need_or_exclude_each_other_make_one_sentence(message):
    error = UsageError(message, param="labels_column")
    assert str(error) == f"labels_column {message}"
    assert error_text(error) == f"--labels-column {message.replace('`dataset`', '--dataset')}"


def test_several_arguments_at_fault_are_all_named():
    error = UsageError("expected both, got one.", param=("cpus_per_trial", "gpus_per_trial"))
    assert str(error) == "cpus_per_trial, gpus_per_trial: expected both, got one."
    assert error_text(error) == "--cpus-per-trial, --gpus-per-trial: expected both, got one."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("suggest",), "--labels"),
        (("suggest", "photos"), "--labels"),
        (("history", "collect"), "labels"),  # it has no such option: labels stand in `photos::labels=labels.csv`
        (None, "--labels"),
    ],
)
def test_an_option_is_named_only_where_the_command_has_it(words, said):
    assert error_text(UsageError("expected a CSV file, got nothing.", param="labels"), words).startswith(
        f"{said}: expected"
    )


def test_an_argument_without_an_option_is_named_as_the_help_names_it():
    error = UsageError("expected a folder, got nothing.", param="dataset")
    assert error_text(error, ("suggest", "photos")) == "--dataset: expected a folder, got nothing."
    error = UsageError("expected a history, got nothing.", param="history")
    assert error_text(error, ("history", "add", "gone.h5")) == "HISTORY: expected a history, got nothing."


def test_errors_without_arguments_are_as_they_were():
    assert str(UsageError("x")) == "x" == error_text(UsageError("x"))
    assert str(UsageError()) == ""
    assert error_text(ZeroDivisionError("y")) == "y"


def without_flags(node):
    """Walk a tree but for the flags of options."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.keyword) and child.arg == "flags"):
            yield child
            yield from without_flags(child)


def test_no_text_below_the_command_line_opens_with_an_option():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value[:60]}"
        for path in BELOW
        for node in without_flags(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"--[a-z]|-k\b", node.value)
    ]
    assert found == []


def test_no_error_below_the_command_line_speaks_of_an_option():
    """What is raised is a name ``msg`` in this code; options stand in it only as part of a whole command, in backquotes."""
    found = []
    for path in BELOW:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "msg":
                text = "".join(
                    part.value if isinstance(part, ast.Constant) else "x"
                    for part in (node.value.values if isinstance(node.value, ast.JoinedStr) else [node.value])
                    if not isinstance(part, ast.Constant) or isinstance(part.value, str)
                )
                if re.search(r"(?<![\w-])--[a-z]", re.sub(r"`[^`]*`", "", text)):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert found == []


def test_every_argument_that_an_error_names_is_an_option_of_a_command():
    named = {
        value.value
        for path in BELOW
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "param"
        for value in ast.walk(node.value)
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }
    assert len(named) > 30
    of_the_service = {name for name in named if name == "number" or name.partition("/")[0] == "descriptor"}
    of_python = {
        "chance",
        "time_budget",
    }  # of `HistoryPruner` and `warmstart.collect`: commands call them otherwise, or not
    assert {name for name in named - of_the_service - of_python if not is_option(option_of(name))} == set()
