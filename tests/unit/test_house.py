"""Rules that keep the code learnable; `scripts/house_figures.py` prints the figures."""

import ast

import pytest
from house_figures import circles, lazy_imports, product_files, small_helpers

MOST_LAZY = 465
"""Imports inside functions: each saves time at the start of a command. Lower it when some go."""
MOST_SMALL = 206
"""Private functions of one or two statements with one caller: a name more to learn, for nothing. Lower it likewise."""


@pytest.fixture(scope="module")
def files():
    return product_files()


def test_modules_do_not_import_each_other():
    assert circles() == []


def test_options_are_no_dicts_of_local_names(files):
    calls = [
        f"{file.path}:{node.lineno}"
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "locals"
    ]
    assert calls == []


def test_what_there_is_to_learn_does_not_grow(files):
    assert sum(lazy_imports(file.tree) for file in files) <= MOST_LAZY
    helpers = [name for file in files for name in small_helpers(file)]
    assert len(helpers) <= MOST_SMALL, helpers
