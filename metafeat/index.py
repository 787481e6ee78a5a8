"""The index of meta-features: which datasets are near. FAISS searches; the order of the nearest is that of float64.

The search is exact, except where cells of very many vectors are stored (`warmstart.metafeat.index_file`): then it looks into
the cells nearest to the query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.file.blocks import Matrix
from warmstart.metafeat.index_file import IndexFile, StoredIndex

if TYPE_CHECKING:
    import faiss

Distances = NDArray[np.float64]
Rows = NDArray[np.int64]

ROUNDING = 1e-4
"""Relative error allowed to FAISS's squared distances in float32: candidates this near the last one are ranked too."""
CENTRING, CANCELLATION = 1e-9, 1e-5
"""Errors of squared distances as shares of the largest squared length: of vectors that are centred, and of many queries
at once, for which FAISS computes |a|² + |b|² - 2ab."""
AT_ONCE = 1024
"""Queries per call of FAISS, which is seven times as fast with 500 or more."""
SIBLINGS = 8
"""Nearest datasets among which one of another group is looked for first."""
FEW = 8
"""A search among at most one in so many datasets is made in an index of these alone."""


def distances_to(point: NDArray[Any], points: NDArray[Any]) -> Distances:
    """Compute the Euclidean distances from a point to `m x d` points, in float64."""
    apart: Distances = np.linalg.norm(points.astype(np.float64) - point, axis=-1)
    return apart


