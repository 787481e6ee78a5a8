"""The tree that docs/extending.md draws is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def test_folders_are_there():
    tree = PAGE.split("### Where things are")[1].split("```")[1]
    above, folders = [], []
    for line in tree.splitlines():
        if found := re.match(r"( *)([a-z_]+)/", line):
            above = [*above[: len(found[1]) // 2], found[2]]
            folders.append(ROOT.joinpath(*above))
    assert len(folders) > 25
    assert [each for each in folders if not each.is_dir()] == []
