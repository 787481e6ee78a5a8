"""The page that an index shows of the README has no link that only a repository can follow."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINK = re.compile(r"!?\[([^\]]+)\]\(([^)]+)\)")
page = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")["page"]


def test_links_lead_to_the_files_of_the_version():
    made = page(README, "https://example.org/warmstart/", "1.2.3")
    there = "https://example.org/warmstart/blob/v1.2.3/"
    assert len(LINK.findall(made)) == len(LINK.findall(README)) > 20
    for (words, before), (same, after) in zip(LINK.findall(README), LINK.findall(made), strict=True):
        assert same == words
        assert after == (before if before.startswith(("http", "#")) else there + before)


def test_where_the_repository_has_no_address_the_words_stay():
    made = page(README, None, "1.2.3")
    assert [link for _, link in LINK.findall(made) if not link.startswith(("http", "#"))] == []
    assert made == LINK.sub(lambda link: link[0] if link[2].startswith(("http", "#")) else link[1], README)
