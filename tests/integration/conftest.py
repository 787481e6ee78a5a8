"""What all commands of these tests go without."""

import pytest


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    """Let `tune` write its page without pictures, a second or more of each call; tests of pages and plots look at them."""
    monkeypatch.setattr("warmstart.plots.study_page._figures", lambda *_: "")
