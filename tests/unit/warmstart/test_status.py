import inspect

import pytest

from warmstart.history_store import errors
from warmstart.history_store.errors import (
    AllTrialsFailedError,
    BrokenImagesError,
    HistoryDamagedError,
    LabelError,
    MissingPathError,
    ModelMismatchError,
    UsageError,
    WarmstartError,
)
from warmstart.status import exit_code, http_status, json_pointer


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


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("x"), 400),
        (errors.SpaceExhaustedError("x"), 409),
        (MissingPathError("x"), 404),
        (LabelError("x"), 422),
        (errors.HistoryLockedError("x"), 423),
        (errors.HistoryReadOnlyError("x"), 403),
        (HistoryDamagedError("x"), 503),
        (errors.StorageFullError("x"), 507),
        (ZeroDivisionError(), 500),
    ],
)
def test_each_kind_of_error_has_its_http_status(error, status):
    assert http_status(error) == status


def test_an_error_points_to_the_argument_at_fault():
    assert json_pointer(UsageError("expected one", param="strategy")) == "/strategy"
    assert json_pointer(UsageError("expected one")) is None
