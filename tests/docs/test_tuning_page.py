"""The commands of the page on tuning that need its files."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "tune.md").read_text(encoding="utf-8")
RESULTS = (DOCS / "studies.md").read_text(encoding="utf-8")


@pytest.mark.timeout(600)
def test_the_study_of_the_page_goes_on(tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL):
        Path(name).write_text(code)
    (space,) = re.findall(r"```python\n([^`]*?space\.json.*?)```", PAGE, re.DOTALL)
    exec(space, {})
    first, second = re.findall(r"^warmstart (tune --objective .*)$", PAGE, re.MULTILINE)
    run = cli(*first.split())
    assert run.code == 0, run.err
    assert "train-objective in" in run.out
    run = cli(*second.split())
    assert run.code == 0, run.err
    found = json.loads(run.out)
    assert found["trials"] == {"ok": 12}
    assert found["best"]["error"] < 0.2
    assert set(found["best"]["natural"]) == {"learning_rate"}
    assert set(re.findall(r"^\| `(\w+)`", RESULTS.split("With `--format json`:")[1].split("**Was it")[0], re.MULTILINE)) - {"plan", "unfinished"} <= set(found)  # fmt: skip
    report = Path(found["report"])
    assert report.read_text().startswith("# Study train-objective")
    assert report.with_suffix(".html").read_text().count("<img ") > 2