class DatasetIndex:
    """The meta-features of datasets, by row. Distances are Euclidean, equal ones are ordered by row.

    FAISS is imported by the first search. It selects candidates; their distances are computed again by `distances_to`.

    Args:
        vectors: `m x d` float32.
        file: of their cells, which may be there.
        cells: of them all, instead of a file.

    Raises:
        UsageError: vectors of another shape.
    """

    def __init__(self, vectors: Matrix, *, file: IndexFile | None = None, cells: Any | None = None) -> None:
        if vectors.ndim != 2:
            msg = f"index: expected `m x d` vectors, got shape {vectors.shape}. Give each dataset a row."
            raise UsageError(msg)
        self.vectors = vectors
        self.file = file
        self._stored = None if cells is None else StoredIndex(cells, np.zeros(0))
        self._beside: DatasetIndex | None = None
        self._state = -1
        self._flat: faiss.IndexFlatL2 | None = None
        self._centre = np.zeros(0, np.float32)
        self._longest = 0.0

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def stored(self) -> StoredIndex | None:
        """Return what the file holds for these vectors; None while it does not."""
        if self._stored is None and self.file is not None and (state := self.file.state()) != self._state:
            self._state, self._stored, self._beside = state, self.file.read(self.vectors), None
        return self._stored

    def nearest(
        self, vector: NDArray[np.floating[Any]], k: int, *, among: Rows | None = None
    ) -> tuple[Rows, Distances]:
        """Find the k nearest datasets of a point.

        Args:
            vector: `d` finite.
            k: how many; fewer come back where fewer are left.
            among: rows to search; None = all.

        Returns: rows and distances, nearest first.

        Raises:
            UsageError: a vector of another length, or k < 1.
            DataError: NaN or infinity.
        """
        query = np.asarray(vector, dtype=np.float32)[None]
        self._check(query, k)
        if among is not None and FEW * len(among) <= len(self):
            near, distances = DatasetIndex(self.vectors[among]).nearest(vector, k)
            return among[near], distances
        rows, distances = self.search(query, min(k, len(self) if among is None else len(among)), among)
        return rows[0], distances[0]

    def nearest_of_another_group(self, rows: Rows, groups: Rows) -> Distances:
        """Compute the distance from each of some datasets to the nearest one of another sibling group.

        Args:
            rows: `n` datasets.
            groups: `m` numbers of the groups of all.

        Returns: `n`; NaN where there is no other group.
        """
        result = np.full(len(rows), np.nan)
        if not len(rows):
            return result
        near, distances = self.search(self.vectors[rows], min(SIBLINGS, len(self)))
        is_of_another = groups[near] != groups[rows][:, None]
        settled = is_of_another.any(axis=1)
        result[settled] = distances[settled, is_of_another[settled].argmax(axis=1)]
        for group in np.unique(groups[rows[~settled]]).tolist():
            among = np.flatnonzero(groups != group)
            unsettled = np.flatnonzero(~settled & (groups[rows] == group))
            if len(among):
                result[unsettled] = self.search(self.vectors[rows[unsettled]], 1, among)[1][:, 0]
        return result

    def search(self, queries: NDArray[np.float32], k: int, among: Rows | None = None) -> tuple[Rows, Distances]:
        """Return rows and distances of the k nearest of each of `n` queries, `n x k` each; there are k to be found."""
        parts = [self._block(queries[at : at + AT_ONCE], k, among) for at in range(0, len(queries), AT_ONCE)]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([distances for _, distances in parts])

    def _block(self, queries: NDArray[np.float32], k: int, among: Rows | None) -> tuple[Rows, Distances]:
        most = len(self) if among is None else len(among)
        rows, distances = np.zeros((len(queries), k), np.int64), np.zeros((len(queries), k))
        waiting, n_candidates = np.arange(len(queries)), min(k + k // 16 + 8, most)
        # FAISS rounds to float32. Candidates within its error of the k-th compete: search on until none can.
        while len(waiting) and k:
            candidates, squares, slack = self._candidates(queries[waiting], n_candidates, among)
            limit = squares[:, k - 1] * (1 + ROUNDING) + slack
            is_settled = (squares[:, -1] > limit) | (n_candidates == most)
            for row in np.flatnonzero(is_settled).tolist():
                competing = candidates[row, squares[row] <= limit[row]]
                apart = distances_to(queries[waiting[row]], self.vectors[competing])
                order = np.lexsort((competing, apart))[:k]
                rows[waiting[row]], distances[waiting[row]] = competing[order], apart[order]
            waiting, n_candidates = waiting[~is_settled], min(2 * n_candidates, most)
        return rows, distances

    def _candidates(
        self, queries: NDArray[np.float32], k: int, among: Rows | None
    ) -> tuple[Rows, NDArray[np.float32], float]:
        """Return rows and rounded squared distances of the k nearest of each query, and the error of these squares."""
        import faiss

        def selector(mask: NDArray[np.bool_] | None) -> dict[str, Any]:
            return {} if mask is None else {"sel": faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))}

        is_among = None
        if among is not None and len(among) < len(self):
            is_among = np.zeros(len(self), np.bool_)
            is_among[among] = True
        if (stored := self.stored) is not None:
            parameters = faiss.SearchParametersIVF(nprobe=stored.cells.nprobe, **selector(stored.mask(is_among)))
            squares, found = stored.cells.search(queries, k, params=parameters)
            rows, squares, slack = self._with_fresh(queries, stored.today(found), squares, stored.fresh, is_among)
            if (rows >= 0).all():
                return rows, squares, slack
        if self._flat is None:
            # Centred, because |a|² + |b|² - 2ab cancels badly far from the origin.
            vectors = np.asarray(self.vectors)
            centre = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
            flat, central = faiss.IndexFlatL2(vectors.shape[1]), vectors - centre
            flat.add(central)
            self._centre, self._longest = centre, float(np.einsum("ij,ij->i", central, central).max(initial=0.0))
            self._flat = flat
        central = queries - self._centre
        squares, rows = self._flat.search(central, k, params=faiss.SearchParameters(**selector(is_among)))
        length = float(np.einsum("ij,ij->i", central, central).max()) + self._longest
        is_by_product = len(queries) >= faiss.cvar.distance_compute_blas_threshold
        return rows, squares, (CANCELLATION if is_by_product else CENTRING) * length

    def _with_fresh(
        self,
        queries: NDArray[np.float32],
        rows: Rows,
        squares: NDArray[np.float32],
        fresh: Rows,
        is_among: NDArray[np.bool_] | None,
    ) -> tuple[Rows, NDArray[np.float32], float]:
        """Return the `n x k` candidates of the cells or among the vectors that came since, nearest first, and the error."""
        chosen = np.arange(len(fresh)) if is_among is None else np.flatnonzero(is_among[fresh])
        if not len(chosen):
            return rows, squares, 0.0
        if self._beside is None:
            self._beside = DatasetIndex(self.vectors[fresh])
        k = rows.shape[1]
        near, apart, slack = self._beside._candidates(queries, min(k, len(chosen)), chosen)  # noqa: SLF001  its own kind
        rows, squares = np.hstack([rows, fresh[near]]), np.hstack([squares, apart])
        order = np.argsort(squares, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(squares, order, axis=1), slack

    def _check(self, queries: NDArray[np.float32], k: int) -> None:
        if queries.shape[1:] != self.vectors.shape[1:]:
            msg = f"index: expected {self.vectors.shape[1]} numbers, got {queries.shape[1:]}. Embed with the model of the index."
            raise UsageError(msg)
        if not np.isfinite(queries).all():
            msg = "index: expected a finite vector, got NaN or infinity. Check the images and the model."
            raise DataError(msg)
        if k < 1:
            msg = f"index: expected k ≥ 1, got k={k}. Ask for at least one neighbour."
            raise UsageError(msg)
