"""Print how much of the project there is to learn; tests/unit/test_house.py holds the limits.

python scripts/house_figures.py
"""

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grimp
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[1]
PRODUCT = ("bo", "history_store", "metafeat", "training", "warmstart")
SPACE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class File:
    """A Python file: its path from the root, and its syntax tree."""

    path: str
    tree: ast.Module


def python_files(folder: str) -> list[str]:
    """List the Python files of a folder by their paths from the root; links to folders are not followed."""
    paths = (path for path in (ROOT / folder).rglob("*.py") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def product_files() -> list[File]:
    """Read the files of the product."""
    names = [name for folder in PRODUCT for name in python_files(folder)]
    return [File(name, ast.parse((ROOT / name).read_bytes())) for name in names]


def code_lines(name: str) -> int:
    """Count the lines of a file that hold code: no docstrings, comments or blanks."""
    path = ROOT / name
    with tokenize.open(path) as file:
        lines = {
            line
            for token in tokenize.generate_tokens(file.readline)
            if token.type not in SPACE
            for line in range(token.start[0], token.end[0] + 1)
        }
    return len(lines - docstring_lines(ast.parse(path.read_bytes())))


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the lines of texts that stand alone."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def circles() -> list[list[str]]:
    """List groups of modules that import each other, counting imports inside functions and those for types."""
    graph = grimp.build_graph("warmstart", exclude_type_checking_imports=False)
    modules = sorted(graph.modules)
    number = {name: row for row, name in enumerate(modules)}
    # A package "imports" whatever its __init__ imports, but its modules do not import the package by being in it.
    ties = [
        (number[name], number[other]) for name in modules for other in graph.find_modules_directly_imported_by(name)
    ]
    rows, columns = np.array(ties).T
    matrix = coo_array((np.ones(len(ties)), (rows, columns)), shape=(len(modules), len(modules)))
    _, labels = connected_components(matrix, directed=True, connection="strong")
    sizes = Counter(labels.tolist())
    return [[modules[row] for row in np.flatnonzero(labels == label)] for label, size in sizes.items() if size > 1]


def lazy_imports(tree: ast.AST) -> int:
    """Count the import statements inside functions."""
    inside = {
        statement
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS)
        for statement in ast.walk(node)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    }
    return len(inside)


def small_helpers(file: File) -> Iterator[str]:
    """List private functions of a module with one caller in it and fewer than three statements."""
    uses = Counter(node.id for node in ast.walk(file.tree) if isinstance(node, ast.Name))
    for node in file.tree.body:
        if isinstance(node, FUNCTIONS) and node.name.startswith("_") and not node.decorator_list:
            body = node.body[1:] if ast.get_docstring(node) else node.body
            statements = sum(isinstance(part, ast.stmt) for each in body for part in ast.walk(each))
            if uses[node.name] == 1 and statements < 3:
                yield f"{file.path}:{node.name}"


def main() -> None:
    """Print the figures."""
    files = product_files()
    docs = sorted((ROOT / "docs").glob("*.md"))
    figures = {
        "files of the product": len(files),
        "lines of code in them": sum(code_lines(file.path) for file in files),
        "lines of code in tests": sum(code_lines(name) for name in python_files("tests")),
        "circles of imports": len(circles()),
        "imports inside functions": sum(lazy_imports(file.tree) for file in files),
        "private functions of one or two statements with one caller": sum(
            len([*small_helpers(file)]) for file in files
        ),
        "pages of the documentation": len(docs),
        "words in them": sum(len(path.read_text(encoding="utf-8").split()) for path in docs),
    }
    for name, figure in figures.items():
        print(f"{figure:8,}  {name}")


if __name__ == "__main__":
    main()
