"""Numbers with their nouns."""

from history_store.wording import counted


def test_counts():
    assert [counted(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert counted(3, "class") == "3 classes"
