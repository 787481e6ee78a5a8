"""The map of tests: which lines of the product each test reaches, also in processes that it starts.

It is made of one run of each test file under coverage, and can be interrupted: files that are done stay.
"""

import ast
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.copies import environment, in_copies, pytest_arguments
from mutation.faults import FUNCTIONS, PACKAGES, Fault, product_files, tracked

Lines = dict[str, set[int]]
"""Lines of files."""
TABLES = """
create table if not exists done (file text primary key, digest text);
create table if not exists test (id integer primary key, name text, file text, seconds real, passed int, width int);
create table if not exists reach (test int, file text, path text, lines blob);
create index if not exists by_path on reach (path);
create table if not exists about (product text);
"""
RC = """[run]
data_file = {folder}/lines
parallel = true
core = ctrace
context = ${{MUTANTS_TEST-}}
plugins = mutation.save_often
sigterm = true
patch = _exit
include =
{include}
disable_warnings = no-data-collected, module-not-measured, already-imported, trace-changed, couldnt-parse, include-ignored
"""


@dataclass(frozen=True, slots=True)
class Test:
    """A test, how long it takes, and how many lines of the product it reaches."""

    name: str
    file: str
    seconds: float
    width: int


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def product_digest(root: Path) -> str:
    """Return the SHA-256 of the product's files."""
    parts = [f"{name} {digest(root / name)}\n" for name in product_files(root)]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def test_files(root: Path) -> list[str]:
    """List the files of tests."""
    return [name for name in tracked(root) if re.fullmatch(r"tests/(.*/)?test_\w+\.py", name)]


def inner_lines(tree: ast.AST) -> set[int]:
    """Return the lines inside functions: others run at import, whoever imports first."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            lines.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    return lines


class ReachMap:
    """The map in its file, for one state of the product."""

    def __init__(self, root: Path, work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.root, self.work = root, work
        self.base = sqlite3.connect(work / "map.sqlite")
        self.base.executescript(TABLES)
        self.inner = {path: inner_lines(ast.parse((root / path).read_bytes())) for path in product_files(root)}
        self.usable = self.measured()
        product = product_digest(root)
        if not self.base.execute("select * from about").fetchone():
            self.base.execute("insert into about values (?)", [product])
            self.base.commit()
        elif self.base.execute("select product from about").fetchone()[0] != product:
            sys.exit(f"{work}: expected the map of this product, got that of another state. Name another --work.")

    def measured(self) -> set[str]:
        """Return the test files that are as they were measured."""
        known = dict(self.base.execute("select file, digest from done"))
        return {name for name in test_files(self.root) if known.get(name) == digest(self.root / name)}

    def missing(self) -> list[str]:
        """List test files that are new or have changed since they were measured."""
        measured = self.measured()
        return [name for name in test_files(self.root) if name not in measured]

    def measure(self, wanted: list[str], workers: int) -> None:
        """Run test files under coverage, each by itself, where they are not yet measured."""
        missing = [name for name in self.missing() if not wanted or name.startswith(tuple(wanted))]
        measured = in_copies(self.root, self.work, workers, missing, measure)
        for number, (name, code, output, tests, lines) in enumerate(measured, 1):
            failed = [test for test, facts in tests.items() if not facts["passed"]]
            told = f"fails by itself: {', '.join(failed)}" if failed else ""
            if code in (0, 1, 5):
                self._store(name, tests, lines)
            else:
                told = f"left out, as pytest ended with {code}:\n{output}"
            print(f"{number} of {len(missing)}: {name} {told}", flush=True)
        self.usable = self.measured()

    def _store(self, name: str, tests: dict[str, Any], lines: dict[str, Lines]) -> None:
        """Write the lines of one test file; what runs at import is no test's."""
        imports: Lines = defaultdict(set)
        with self.base:
            for table in ("done", "test", "reach"):
                self.base.execute(f"delete from {table} where file = ?", [name])
            for test, facts in tests.items():
                files: Lines = defaultdict(set)
                for label in (test, *(f"fixture {fixture}" for fixture in facts["fixtures"])):
                    for file, reached in lines.get(label, {}).items():
                        files[file] |= reached & self.inner.get(file, set())
                row = (test, name, facts["seconds"], facts["passed"], sum(map(len, files.values())))
                columns = "insert into test (name, file, seconds, passed, width) values (?, ?, ?, ?, ?)"
                self._insert(self.base.execute(columns, row).lastrowid, name, files)
            for files in lines.values():
                for file, reached in files.items():
                    imports[file] |= reached - self.inner.get(file, set())
            self._insert(0, name, imports)
            self.base.execute("insert into done values (?, ?)", [name, digest(self.root / name)])

    def _insert(self, test: int | None, name: str, files: Lines) -> None:
        rows = [(test, name, file, bits(lines)) for file, lines in files.items() if lines]
        self.base.executemany("insert into reach values (?, ?, ?, ?)", rows)

    def tests_of(self, fault: Fault) -> list[Test]:
        """List the tests that reach a fault, narrowest first, of files as they were measured.

        What runs at import is reached by tests that run a line with its name, or whose file has it; then by those that
        run its file, then by all whose files import it.
        """
        span = set(range(fault.first, fault.last + 1))
        if not fault.at_import:
            return self._ordered(dict.fromkeys(self._that_run({fault.file: span}), 0))
        by_name: set[int] = set()
        rows = self.base.execute("select distinct file from reach where path = ?", [fault.file])
        importing = {row[0] for row in rows} & self.usable
        if fault.name:
            word = re.compile(rf"\b{re.escape(fault.name)}\b")
            by_name = self._that_run({path: self._naming(path, word) for path in self.inner})
            naming = {file for file in importing if word.search((self.root / file).read_text(encoding="utf-8"))}
            by_name |= {row[0] for row in self.base.execute("select id, file from test") if row[1] in naming}
        ranks = {row[0]: 2 for row in self.base.execute("select id, file from test") if row[1] in importing}
        ranks |= dict.fromkeys(self._that_run({fault.file: self.inner.get(fault.file, set())}), 1)
        return self._ordered(ranks | dict.fromkeys(by_name, 0))

    def _naming(self, path: str, word: re.Pattern[str]) -> set[int]:
        rows = enumerate((self.root / path).read_text(encoding="utf-8").splitlines(), 1)
        return {number for number, row in rows if number in self.inner[path] and word.search(row)}

    def _that_run(self, wanted: dict[str, set[int]]) -> set[int]:
        """Return tests that run a line of those of some files."""
        tests = set()
        for path, lines in wanted.items():
            mask = int.from_bytes(bits(lines), "little")
            if mask:
                rows = self.base.execute("select test, lines from reach where path = ? and test > 0", [path])
                tests |= {test for test, blob in rows if int.from_bytes(blob, "little") & mask}
        return tests

    def _ordered(self, ranks: dict[int, int]) -> list[Test]:
        """List tests that pass by themselves, by rank and width."""
        rows = self.base.execute("select id, width, seconds, name, file from test where passed")
        chosen = sorted((ranks[row[0]], *row[1:]) for row in rows if row[0] in ranks and row[4] in self.usable)
        return [Test(name, file, seconds, width) for _, width, seconds, name, file in chosen]


