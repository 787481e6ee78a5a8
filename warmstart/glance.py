"""Read the few fields of a history that select its model and workload."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from warmstart.history_store.records import Config


@dataclass(frozen=True, slots=True)
class Glance:
    """Fields of `warmstart.history_store.history.History`, under the same names."""

    space_json: str
    model_hashes: tuple[str, ...]
    stored_size: int
    configs: tuple[Config, ...] = ()


def glance(history: Path) -> Glance:
    """Read the fields once for each state of the file, as opening a history is slow.

    Raises: what `History.open` raises.
    """
    return _glance(history, _state(history))


@lru_cache(maxsize=8)
def _glance(history: Path, state: object) -> Glance:  # noqa: ARG001  the key of the cache
    from warmstart.history_store.history import History

    with History.open(history) as opened:
        return Glance(opened.space_json, tuple(opened.model_hashes), opened.stored_size, tuple(opened.configs))


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
