"""The version is told alike wherever it is told; release notes begin with what a user gains."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_citation_and_release_notes_name_the_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    notes = (ROOT / "CHANGELOG.md").read_text()
    version, date = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", notes, flags=re.M)[0]
    assert version == cited["version"] == VERSION
    assert date == cited["date-released"]


def test_the_notes_begin_with_what_a_user_gains():
    notes = (ROOT / "CHANGELOG.md").read_text()
    begin = notes.split(f"## {VERSION} ")[1].splitlines()[2]
    assert begin == "What you gain:"
