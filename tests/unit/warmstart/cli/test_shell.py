"""The progress bar on a terminal."""

import io
import json
import os
import sys

import pytest

from warmstart.cli.shell import Shell


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_goes_wrong_before_the_first_step_is_not_hidden_by_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(KeyboardInterrupt), Shell("table").progress("collecting"):
        raise KeyboardInterrupt
    assert "collecting" in terminal.getvalue()


NAME = os.fsdecode(b"nu\xff") + "\x1b[2J\x9bm é"
"""A file name that is no UTF-8, with what clears a screen."""


@pytest.mark.parametrize("form", ["table", "json", "yaml", "csv"])
def test_results_are_legible_whatever_names_are_in_them(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(sys, "stdout", out := io.TextIOWrapper(io.BytesIO(), "utf-8", errors="surrogateescape"))
    Shell(form).result({"image": NAME}, [{"image": NAME, NAME: 1}], title=NAME)
    out.flush()
    text = out.buffer.getvalue().decode(errors="surrogateescape")  # type: ignore[attr-defined]
    if form == "csv":  # for programs: as it is
        assert text == f"image,{NAME}\n{NAME},1\n"
        return
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "é" in text
    if form == "json":
        assert json.loads(text) == {"image": NAME}
    elif form != "yaml":
        assert r"nu\udcff\u001b[2J\u009bm é" in text


def test_notes_and_prose_are_legible(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell("table")
    shell.note(f"{NAME} was merged.")
    shell.say(f"  near. {NAME}")
    told = capsys.readouterr()
    assert told.err == "nu\\udcff\\u001b[2J\\u009bm é was merged.\n"
    assert told.out == "  near. nu\\udcff\\u001b[2J\\u009bm é\n"


def test_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Shell("table").progress("collecting") as show:
        show(3, 7, "alpha 0.500")
    assert "3/7" in terminal.getvalue()
    assert "alpha 0.500" in terminal.getvalue()


def test_without_rows_there_is_a_title_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Shell("table").table([], title="s.db: 0 studies")
    assert capsys.readouterr().out == "s.db: 0 studies\n"


def test_a_long_line_is_wrapped_at_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    Shell("table").line("word " * 40 + "end")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert " ".join(lines).split() == ["word"] * 40 + ["end"]
