"""Every citation of the code and the pages is on the page of references, and nothing else is."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TAG = re.compile(r"\[([A-Z][A-Za-z]+(?:19|20)\d\d[a-z]+)\]")


def test_every_citation_is_on_the_page():
    done = subprocess.run(["git", "ls-files", "*.py", "*.md"], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        pytest.skip("the tests do not run in a checkout")
    page = ROOT / "research" / "references.md"
    used = {
        tag
        for name in done.stdout.split()
        if (file := ROOT / name) not in (page, ROOT / "CHANGELOG.md") and file.is_file()
        for tag in TAG.findall(file.read_text(encoding="utf-8"))
    }
    listed = re.findall(r"^\| \[(\w+)\] \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert used == set(listed)
