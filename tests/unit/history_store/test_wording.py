"""Numbers with their nouns."""

from history_store.wording import counted, some_of


def test_counts():
    assert [counted(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert counted(3, "class") == "3 classes"


def test_many_names_are_counted():
    assert some_of(["a", "b"], 2) == "a, b"
    assert some_of(["a", "b", "c"], 2) == "a, b and 1 more"
    assert some_of({"a": 1}) == "a"
