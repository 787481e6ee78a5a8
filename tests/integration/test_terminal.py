"""Commands in a terminal: progress, widths, colours, Ctrl-C."""

import re
import shutil

import pytest
from rich.cells import cell_len
from terminal import type_in

from warmstart.history_store.history import History

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("no_pictures_in_processes")]

OBJECTIVE = """
import time

def objective(config, seed, report):
    for step in range(1, 7):
        time.sleep(0.1)
        report(step, 1 / step)
    return abs(config["log10_learning_rate"] + 3) / 10
"""
TUNE = ("tune", "--objective", "mine.py:objective", "--space", "compact", "--no-warm", "--budget", "6", "--trials")
BAR = re.compile(r"[━╸╺]{5}")


@pytest.fixture
def place(tiny, tmp_path):
    """Make a folder with an objective, and a copy of the tiny history."""
    (tmp_path / "mine.py").write_text(OBJECTIVE)
    shutil.copy(tiny.history, tmp_path / "mine.h5")
    return tmp_path


@pytest.fixture
def env(tiny):
    return {"WARMSTART_HISTORY": str(tiny.history), "WARMSTART_MODEL": str(tiny.model)}


def check(seen, columns):
    """Check that nothing was folded by the terminal and all is as it was before."""
    assert seen.code == 0, seen.text
    assert not seen.is_cursor_hidden
    assert "Traceback" not in seen.text
    assert not any(BAR.search(line) for line in seen.screen)  # wiped away
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.raw.decode())
    # A word that is longer than the line, a path, is better too long than cut; so is a command to copy.
    lines = [line for line in re.split(r"[\r\n]+", plain) if not re.match(r"(Tune|Train) .*: warmstart ", line)]
    assert [line for line in lines if cell_len(line) > columns and " " in line.strip()] == []


def bars(seen):
    """Return the lines of progress in the order in which they were seen."""
    return ["\n".join(frame) for frame in seen.frames if any(BAR.search(line) for line in frame)]


@pytest.mark.slow
def test_train(place, env):
    args = ("--history", "mine.h5", "--out", "m.safetensors", "--extractor", "adf", "--steps", 60, "--hold-out-group")
    seen = type_in("fit-similarity", *args, "group0", folder=place, env=env)
    check(seen, 80)
    assert any("training" in frame and "loss" in frame for frame in bars(seen))


@pytest.mark.slow
def test_collect(place, env):
    args = ("--history", "mine.h5", "--configs", 1, "--workers", 1, "--timeout", 60)
    with History.open(place / "mine.h5", write=True) as history:
        for name in history.names[1:]:
            history.remove_dataset(name)
    seen = type_in("history", "collect", *args, folder=place, env=env)
    check(seen, 80)
    assert any(re.search(r"stripes0, configuration 0", frame) for frame in bars(seen))


def test_every_number_of_an_answer_is_whole(tiny, cli):
    query = ("suggest", "--dataset", "sklearn:digits", "--history", tiny.history, "--model", tiny.model)
    seen = type_in(*query)
    check(seen, 80)
    number = re.compile(r"(?<![\w.])\d+\.\d+(?:e-\d+)?(?![\w])")
    assert set(number.findall(seen.text)) == set(number.findall(cli(*query).out))
    (head,) = [line for line in seen.screen if "learning_rate" in line]
    assert "dropout_rate" not in head  # it is turned


def test_a_dumb_terminal_gets_no_escapes(place, env):
    seen = type_in(*TUNE, 1, folder=place, env=env | {"TERM": "dumb"})
    check(seen, 80)
    assert b"\x1b" not in seen.raw
    assert bars(seen) == []


def test_long_lists_leave_columns_out_and_say_so():
    seen = type_in("history", "list", columns=60)
    check(seen, 60)
    left_out = seen.text.replace("\n", " ").partition("Left out for want of room: ")[2]
    assert left_out.startswith("n_test, ")
    wide = type_in("history", "list", columns=90).text
    assert "group" in wide.partition("Left out")[0], "--exclude-group asks for it"
    full = type_in("history", "list", "-v", columns=60)
    check(full, 60)
    assert "n_train" in full.text
