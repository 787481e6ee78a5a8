"""Compare two states of the tree: files a folder, imports between folders, the ways of a path and an option, parameters.

    python scripts/tree_table.py 217f10f          # version 0.1 beside the working tree, as a Markdown table

Ways are traced: a command runs under a profiler, and the files count whose functions were handed the value.
"""

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

PACKAGES = ("warmstart", "training", "metafeat", "bo", "history_store")
WIDEST = 10
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
    parser.add_argument("before", help="commit")
    parser.add_argument("--ways", action="store_true", help="print the files of the ways too")
    given = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder)
        archive = subprocess.run(["git", "archive", given.before], cwd=here, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        before, after = rows(old, show=given.ways), rows(here, show=given.ways)
    print("| | 0.1 | now |\n|---|---|---|")
    for name in before:
        print(f"| {name} | {before[name]} | {after[name]} |")


def rows(root: Path, *, show: bool) -> dict[str, str]:
    """Measure one tree."""
    trees = {
        path.relative_to(root): ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }
    folders = Counter(path.parent for path in trees)
    largest = ", ".join(f"`{folder}` {count}" for folder, count in folders.most_common(3))
    arrows = {package: between_folders(trees, package) for package in ("warmstart", "bo")}
    wide = sorted((parameters(node), place) for place, node in functions(trees))[-WIDEST:][::-1]
    longest = sorted((node.end_lineno - node.lineno + 1 for _, node in functions(trees)), reverse=True)
    files = {path: (root / path).read_text(encoding="utf-8").count("\n") for path in trees}
    path_way, option_way = ways(root)
    if show:
        for way in (path_way, option_way):
            print(root, *way, sep="\n  ", file=sys.stderr)
    return {
        "files, folders": f"{len(trees)}, {len(folders)}",
        "files in the three largest folders": largest,
        "imports between the files of one folder, the three largest": inside_folders(trees),
        "folders inside `bo`, imports between them": f"{n_folders(folders, 'bo')}, {len(arrows['bo'])}",
        "folders inside `warmstart`, imports between them": f"{n_folders(folders, 'warmstart')}, {len(arrows['warmstart'])}",
        "files that a dataset's path passes, from `warmstart suggest` to the answer": str(len(path_way)),
        "files that `--acquisition` passes, from `warmstart tune` to the trial": str(len(option_way)),
        "places in `warmstart` that declare the option `surrogate`": str(len(declared(trees, "surrogate"))),
        "parameters of the ten widest functions": ", ".join(str(count) for count, _ in wide),
        "the same without commands and public functions": ", ".join(map(str, inner_widest(trees))),
        "functions of more than 60 lines": str(sum(lines > 60 for lines in longest)),
        "lines; the longest file": f"{sum(files.values())}; {max(files.values())}",
    }


def n_folders(folders: Counter[Path], package: str) -> int:
    """Count the folders of a package."""
    return sum(folder.parts[0] == package for folder in folders)


def between_folders(trees: dict[Path, ast.Module], package: str) -> set[tuple[str, str]]:
    """List which folder of a package imports from which other one."""
    pairs = imports({path: tree for path, tree in trees.items() if path.parts[0] == package})
    return {(str(one.parent), str(other.parent)) for one, other in pairs if one.parent != other.parent}


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


def functions(trees: dict[Path, ast.Module]):
    """List every function with its place."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}:{node.name}", node


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count parameters without self."""
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(each.arg not in ("self", "cls") for each in given)


def inner_widest(trees: dict[Path, ast.Module]) -> list[int]:
    """Count the parameters of the widest functions that nobody outside calls."""
    public = ("warmstart/cli/", "warmstart/api.py", "warmstart/client.py", "bo/surrogates/", "bo/constraints/")
    names = {"tune", "collect", "train_siamese", "train_from_history", "warm_start", "search_table", "__init__"}
    counts = [
        parameters(node)
        for place, node in functions(trees)
        if not place.startswith(public) and place.rpartition(":")[2] not in names
    ]
    return sorted(counts, reverse=True)[:WIDEST]


def declared(trees: dict[Path, ast.Module], option: str) -> list[str]:
    """List where `warmstart` declares an option: a parameter or a field."""
    found = []
    for path, tree in trees.items():
        if path.parts[0] != "warmstart" or path.parts[1] == "testing":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                found += [f"{path}:{node.name}"] * any(each.arg == option for each in given)
            elif isinstance(node, ast.ClassDef):
                fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
                found += [f"{path}:{node.name}"] * any(isinstance(f, ast.Name) and f.id == option for f in fields)
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
