"""Which command a call names, wherever its options stand: a command that is not imported never runs."""

import pytest

from warmstart.cli.app import _not_called
from warmstart.cli.main import named_command


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ()),
        (("suggest", "--dataset", "a"), ("suggest",)),
        (("predict", "clf", "a.jpg"), ("predict", "clf")),
        (("history", "list", "-f", "json"), ("history", "list")),
        (("history",), ("history",)),
        (("history", "--help"), ("history",)),
        (("--version",), ()),
        (("-h",), ()),
        (("history", "--help", "list"), None),
        (("history", "--", "list"), None),
        (("--", "suggest"), None),
        (("--some-option", "suggest"), None),
    ],
)
def test_words_before_the_first_option_name_the_command(args, words):
    assert named_command(args) == words


def test_a_command_that_is_not_imported_never_runs_silently():
    with pytest.raises(RuntimeError, match="whose module is not imported"):
        _not_called()


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("--", "suggest", "--dataset", "none/such"), 2, "none/such"),
        (("history", "--", "list", "none.h5"), 2, "none.h5"),
        (("--some-option", "suggest"), 2, "--some-option"),
        (("history", "--some-option", "list"), 2, "--some-option"),
    ],
)
def test_options_before_a_command(cli, args, code, told):
    run = cli(*args)
    assert (run.code, run.out) == (code, "")
    assert told in run.err


def test_help_before_a_command_is_that_of_the_group(cli):
    assert cli("history", "--help", "list").out == cli("history", "--help").out
