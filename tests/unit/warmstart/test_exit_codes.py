import inspect

import pytest

from history_store import errors
from history_store.errors import (
    AllTrialsFailedError,
    BrokenImagesError,
    HistoryDamagedError,
    LabelError,
    MissingPathError,
    ModelMismatchError,
    UsageError,
    WarmstartError,
)
from warmstart.exit_codes import exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (MissingPathError("x"), 2),
        (BrokenImagesError("x"), 3),
        (LabelError("x"), 3),
        (HistoryDamagedError("x"), 4),
        (ModelMismatchError("x"), 4),
        (AllTrialsFailedError("x"), 5),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError(), 1),
        (FileNotFoundError(), 1),
    ],
)
def test_each_kind_of_error_has_its_code(error, code):
    assert exit_code(error) == code


def test_no_error_raised_on_purpose_is_unexpected():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, WarmstartError)]
    assert len(kinds) > 12
    assert all(exit_code(kind("x")) in (2, 3, 4, 5) for kind in kinds if kind is not WarmstartError)
