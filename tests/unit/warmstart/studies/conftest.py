"""What all studies of these tests go without."""

import pytest


@pytest.fixture(autouse=True)
def _no_pictures(no_pictures):
    """Let `tune` write its page without pictures; tests of plots look at them."""
