"""A new history that is filled at once, or removed if that fails."""

import contextlib
from collections.abc import Iterator

from warmstart.history_store.file import durable
from warmstart.history_store.history import History


@contextlib.contextmanager
def removed_unless_filled(history: History) -> Iterator[None]:
    """Remove a history that this process has just created if the block fails."""
    try:
        yield
    except BaseException:
        real = history.path.resolve()
        # The history goes while this process holds its lock; index and lock after `close`, which writes and needs them.
        with contextlib.suppress(OSError):  # the first error is the one to report
            for suffix in ("", ".bak", ".journal"):
                durable.remove(durable.beside(real, suffix))
        with contextlib.suppress(OSError):
            history.close()
            for suffix in (".index", ".lock"):
                durable.remove(durable.beside(real, suffix))
        raise
