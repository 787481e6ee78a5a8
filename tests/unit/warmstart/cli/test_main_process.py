"""What the command line does for a process of its own, and leaves alone in others'."""

import codecs
import gc
import os
import subprocess
import sys

import pytest

from warmstart.cli.main import _show_once
from warmstart.cli.table import escape_unencodable


def test_a_process_of_its_own_seldom_looks_for_garbage():
    code = "import gc, sys; from warmstart.cli import main; sys.argv = ['warmstart', '--version']; main(); print(gc.get_threshold()[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "50000"
    assert not done.stderr


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_tables_come_in_any_encoding(encoding):
    command = [sys.executable, "-m", "warmstart", "history", "list", "--limit", "1"]
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    told = subprocess.run(command, capture_output=True, check=True, env=environment).stdout.decode(encoding)
    line = told.splitlines()[2]
    assert set(line) == ({"-"} if encoding == "latin-1" else {"─"})


def test_letters_that_an_encoding_lacks_are_escapes_that_json_reads():
    codecs.register_error("test-letters", escape_unencodable)
    assert "é ─ 日 😀".encode("latin-1", "test-letters").decode("latin-1") == r"é - \u65e5 \ud83d\ude00"
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("utf-8", "test-letters")


def test_a_warning_is_said_once(capsys):
    show = _show_once()
    for text in ("one", "two", "one"):
        show(UserWarning(text))
    assert capsys.readouterr().err == "warning: one\nwarning: two\n"


def test_a_process_that_calls_it_is_left_as_it_is(cli):
    before = gc.get_threshold()
    assert cli("--version").code == 0
    assert gc.get_threshold() == before
