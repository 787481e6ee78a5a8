"""The progress bar on a terminal."""

import io
import sys

import pytest

from warmstart.cli.options import Format
from warmstart.cli.shell import Shell


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_goes_wrong_before_the_first_step_is_not_hidden_by_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(KeyboardInterrupt), Shell(Format.TABLE).progress("collecting"):
        raise KeyboardInterrupt
    assert "collecting" in terminal.getvalue()


def test_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Shell(Format.TABLE).progress("collecting") as show:
        show(3, 7, "alpha 0.500")
    assert "3/7" in terminal.getvalue()
    assert "alpha 0.500" in terminal.getvalue()
