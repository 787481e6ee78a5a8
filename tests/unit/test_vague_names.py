"""Names say what things are: of all bound names at most 0.5 % are vague words, and 1 % have one as a part."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("bo", "history_store", "metafeat", "training", "warmstart")
WORDS = """
all_of asked begun came done each found given gone it kept known made one ones other others own place said seen shown
some such that them thing things this those told wanted what where who whose
"""
VAGUE = frozenset(WORDS.split())
MOST, MOST_PARTS = 0.005, 0.01


def bound_names(tree):
    """List parameters and assigned names, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def test_few_names_are_vague():
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    names = [
        (f"{path.relative_to(ROOT)}:{line}: {name}", name.strip("_").lower())
        for path in files
        if not any(parent.is_symlink() for parent in path.parents if parent != ROOT)
        for line, name in bound_names(ast.parse(path.read_text()))
    ]
    vague = [where for where, name in names if name in VAGUE]
    partly = [where for where, name in names if VAGUE & set(name.split("_"))]
    assert len(vague) <= MOST * len(names), vague
    assert len(partly) <= MOST_PARTS * len(names), partly
