"""The sessions of the page on tuning are what a terminal of 80 columns shows, figures apart."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from terminal import type_in

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tune.md"
TEXT = PAGE.read_text(encoding="utf-8")
COLUMNS = 80


def sessions(kind):
    """Return the commands of a kind of session, and what the page shows of each."""
    for block in re.findall(rf"<!-- {kind} -->\n```text\n(.*?)```", TEXT, re.DOTALL):
        command, *shown = block.splitlines()
        yield shlex.split(command)[2:], shown


def shape(lines):
    """Return what must stay when figures move: words without their numbers, bars and gaps."""
    text = re.sub(r"[━╸╺─]+", "─", "\n".join(lines).strip())
    return [re.sub(r"\S*\d\S*", "0", word) for word in text.split()]


@pytest.fixture
def folder(tmp_path, monkeypatch, no_pictures_in_processes):
    """Write the programs of the page and what they make; `python` means this one."""
    for name, code in re.findall(r"```(?:python|yaml)\n# (\w+\.(?:py|yaml))\n(.*?)```", TEXT, re.DOTALL):
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return tmp_path


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("command", "shown"), list(sessions("session")), ids=lambda value: value[0])
def test_a_session(command, shown, folder):
    seen = type_in(*command, columns=COLUMNS, folder=folder)
    assert seen.code == 0
    assert max(map(len, shown)) <= COLUMNS
    assert shape(seen.screen) == shape(shown)


@pytest.mark.timeout(600)
def test_a_bar_and_an_interrupt(folder):
    ((_, frame),) = sessions("frame")
    ((command, shown),) = sessions("interrupted")
    seen = type_in(*command, columns=COLUMNS, folder=folder, interrupt_at="trial 5 for")
    assert seen.code == 130
    assert not seen.is_cursor_hidden
    assert shape(seen.screen) == shape(shown)
    assert any(shape(frame) == shape(one) for one in seen.frames)
