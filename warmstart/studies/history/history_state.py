"""The state of a history when a study asked it."""

from pathlib import Path


def history_state(path: Path) -> dict[str, str | int]:
    """Return what tells states of a history apart.

    Raises:
        StorageError: when it cannot be read.
    """
    from warmstart.history_store.history import History

    with History.open(path) as opened:
        return {"path": str(path), "id": opened.id, "revision": opened.revision}
