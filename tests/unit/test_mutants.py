"""`scripts/mutants.py`: faults by kind, drawn by a seed; the outcome of runs; a toy project from map to report."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import mutants
import pytest
from mutation.faults import Source, draw, follow, statements

pytest.importorskip("coverage", reason="needs coverage: pip install -e '.[dev]'")
ROOT = Path(__file__).parents[2]


def faulty(code: str) -> dict[str, set[str]]:
    """Return the lines that each kind of fault makes of code."""
    source, lines = Source(code.encode()), {}
    for node, function in statements(source.tree.body):
        for edit in filter(source.is_fault, source.edits(node, function)):
            changed = source.text[: edit.start] + edit.after + source.text[edit.end :]
            row = source.text.count(b"\n", 0, edit.start)
            lines.setdefault(edit.kind, set()).add(changed.decode().splitlines()[row].strip())
    return lines


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("f(a < b)", "comparison", {"f(a <= b)"}),
        ("f((a) is  not (b))", "comparison", {"f((a) is (b))"}),
        ("f(a in b == c)", "comparison", {"f(a not in b == c)", "f(a in b != c)"}),
        ("if a and b or c: f()", "boolean", {"if a or b or c: f()", "if a and b and c: f()"}),
        ("f(not (a or b))", "not", {"f((a or b))"}),
        ("f(3)", "constant", {"f(2)", "f(4)", "f(6)"}),
        ("f(0.5)", "constant", {"f(-0.5)", "f(1.0)", "f(1.5)"}),
        ("f(x=True)", "constant", {"f(x=False)"}),
        ("f('gp')", "constant", {"f('gp_')"}),
        ("f(a + b * c)", "arithmetic", {"f(a - b * c)", "f(a + b / c)"}),
        ("a //= b", "arithmetic", {"a *= b"}),
        ("f(a, g(b), c=c)", "arguments", {"f(g(b), a, c=c)"}),
        ("f('é', a < b)", "comparison", {"f('é', a <= b)"}),
        ("f()", "line", {"pass"}),
        ("def f():\n    return 1 if a else b", "line", {"return None"}),
        ("raise ValueError(msg) from error", "line", {"pass"}),
        ("def f(x):\n    x.y = 1", "line", {"pass"}),
        ("def f():\n    x = a\n    x = b", "line", {"pass"}),
    ],
)
def test_each_kind(code, kind, expected):
    assert faulty(code)[kind] == expected


@pytest.mark.parametrize(
    "code",
    [
        '"""Sum 3 < 4."""',
        'def f():\n    """Sum 3 < 4."""',
        'X: "int"',
        "def f(x: Literal['a'] = None) -> 'int': ...",
        "Kind = Literal['a', 'b']",
        "__all__ = ['f']",
        "if TYPE_CHECKING:\n    f(3)",
        "import a",
        "x = a",
        "x = 'some words for people'",
        "x = f'{a:>3}'",
    ],
)
def test_docstrings_types_and_prose_stay(code):
    assert faulty(code) == {}


def test_text_of_errors_and_logs_stays():
    assert faulty("raise ValueError('no', a)") == faulty("log.info('no', a)") == {"line": {"pass"}}


def project(folder: Path) -> Path:
    """Write a small project; its package is imported through a link, and one function runs in a process alone."""
    for name, text in {
        "bo/__init__.py": "",
        "bo/calc.py": "LIMIT = 3\n\n\ndef small(n):\n    return n < LIMIT\n\n\ndef idle(n):\n    return n + 1\n\n\n"
        "def loose(n):\n    n.append(1)\n\n\ndef child(n):\n    print(n - 1)\n",
        "warmstart/__init__.py": "",
        "tests/test_calc.py": "import subprocess, sys\nfrom warmstart.bo.calc import loose, small\n\n\n"
        "def test_small():\n    assert small(2) and not small(3) and not small(4)\n\n\n"
        "def test_loose():\n    loose([])\n\n\ndef test_fails_by_itself():\n    assert small(9)\n\n\n"
        "def test_child():\n    code = 'from warmstart.bo.calc import child; child(1)'\n"
        "    assert subprocess.check_output([sys.executable, '-c', code]) == b'0\\n'\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "warmstart" / "bo").symlink_to("../bo")
    for args in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *args], cwd=folder, check=True)
    return folder


def test_the_same_seed_draws_the_same_faults(tmp_path):
    root = project(tmp_path)
    assert draw(root, "A", 5) == draw(root, "A", 5)
    assert draw(root, "A", 3) == draw(root, "A", 5)[:3]
    assert len({tuple(draw(root, seed, 5)) for seed in "ABCDEF"}) > 1
    assert {fault.file for fault in draw(root, "A", 5)} == {"bo/calc.py"}


def test_faults_are_followed_into_a_later_tree(tmp_path):
    root = project(tmp_path)
    faults, path = draw(root, "A", 5), root / "bo" / "calc.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(f"# Moved by a line.\n{text}", encoding="utf-8")
    followed = follow(root, faults)
    assert [fault.key for fault in followed] == [fault.key for fault in faults]
    assert [fault.line for fault in followed] == [fault.line + 1 for fault in faults]
    assert all(fault.apply(path.read_bytes()) for fault in followed)
    path.write_text(text * 2, encoding="utf-8")
    assert follow(root, faults) == faults, "each line is there twice"


def test_a_fault_applies_to_its_file_alone(tmp_path):
    root = project(tmp_path)
    text = (root / "bo/calc.py").read_bytes()
    for fault in draw(root, "A", 5):
        changed = fault.apply(text)
        assert changed != text
        ast.parse(changed)
        assert fault.apply(text + b"#") is None


def run(*args: object) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/mutants.py", *map(str, args)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_from_the_map_to_the_report(tmp_path):
    root, work = project(tmp_path / "toy"), tmp_path / "work"
    assert "fails by itself: tests/test_calc.py::test_fails_by_itself" in run("--root", root, "--work", work, "--map")
    code = Source((root / "bo/calc.py").read_bytes())
    drawn = {fault.line: fault for fault in draw(root, "A", 9)}
    (work / "all.json").write_text(json.dumps([mutants.asdict(fault) for fault in drawn.values()]))
    shown = run("--root", root, "--work", work, "--faults", work / "all.json", "--workers", 2)
    rows = {row["key"]: row for row in mutants.read(work / "all.jsonl")}
    results = {line: rows[fault.key]["result"] for line, fault in drawn.items()}
    assert code.text.splitlines()[8].strip() == b"return n + 1"
    assert results == {1: "failed", 5: "failed", 9: "not reached", 13: "survived", 17: "failed"}
    assert rows[drawn[17].key]["test"] == "tests/test_calc.py::test_child"
    assert "found: 60.0% ± 21.9% of 5" in shown
    assert run("--root", root, "--work", work, "--faults", work / "all.json") in shown
    assert len(mutants.read(work / "all.jsonl")) == 5
    assert sorted(path.name for path in root.rglob("*.pyc")) == []


@pytest.mark.parametrize(
    ("code", "log", "result"),
    [
        (0, [{"test": "a", "failed": False, "text": ""}], "survived"),
        (5, [], "survived"),
        (1, [{"test": "a", "failed": True, "text": "assert 1 == 2"}], "failed"),
        (1, [{"test": "a", "failed": True, "text": "Failed: Timeout (>30.0s) from pytest-timeout."}], "hang"),
        (None, [], "hang"),
        (2, [], "import"),
        (-11, [], "crash"),
        (2, [{"test": "a", "failed": False, "text": ""}], "crash"),
    ],
)
def test_outcomes(code, log, result):
    assert mutants.outcome_of(code, log)["result"] == result


def test_two_results_are_compared_by_pairs():
    old = [{"key": str(n), "shown": f"fault {n}", "result": "failed"} for n in range(10)]
    new = [row | {"result": "survived"} if row["key"] < "5" else row for row in old]
    assert "not lower" in mutants.comparison(old, old)
    shown = mutants.comparison(old, [*new, {"key": "x", "shown": "", "result": "gone"}])
    assert "new - old: -50.0% ± 33.3% (two standard errors, paired): lower by more than two" in shown
    assert shown.count("  fault ") == 5
