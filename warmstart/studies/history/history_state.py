"""The state of a history when a study read it."""

from pathlib import Path


def history_state(path: Path) -> dict[str, str | int]:
    """Return the path, id and revision of a history.

    Raises:
        StorageError: it cannot be read.
    """
    from warmstart.history_store.history import History

    with History.open(path) as opened:
        return {"path": str(path), "id": opened.id, "revision": opened.revision}
