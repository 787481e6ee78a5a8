"""Numbers with their nouns."""

import shlex

from history_store.wording import counted, in_shell, some_of


def test_counts():
    assert [counted(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert counted(3, "class") == "3 classes"


def test_a_path_in_a_command_is_one_word():
    for path in ("/x/h.h5", "my hist.h5", "it's", "a$b"):
        assert shlex.split(f"warmstart history verify {in_shell(path)}")[3:] == [path]
    assert in_shell("/x/h.h5") == "/x/h.h5"


def test_many_names_are_counted():
    assert some_of(["a", "b"], 2) == "a, b"
    assert some_of(["a", "b", "c"], 2) == "a, b and 1 more"
    assert some_of({"a": 1}) == "a"
