"""Print how large the code is today, as a Markdown table: `python scripts/tree_table.py [--ways]`.

With ``--ways`` two commands run under a profiler, and the files count whose functions were handed a value.
"""

import argparse
import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("warmstart", "training", "metafeat", "bo", "history_store")
JSON_SPACE = """{"name": "s", "hyperparameters": [{"type": "uniform_float", "name": "lr", "lower": 1e-05, "upper": 0.1, "default_value": 0.001, "log": true, "meta": null}], "conditions": [], "forbiddens": [], "python_module_version": "1.2.1", "format_version": 0.4}"""
TRACE = """
import dataclasses, os, sys, threading
root, value, args = sys.argv[1], sys.argv[2], sys.argv[3:]
seen = set()

def is_it(given, deep=True):
    if isinstance(given, str | os.PathLike):
        return str(given) == value
    if not deep:
        return False
    if isinstance(given, dict):
        return any(is_it(each, False) for each in given.values())
    if isinstance(given, list | tuple | set):
        return any(is_it(each, False) for each in given)
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return any(is_it(getattr(given, each.name, None), False) for each in dataclasses.fields(given))
    return False

def look(frame, event, _):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(root) or code.co_filename in seen:
        return
    n = code.co_argcount + code.co_kwonlyargcount
    if any(is_it(frame.f_locals.get(name)) for name in code.co_varnames[:n]):
        seen.add(code.co_filename)

from warmstart.cli import main
threading.setprofile(look)
sys.setprofile(look)
code = main(args)
sys.setprofile(None)
print(f"@@ {code}", *sorted(os.path.relpath(each, root) for each in seen), sep="\\n")
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", action="store_true", help="trace a dataset's path and an option of `tune`, too")
    print(table(ROOT, trace=parser.parse_args().ways))


def table(root: Path, *, trace: bool = False) -> str:
    """Return the figures of a tree as a Markdown table."""
    lines = [f"| {name} | {value} |" for name, value in rows(root, trace=trace).items()]
    return "\n".join(["| | today |", "|---|---|", *lines])


def rows(root: Path, *, trace: bool) -> dict[str, str]:
    """Measure a tree."""
    trees = {
        path.relative_to(root): ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }
    folders = Counter(path.parent for path in trees)
    largest = ", ".join(f"`{folder}` {count}" for folder, count in folders.most_common(3))
    code = {path: code_lines(root / path) for path in trees}
    tests = sum(code_lines(path) for path in (root / "tests").rglob("*.py") if path.is_file())
    long = sum(node.end_lineno - node.lineno >= 60 for tree in trees.values() for node in functions(tree))
    found = {
        "files, folders": f"{len(trees):,}, {len(folders)}",
        "lines of code, without docstrings, comments and blank lines": f"{sum(code.values()):,}",
        "the same by package": ", ".join(f"`{name}` {in_package(code, name):,}" for name in PACKAGES),
        "the same of the tests": f"{tests:,}",
        "lines of code in the longest file": str(max(code.values())),
        "functions of more than 60 lines": str(long),
        "files in the three largest folders": largest,
        "imports between the files of one folder, the three largest": inside_folders(trees),
    }
    if trace:
        path_way, option_way = ways(root)
        found["files that a dataset's path passes, from `warmstart suggest` to the answer"] = str(len(path_way))
        found["files that `--acquisition` passes, from `warmstart tune` to the trial"] = str(len(option_way))
    return found


def code_lines(path: Path) -> int:
    """Count the lines of a file that are neither blank, comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in skipped]
    code = {number for token in tokens for number in range(token.start[0], token.end[0] + 1)}
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            code -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(code)


def in_package(code: dict[Path, int], package: str) -> int:
    """Add the lines of a package."""
    return sum(lines for path, lines in code.items() if path.parts[0] == package)


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """List the functions of a file."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def inside_folders(trees: dict[Path, ast.Module]) -> str:
    """Count the imports between the files of each folder."""
    counts = Counter(str(one.parent) for one, other in imports(trees) if one.parent == other.parent)
    return ", ".join(f"`{folder}` {count}" for folder, count in counts.most_common(3))


def imports(trees: dict[Path, ast.Module]) -> set[tuple[Path, Path]]:
    """List which file imports from which other one."""
    homes = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in trees}
    homes |= {f"warmstart.{name}": path for name, path in homes.items() if path.parts[0] != "warmstart"}  # by the links
    found = set()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [*(f"{node.module}.{each.name}" for each in node.names), node.module]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            home = next((homes[name] for name in names if name in homes), path)
            if home != path:
                found.add((path, home))
    return found


def ways(root: Path) -> tuple[list[str], list[str]]:
    """Trace the files that a dataset's path and an option of `tune` pass."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rng = np.random.default_rng(0)
        labels = np.arange(60) % 3
        images = rng.integers(0, 90, (60, 16, 16, 3)) + 60 * labels[:, None, None, None]
        np.savez(place / "photos.npz", images=images.astype(np.uint8), labels=labels)
        (place / "space.json").write_text(JSON_SPACE)
        (place / "job.py").write_text("def error(config):\n    return config['lr']\n")
        data = str(place / "photos.npz")
        by_path = traced(root, place, data, "suggest", "--dataset", data, "--no-cache", "--quiet")
        call = ("tune", "--objective", "job.py:error", "--space", "space.json", "--trials", "4", "--acquisition", "lcb")
        by_option = traced(root, place, "lcb", *call, "--surrogate", "gp-map", "--storage", "s.db", "--quiet")
    return by_path, by_option


def traced(root: Path, place: Path, value: str, *args: str) -> list[str]:
    """Run a command of a tree and list the files whose functions were handed a value."""
    env = {**os.environ, "PYTHONPATH": str(root), "WARMSTART_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", TRACE, str(root), value, *args]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    _, mark, told = done.stdout.partition("@@ ")
    code, *files = told.split("\n")
    if not mark or code != "0":
        sys.exit(f"{args}: {done.stdout[-500:]}{done.stderr[-2000:]}")
    return [file for file in files if file]


if __name__ == "__main__":
    main()
