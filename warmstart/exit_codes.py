"""The one table from errors to what a shell sees."""

from history_store.errors import (
    AllTrialsFailedError,
    DataError,
    MissingPathError,
    StorageError,
    UsageError,
)

DONE, UNEXPECTED, USAGE, DATA, STORAGE, ALL_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (UsageError, USAGE),
    (MissingPathError, USAGE),
    (DataError, DATA),
    (StorageError, STORAGE),
    (AllTrialsFailedError, ALL_FAILED),
    (KeyboardInterrupt, INTERRUPTED),
)


def exit_code(error: BaseException) -> int:
    """Give the exit code of an error: 1 for whatever was not raised on purpose."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), UNEXPECTED)
