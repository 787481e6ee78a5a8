"""Every fenced console and python example of the pages runs."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from warmstart.bo.surrogates import SURROGATES
from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.history_store.readers import READERS

ROOT = Path(__file__).parents[2]
RULES = ("evaluation", "optimiser", "strategies")
"""Pages of `research/` that describe a command or a class; the others quote how figures were made."""
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *(ROOT / "research" / f"{name}.md" for name in RULES),
]
SHIPPED = ROOT / "warmstart" / "defaults"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = "python3 -m venv "
"""How a line begins that installs the product: the check in a bare environment runs it, this one runs inside an installation."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced example."""

    language: str
    text: str
    line: int


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
        if match[1] in ("console", "python", "yaml")
    ]


def commands(block):
    """Return the commands of a console block: its lines, or those after ``$`` where it shows output too."""
    lines = block.text.replace("\\\n", " ").splitlines()
    shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in shown or lines if line.strip() and not line.startswith(("#", INSTALL))]


def run_command(command, cli):
    """Run a command here where it is one of ours alone, perhaps into a file, else in bash."""
    ours, _, file = command.partition(" > ")
    if ours.startswith("warmstart ") and not re.search(r"[|<>;&$]", ours + file):
        run = cli(*shlex.split(ours, comments=True)[1:])
        assert run.code == 0, f"{command}: {run.err}"
        if file:
            Path(file).write_text(run.out, encoding="utf-8")
        return "" if file else run.out
    done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def words(text):
    """Return what must stay when figures move: the words of a text without its numbers."""
    return [word for word in re.findall(r"[^\s─│]+", text) if not re.search(r"\d", word) and word.strip("-.,")]


@pytest.fixture
def files(tiny, monkeypatch, tmp_path, trials_here):
    """Run in an empty folder, on the shipped history and model or, until there are any, on the tiny ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # python means this one
    Path("data_manifests").symlink_to(ROOT / "data_manifests")  # examples are typed in a clone
    before = [(table, set(table)) for table in (READERS, STRATEGIES, SURROGATES)]
    shipped = all((SHIPPED / name).is_file() for name in ("history.h5", "model.safetensors"))
    if not shipped:
        monkeypatch.setenv("WARMSTART_HISTORY", str(tiny.history))
        monkeypatch.setenv("WARMSTART_MODEL", str(tiny.model))
    yield shipped
    for table, names in before:  # what examples register
        for name in {"noise", "median", "quick"} & (set(table) - names):
            del table._entries[name]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "page",
    # README trains a classifier.
    [pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.name == "README.md")) for page in PAGES],
)
def test_examples_run(page, files, cli):
    names = {"__name__": "__main__"}
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if file := re.match(r"# (\w+\.(?:py|yaml))\n", block.text):  # a file that later examples use
            Path(file[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, where, "exec"), names)
        if block.language != "console":
            continue
        shown = "".join(run_command(command, cli) for command in commands(block))
        output = [line for line in block.text.splitlines() if not line.startswith("$ ")]
        if files and "$ " in block.text and output:
            assert words("\n".join(output)) == words(shown), f"{where} shows other output"


def test_pages_that_the_product_names_are_there():
    folders = ("warmstart", "training", "metafeat", "bo", "history_store", "scripts")
    files = [ROOT / "README.md", *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    named = {
        name
        for file in files
        for name in re.findall(r"\b(?:docs|research|history_store)/[\w.-]+\.md\b", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 15
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_the_documentation_stays_short():
    pages = [page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/**/*.md"))]
    assert len(pages) <= 15
    assert sum(len(page.split()) for page in pages) <= 30_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_example_needs_data_of_this_place(page):
    assert not any("shared/" in block.text or "/work/" in block.text for block in blocks(page))
