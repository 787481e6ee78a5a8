"""Prose of README and docs fits in 120 columns; ``python scripts/wrap_prose.py PAGE`` wraps it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("research/*.md")),
]
COLUMNS = 120
UNBREAKABLE = re.compile(r"\s*\||!\[|\[[^\]]+\]: |    ")
"""Rows of tables, pictures, link definitions and formulas cannot be wrapped."""


def prose(text):
    """Return the numbered lines outside of fenced examples that can be wrapped."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not UNBREAKABLE.match(line):
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_fits_the_columns(page):
    text = page.read_text(encoding="utf-8")
    assert [f"{page.name}:{n}: {len(line)}" for n, line in prose(text) if len(line) > COLUMNS] == []
