"""Cache of embeddings on disk: a known dataset needs no forward pass."""

import hashlib
import logging
import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from warmstart.history_store.errors import StorageError
from warmstart.metafeat.files import read_ordinary, replace_file

_MAGIC = b"wsemb1\0\0"
_HEAD = struct.Struct("<8sI")
_log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return the cache's folder: ``$WARMSTART_CACHE``, else the system's for caches: ``~/.cache/warmstart`` on Linux."""
    return Path(os.environ.get("WARMSTART_CACHE") or platformdirs.user_cache_dir("warmstart", appauthor=False))


def cached_files(folder: Path, pattern: str) -> list[tuple[Path, os.stat_result]]:
    """List the files of a cache with their state, the longest unused first."""
    files = []
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):  # another process may remove some at any time
            files.append((path, path.lstat()))
    return sorted(files, key=lambda file: file[1].st_mtime)


class EmbeddingCache:
    """Meta-features by (fingerprint, model hash, settings), one small file an entry.

    A damaged entry counts as absent, a folder that cannot be written as empty. So the cache may cost time, never a
    result.

    Args:
        folder: made at the first `put`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def get(self, fingerprint: str, model_hash: str, key: str) -> NDArray[np.float32] | None:
        """Return the vector bit for bit as it was put, or None.

        Args:
            fingerprint: of the dataset.
            model_hash: of the model.
            key: what else the embedding depends on, such as draws, tau and seed.
        """
        path = self._path(fingerprint, model_hash, key)
        try:
            content = read_ordinary(path)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                _log.debug("%s: cannot be read (%s), computing the embedding", path, error)
            return None
        payload = content[_HEAD.size :]
        if content[: _HEAD.size] != _HEAD.pack(_MAGIC, zlib.crc32(payload)) or len(payload) % 4:
            _log.debug("%s: damaged entry, computing the embedding anew", path)
            return None
        return np.frombuffer(payload, dtype="<f4").astype(np.float32)

    def put(self, fingerprint: str, model_hash: str, key: str, vector: NDArray[np.float32]) -> None:
        """Store a vector; do nothing if the folder cannot be written.

        Args:
            fingerprint: of the dataset.
            model_hash: of the model.
            key: what else the embedding depends on.
            vector: float32.
        """
        payload = np.asarray(vector, dtype="<f4").tobytes()
        path = self._path(fingerprint, model_hash, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, _HEAD.pack(_MAGIC, zlib.crc32(payload)) + payload, durable=False)
        except (OSError, StorageError) as error:
            _log.debug("%s: not cached (%s)", path, error)

    def _path(self, fingerprint: str, model_hash: str, key: str) -> Path:
        name = hashlib.sha256("\0".join((fingerprint, model_hash, key)).encode()).hexdigest()[:40]
        return self.folder / f"{name}.emb"
