"""Where studies put their reports and logs: nothing of another kind is overwritten, and no two studies share a folder."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace
from objectives import value
from PIL import Image

import warmstart
from warmstart.history_store.errors import MissingPathError, StorageError, UsageError
from warmstart.studies.execution.joined_log import TITLE as TRIAL_TITLE
from warmstart.studies.output_paths import (
    check_distinct,
    check_log,
    check_report_path,
    study_folder,
)

SPACE = ConfigurationSpace({"x": (0.0, 1.0)})


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("r.md", "#!/bin/sh\n"),
        ("r.md", "# Notes of mine\n"),
        ("r.json", "{}"),
        ("r.json", "[1"),
        ("r.html", "<!doctype html>\n<p>mine"),
    ],
)
def test_a_report_replaces_nothing_but_a_report(file, text):
    Path(file).write_text(text)
    with pytest.raises(UsageError, match=f"^report: expected a new file, or .*report.* to replace, got {file}, which is something else"):  # fmt: skip
        check_report_path("r.md")
    assert Path(file).read_text() == text
    Path(file).write_text("")
    check_report_path("r.md")


def test_a_report_is_replaced_by_the_next_one():
    for trials in (1, 2):
        asked = {"objective": value, "space": SPACE, "warm": "none", "trials": trials}
        assert warmstart.tune(**asked, study="s", report="r.md").report == "r.md"
    assert json.loads(Path("r.json").read_text())["trials"] == {"ok": 2}


@pytest.mark.parametrize("check", [check_log, check_report_path])
def test_a_place_that_is_read_only_is_told_before_any_trial(check, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(StorageError, match=r"expected a place that can be written, got a\.md, which is read-only\. Name another file"):  # fmt: skip
        check("a.md")
    with pytest.raises(MissingPathError, match=r"expected a file in a folder that is there, got none/a\.md"):
        check("none/a.md")


def test_a_log_is_appended_to_no_script():
    Path("obj.py").write_text("def objective(config): ...\n")
    with pytest.raises(UsageError, match=r"^log: expected a new file, or a log to append to, got obj\.py, which is something else\. Name a"):  # fmt: skip
        check_log("obj.py")
    Path("notes.txt").write_text("of a person")
    Path("of.trials").write_text(f"{TRIAL_TITLE}s, trial 0 ==\n")
    Path("empty.py").touch()
    for path in ("notes.txt", "of.trials", "empty.py", "new.py", os.devnull):
        check_log(path)


def test_studies_whose_names_differ_in_signs_only_have_folders_of_their_own():
    asked = {"objective": value, "space": SPACE, "warm": "none", "trials": 1, "report": True}
    calls = [("a b", "r.db"), ("a-b", "r.db"), ("a b", "r.journal"), ("a b", "r.db"), ("a-b", "r.db")]
    places = [Path(warmstart.tune(**asked, study=study, storage=storage).report) for study, storage in calls]
    assert [place.parent.name for place in places] == ["a-b", "a-b-2", "a-b-3", "a-b", "a-b-2"]
    assert [json.loads(p.with_suffix(".json").read_text())["study"] for p in places[:3]] == ["a b", "a-b", "a b"]


def test_studies_together_share_a_folder_with_no_others():
    folder = study_folder(Path("r.db"), "a-and-1-more", ["a", "b"])
    folder.mkdir(parents=True)
    entries = [{"study": name, "all": [], "settings": {}} for name in ("b", "a")]
    (folder / "report.json").write_text(json.dumps({"storage": "r.db", "studies": entries}))
    assert study_folder(Path("r.db"), "a-and-1-more", ("a", "b")) == folder
    for others in (["a", "c"], ["a", "b", "c"], []):
        assert study_folder(Path("r.db"), "a-and-1-more", others).name == "a-and-1-more-2"


def test_the_log_beside_a_report_is_no_storage(tmp_path):
    with pytest.raises(
        UsageError, match=r"^report: expected a file of its own, got trials\.log, which `storage` takes"
    ):
        check_distinct(storage=Path("trials.log"), log=None, report="report.md")
    check_distinct(storage=Path("trials.log"), log="other.log", report="report.md")
    check_distinct(storage=Path("trials.log"), log=None, report=tmp_path / "elsewhere" / "report.md")


def test_a_report_is_written_of_a_folder_whose_name_is_no_text(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    folder = os.fsdecode(b"ph\xffotos")
    for number in range(12):
        place = Path(folder, "ab"[number % 2])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 100 * (number % 2) + number, np.uint8)).save(place / f"{number}.png")
    found = warmstart.tune(folder, space="compact", warm="none", budget=2, device="cpu", trials=1, report="r.md")
    assert json.loads(Path("r.json").read_text())["dataset"] == found.dataset == folder
    assert r"ph\udcffotos" in Path("r.md").read_text()


def test_a_damaged_report_is_of_the_study_that_asks():
    folder = study_folder(Path("r.db"), "s")
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("{")
    assert study_folder(Path("r.db"), "s") == folder


def test_a_storage_is_no_place_for_anything_else():
    for place in ({"log": "s.db"}, {"save_model": "s.db"}):  # it need not be there yet
        (param,) = place
        with pytest.raises(
            UsageError, match=rf"^{param}: expected a file of its own, got s\.db, which `storage` takes"
        ):
            check_distinct(storage=Path("s.db").absolute(), report=True, **place)
    check_distinct(storage=None, report="s.db")


@pytest.mark.parametrize(
    ("places", "param"),
    [
        ({"log": "a.md", "report": "a.md"}, "report"),
        ({"log": "a.html", "report": "a.md"}, "report"),
        ({"report": "a.md", "save_model": "./a.json"}, "save_model"),
    ],
)
def test_no_two_outputs_are_one_file(places, param):
    with pytest.raises(UsageError, match=rf"^{param}: expected a file of its own, got a\.\w+, which `\w+` takes too"):
        check_distinct(**places)
    check_distinct(log="a.log", report=True, save_model="a.safetensors")
