"""A new history that is filled at once: what cannot be filled is not left behind."""

import contextlib
from collections.abc import Iterator

from warmstart.history_store.file import durable
from warmstart.history_store.history import History


@contextlib.contextmanager
def removed_unless_filled(history: History) -> Iterator[None]:
    """Close and remove a history that this process has just made, where what is done with it in the block fails."""
    try:
        yield
    except BaseException:
        real = history.path.resolve()
        with contextlib.suppress(OSError):  # the first error is the one to tell
            for suffix in ("", ".bak", ".journal"):  # while nobody else may write it
                durable.remove(durable.beside(real, suffix))
        with contextlib.suppress(OSError):
            history.close()
            for suffix in (".index", ".lock"):  # closing it writes the one and needs the other
                durable.remove(durable.beside(real, suffix))
        raise
