"""Where studies put their reports and logs: nothing of another kind is overwritten, and no two studies share a folder."""

import json
import os
from pathlib import Path

import pytest

from warmstart.history_store.errors import MissingPathError, StorageError, UsageError
from warmstart.studies.execution.joined_log import TITLE as TRIAL_TITLE
from warmstart.studies.output_paths import (
    check_distinct,
    check_log,
    check_report_path,
    study_folder,
)


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


def test_studies_together_share_a_folder_with_no_others():
    folder = study_folder(Path("r.db"), "a-and-1-more", ["a", "b"])
    folder.mkdir(parents=True)
    entries = [{"study": name, "all": [], "settings": {}} for name in ("b", "a")]
    (folder / "report.json").write_text(json.dumps({"storage": "r.db", "studies": entries}))
    assert study_folder(Path("r.db"), "a-and-1-more", ("a", "b")) == folder
    for others in (["a", "c"], ["a", "b", "c"], []):
        assert study_folder(Path("r.db"), "a-and-1-more", others).name == "a-and-1-more-2"


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
