"""The tree that docs/extending.md draws is there, and so are the files that it sends a reader to."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
CODE = {
    "bo/acquisition/cost.py": "log_expected_inverse",
    "warmstart/studies/execution/trial_process.py": "def end",
    "training/processes/supervisor.py": "def kill",
    "history_store/csv_table.py": "def read_csv",
    "warmstart/suggestions/neighbours.py": "movement",
    "warmstart/studies/state/leased_trials.py": "def renew",
    "warmstart/studies/state/trial_queue.py": "def _resume",
    "bo/surrogates/gp/metric.py": "arc",
}


def test_folders_are_there():
    tree = PAGE.split("### Where things are")[1].split("```")[1]
    above, folders = [], []
    for line in tree.splitlines():
        if found := re.match(r"( *)([a-z_]+)/", line):
            above = [*above[: len(found[1]) // 2], found[2]]
            folders.append(ROOT.joinpath(*above))
    assert len(folders) > 25
    assert [each for each in folders if not each.is_dir()] == []


def test_a_reader_is_sent_to_files_that_do_it():
    section = PAGE.split("### Find a line")[1].split("##")[0]
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", section)
    assert set(named) == set(CODE)
    for path, what in CODE.items():
        assert what in (ROOT / path).read_text(encoding="utf-8"), path
