"""Numbers, with and without their nouns."""

import shlex

from warmstart.history_store.wording import counted, in_shell, in_short


def test_counts():
    assert [counted(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert counted(3, "class") == "3 classes"


def test_numbers_are_short_without_losing_their_size():
    for value, text in (
        (0.12345, "0.1235"),
        (-250.0, "-250"),
        (9999.4, "9999"),
        (9999.6, "10000"),
        (-123456.7, "-123457"),
        (2.5e7, "2.5e+07"),
        (1e-12, "1e-12"),
        (7, "7"),
        (123456789, "123456789"),
        (True, "True"),
        ("adam", "adam"),
    ):
        assert in_short(value) == text


def test_a_path_in_a_command_is_one_word():
    for path in ("/x/h.h5", "my hist.h5", "it's", "a$b"):
        assert shlex.split(f"warmstart history verify {in_shell(path)}")[3:] == [path]
    assert in_shell("/x/h.h5") == "/x/h.h5"
