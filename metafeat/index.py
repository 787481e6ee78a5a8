"""Exact index of meta-features: the nearest datasets, by FAISS or, without it, numpy."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from warmstart.history_store.errors import MissingPathError, ModelError, ModelMismatchError, UsageError
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.wording import in_words
from warmstart.metafeat.files import replace_file

FORMAT = "warmstart-index"
VERSION = 1
METADATA_KEY = "warmstart"
_SLACK = 1e-4
"""Relative error allowed to a backend's float32 squared distances; candidates this near the last one are ranked too."""


class DatasetIndex:
    """Meta-features by dataset id, searched exactly; tied to the model that made them.

    Distances are Euclidean (not squared), computed in float64 from the stored float32 vectors; equal
    distances are ordered by id. FAISS (`IndexFlatL2`) only selects the candidates, so results equal brute force.

    Args:
        dim: length of a vector.
        model_hash: hash of the model that the vectors come from.
    """

    def __init__(self, dim: int, model_hash: str) -> None:
        self.dim = dim
        self.model_hash = model_hash
        self._ids: list[str] = []
        self._flat = _flat_index(dim)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids in the order in which they were added."""
        return tuple(self._ids)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Return a copy of the `n x dim` vectors, aligned with `ids`."""
        return np.array(self._flat.reconstruct_n(0, len(self)), dtype=np.float32).reshape(len(self), self.dim)

    def add(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Add datasets; nothing is added when anything is wrong.

        Args:
            ids: `n` new ids.
            vectors: `n x dim` finite.

        Raises:
            UsageError: wrong shape, NaN or infinity, an id given twice or already there.
        """
        rows = self._rows(vectors, len(ids))
        repeated = sorted(
            name for name, count in Counter([*ids, *set(self._ids).intersection(ids)]).items() if count > 1
        )
        if repeated:
            msg = f"index: expected new ids, got {repeated} again. Remove them first."
            raise UsageError(msg)
        self._flat.add(rows)
        self._ids.extend(ids)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove datasets.

        Raises:
            UsageError: an id that is not there.
        """
        removed = set(ids)
        unknown = sorted(removed - set(self._ids))
        if unknown:
            msg = f"index: expected ids among its {len(self)}, got {unknown}. See `ids`."
            raise UsageError(msg)
        rows = [i for i, name in enumerate(self._ids) if name not in removed]
        vectors = self.vectors[rows]
        self._flat = _flat_index(self.dim)
        self._flat.add(vectors)
        self._ids = [self._ids[i] for i in rows]

    def search(self, vector: NDArray[np.float32], k: int, *, exclude: Collection[str] = ()) -> list[tuple[str, float]]:
        """Find the k nearest datasets.

        Args:
            vector: `dim` finite.
            k: how many; fewer come back where fewer are left.
            exclude: ids to pass over, known or not.

        Returns: pairs (id, Euclidean distance), nearest first, ties by id.

        Raises:
            UsageError: wrong shape, NaN or infinity, k < 1.
        """
        query = self._rows(np.asarray(vector)[None], 1)
        if k < 1:
            msg = f"index: expected k ≥ 1, got k={k}. Ask for at least one neighbour."
            raise UsageError(msg)
        excluded = set(exclude)
        n_candidates = min(k + len(excluded) + 1, len(self))
        while n_candidates:
            squared, rows = self._flat.search(query, n_candidates)
            candidates = [
                (self._ids[row], row, sq)
                for row, sq in zip(rows[0], squared[0], strict=True)
                if self._ids[row] not in excluded
            ]
            # A backend rounds to float32. Candidates within its error of the k-th compete: search on until none can.
            if n_candidates == len(self) or (
                len(candidates) > k and candidates[-1][2] > candidates[k - 1][2] * (1 + _SLACK)
            ):
                return self._rank_candidates(query[0], [(name, row) for name, row, _ in candidates])[:k]
            n_candidates = min(2 * n_candidates, len(self))
        return []

    def save(self, path: str | Path) -> None:
        """Write ids, vectors and model hash as one safetensors file, atomically.

        Raises:
            StorageError: the file cannot be written, or the disk is full.
        """
        header = {"format": FORMAT, "version": VERSION, "dim": self.dim, "model": self.model_hash, "ids": self._ids}
        replace_file(Path(path), to_safetensors({"vectors": self.vectors}, metadata={METADATA_KEY: json.dumps(header)}))

    @classmethod
    def load(cls, path: str | Path, *, model_hash: str) -> Self:
        """Read an index.

        Args:
            path: of a file that `save` wrote.
            model_hash: of the model that queries will come from.

        Raises:
            MissingPathError: no such file.
            ModelError: damaged, of another kind or of a newer version.
            ModelMismatchError: made with another model.
        """
        path = Path(path)
        if not path.is_file():
            msg = f"{path}: expected an index file, got nothing there. Build it from the history."
            raise MissingPathError(msg)
        try:
            with safe_open(path, framework="np") as file:
                header = parse_stored_json((file.metadata() or {})[METADATA_KEY])
                vectors = file.get_tensor("vectors")
            form, version, index_hash = header["format"], header["version"], header["model"]
            if (form, version) != (FORMAT, VERSION):
                msg = f"{path}: expected format {FORMAT!r} version {VERSION}, got {form!r} version {version}. Upgrade warmstart or build the index anew."
                raise ModelError(msg)
            index = cls(header["dim"], index_hash)
            index.add(header["ids"], vectors)
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            msg = f"{path}: expected an index of warmstart, got a file that is damaged or of another kind. Build it anew from the history."
            raise ModelError(msg) from error
        except PermissionError as error:
            msg = f"{path}: expected a readable index file, got: {in_words(error)}. Check its permissions."
            raise ModelError(msg) from error
        if index_hash != model_hash:
            msg = f"{path}: expected an index of model {model_hash}, got one of model {index_hash}. Build it anew with this model."
            raise ModelMismatchError(msg)
        return index

    def _rank_candidates(
        self, query: NDArray[np.float32], candidates: list[tuple[str, int]]
    ) -> list[tuple[str, float]]:
        if not candidates:
            return []
        rows = np.stack([self._flat.reconstruct(int(row)) for _, row in candidates]).astype(np.float64)
        distances = np.sqrt(np.square(rows - query).sum(1)).tolist()
        return sorted(
            ((name, d) for (name, _), d in zip(candidates, distances, strict=True)), key=lambda pair: pair[::-1]
        )

    def _rows(self, vectors: NDArray[np.float32], n: int) -> NDArray[np.float32]:
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        if rows.shape != (n, self.dim):
            msg = f"index: expected vectors of shape ({n}, {self.dim}), got {rows.shape}. Embed with the model of the index."
            raise UsageError(msg)
        if not np.isfinite(rows).all():
            msg = "index: expected finite vectors, got NaN or infinity. Check the images and the model."
            raise UsageError(msg)
        return rows


class _Flat(Protocol):
    """Interface of `faiss.IndexFlatL2`, as far as it is used here."""

    def add(self, x: NDArray[np.float32]) -> None: ...
    def search(self, x: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]: ...
    def reconstruct(self, key: int) -> NDArray[np.float32]: ...
    def reconstruct_n(self, n0: int, ni: int) -> NDArray[np.float32]: ...


class NumpyFlat:
    """Brute-force search with the interface of `faiss.IndexFlatL2`, where FAISS is not installed."""

    def __init__(self, dim: int) -> None:
        self._rows = np.empty((0, dim), dtype=np.float32)

    def add(self, x: NDArray[np.float32]) -> None:
        """Append `n x dim` rows."""
        self._rows = np.concatenate((self._rows, x))

    def search(self, x: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return squared distances and rows, `1 x k` each, of the k nearest to the one query `1 x dim`."""
        squared = np.square(self._rows - x[0]).sum(1)
        nearest = np.argsort(squared, kind="stable")[:k]
        return squared[nearest][None], nearest[None]

    def reconstruct(self, key: int) -> NDArray[np.float32]:
        """Return one row."""
        row: NDArray[np.float32] = self._rows[key]
        return row

    def reconstruct_n(self, n0: int, ni: int) -> NDArray[np.float32]:
        """Return rows n0 .. n0 + ni − 1."""
        return self._rows[n0 : n0 + ni]


def _flat_index(dim: int) -> _Flat:
    try:
        import faiss
    except ImportError:
        return NumpyFlat(dim)
    index: Any = faiss.IndexFlatL2(dim)
    return index  # type: ignore[no-any-return]