def measure(name: str, tree: Path) -> tuple[str, int, str, dict[str, Any], dict[str, Lines]]:
    """Run one test file in a copy; returns its name, exit code, output, its tests, and lines by test or fixture."""
    folder = tree.parent / "lines"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    include = "\n".join(f"    {tree / package}/*" for package in PACKAGES)
    (folder / "rc").write_text(RC.format(folder=folder, include=include), encoding="utf-8")
    variables = {"COVERAGE_PROCESS_START": str(folder / "rc"), "MUTANTS_MEASURE": str(folder)}
    command = [sys.executable, *pytest_arguments(tree, "--timeout=900", name)]
    with (folder / "output").open("wb") as output:
        done = subprocess.run(command, cwd=tree, env=environment(tree) | variables, stdout=output, stderr=output)
    text = (folder / "output").read_text(encoding="utf-8", errors="replace")[-3000:]
    if not (folder / "tests.json").exists():
        return name, -1, text, {}, {}
    about = json.loads((folder / "tests.json").read_text(encoding="utf-8"))
    reached: dict[str, Lines] = defaultdict(lambda: defaultdict(set))
    for context, path, numbits in _rows(folder.glob("lines.*")):
        file = os.path.relpath(os.path.realpath(path), tree.resolve())
        number = int.from_bytes(numbits, "little")
        lines = {line for line in range(number.bit_length()) if number >> line & 1}
        reached[about["labels"][int(context or 0)]][file] |= lines
    return name, done.returncode, text, about["tests"], reached


def _rows(files: Iterable[Path]) -> Iterator[tuple[str, str, bytes]]:
    """Yield contexts, files and lines of each process; one that was killed while it wrote left a file that is broken."""
    joined = "line_bits join context on context.id = context_id join file on file.id = file_id"
    for path in files:
        with closing(sqlite3.connect(path)) as base:
            try:
                yield from base.execute(f"select context, path, numbits from {joined}").fetchall()
            except sqlite3.DatabaseError as error:
                print(f"{path}: not read: {error}", flush=True)


def bits(lines: set[int]) -> bytes:
    """Return lines as bits."""
    number = sum(1 << line for line in lines)
    return number.to_bytes(number.bit_length() // 8 + 1, "little")
