"""The table of errors with their exit codes and HTTP statuses."""

from warmstart.history_store.errors import (
    AllTrialsFailedError,
    DataError,
    HistoryLockedError,
    HistoryReadOnlyError,
    LeaseLostError,
    MissingPathError,
    ModelMismatchError,
    SpaceExhaustedError,
    StorageError,
    StorageFullError,
    UsageError,
)

SUCCESS, UNEXPECTED, USAGE, DATA, STORAGE, ALL_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

STATUSES: tuple[tuple[type[BaseException], int, int], ...] = (
    (SpaceExhaustedError, USAGE, 409),
    (LeaseLostError, USAGE, 409),
    (UsageError, USAGE, 400),
    (MissingPathError, USAGE, 404),
    (DataError, DATA, 422),
    (HistoryLockedError, STORAGE, 423),
    (HistoryReadOnlyError, STORAGE, 403),
    (ModelMismatchError, STORAGE, 409),
    (StorageFullError, STORAGE, 507),
    (StorageError, STORAGE, 503),
    (AllTrialsFailedError, ALL_FAILED, 422),
    (KeyboardInterrupt, INTERRUPTED, 503),
)
"""Class of error, exit code, HTTP status; the first matching row counts."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error; 1 for unexpected ones."""
    return next((code for kind, code, _ in STATUSES if isinstance(error, kind)), UNEXPECTED)


def http_status(error: BaseException) -> int:
    """Return the HTTP status of an error; 500 for unexpected ones."""
    return next((status for kind, _, status in STATUSES if isinstance(error, kind)), 500)


def json_pointer(error: BaseException) -> str | None:
    """Return the JSON pointer (RFC 6901) to an error's first argument; None without one."""
    params: tuple[str, ...] = getattr(error, "params", ())
    return f"/{params[0]}" if params else None
