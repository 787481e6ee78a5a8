"""`warmstart tune` with several datasets, as a shell sees it."""

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from warmstart.history_store.history import History
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.study_group import StudyGroup

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))


RATE = """
def rate(config, dataset):
    scale = 1 if dataset.endswith("stripes0") else 0.1
    return min(scale * abs(config["log10_learning_rate"] + 3) / 5, 1.0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(RATE)
    return tmp_path


def test_each_begins_with_its_own_warm_start_and_goes_to_the_history(cli, folder, tiny, monkeypatch, short_chains):
    own = Path(shutil.copy(tiny.history, folder / "own.h5"))
    monkeypatch.setenv("WARMSTART_HISTORY", str(own))
    monkeypatch.setenv("WARMSTART_MODEL", str(tiny.model))
    paths = [f"{tiny.history}::stripes4", f"{tiny.history}::stripes0"]
    asked = [cli("suggest", "--dataset", path, "-k", "2", "--format", "json").json()["suggestions"] for path in paths]
    command = ("tune", "-d", paths[0], "-d", paths[1], "--objective", "own:rate", "-k", "2", "--study", "s")
    run = cli(*command, "--trials", "6", "--record", "mine", "--format", "json", "-v")
    assert run.code == 0, run.err
    found = run.json()
    assert [each["dataset"] for each in found["studies"]] == paths
    assert sum(found["trials"].values()) == 6
    assert sum(sum(each["trials"].values()) for each in found["studies"]) == 6
    for designs, each in zip(asked, found["studies"], strict=True):
        assert [warm["config"] for warm in each["warm"]] == [design["config"] for design in designs]
        assert each["gain"] >= 0
    names = [each["study"] for each in found["studies"]]
    assert names == [f"s-{tiny.history.name}-stripes4", f"s-{tiny.history.name}-stripes0"]
    assert run.err.count(f"{names[0]}, trial ") >= 2
    with History.open(own) as history:
        recorded = [len(history.evaluations(name.replace("s-", "mine-", 1))) for name in names]
    assert recorded == [sum(each["trials"].values()) for each in found["studies"]]
    report = json.loads((folder / "warmstart-studies-reports" / "s" / "report.json").read_text())
    assert [len(each["all"]) for each in report["studies"]] == recorded
    with StudyGroup.open(open_store(None), names) as group:
        assert len({queue.plan.meta_feature for queue in group.queues} - {None}) == 2
    again = cli(*command, "--trials", "6", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(again.out)))
    assert [float(row["error"]) for row in rows] == [each["best"]["error"] for each in found["studies"]]
    table = cli(*command, "--trials", "6").out
    assert table.startswith("2 datasets in ")
    text = Path("warmstart-studies-reports/s/report.md").read_text()
    assert f"| {paths[0]} | {recorded[0]} |" in text
    assert f"## Study {names[0]}\n" in text
