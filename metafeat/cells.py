"""Cells of an index of very many meta-features: FAISS's inverted file, which looks into the cells nearest to a query."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.file.blocks import Matrix

CELLS = 4.0
"""Cells per square root of the number of vectors."""
PROBES = 64
"""Cells that a search looks into; `scripts/bench/size.py` measures the recall."""
TRAINED_ON, ROUNDS = 48, 10
"""Vectors per cell, evenly spread over all, from which the cells are made, and rounds of k-means."""
MOST_NEW = 0.5
"""Share of new vectors from which the cells are made anew instead of extended."""
_AT_ONCE = 65_536

Marks = NDArray[np.uint64]


def build_cells(vectors: Matrix) -> Any:
    """Return an `IndexIVFFlat` of `m x d` vectors, whose ids are their rows. Nothing is random."""
    m, d = vectors.shape
    n_cells = max(1, int(CELLS * math.sqrt(m)))
    coarse = faiss.IndexFlatL2(d)
    cells = faiss.IndexIVFFlat(coarse, d, n_cells, faiss.METRIC_L2)
    cells.cp.niter, cells.cp.max_points_per_centroid, cells.cp.min_points_per_centroid = ROUNDS, TRAINED_ON, 1
    sample = np.linspace(0, m - 1, min(m, TRAINED_ON * n_cells)).astype(np.int64)
    cells.train(np.ascontiguousarray(vectors[sample]))
    _add(cells, vectors, np.arange(m))
    cells.nprobe = PROBES
    return cells


def extend_cells(cells: Any, marks: Marks, vectors: Matrix, new_marks: Marks) -> Any:
    """Return cells of other vectors than they were made of: without those that are gone, with those that are new.

    Args:
        cells: an `IndexIVFFlat` in memory, which is changed.
        marks: `mark_vectors` of its vectors.
        vectors: `m x d`, of which most are the same.
        new_marks: `mark_vectors` of these.
    """
    row_of, fresh = rows_in(marks, new_marks)
    if len(fresh) > MOST_NEW * len(new_marks):
        return build_cells(vectors)
    cells.remove_ids(faiss.IDSelectorBitmap(np.packbits(row_of < 0, bitorder="little")))
    for cell in range(cells.nlist):
        if n := cells.invlists.list_size(cell):
            ids = faiss.rev_swig_ptr(cells.invlists.get_ids(cell), n)
            ids[:] = row_of[ids]
    _add(cells, vectors, fresh)
    return cells


def rows_in(marks: Marks, new_marks: Marks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of each marked vector among others, -1 = gone, and the rows of those that are new, rising."""
    _, old, new = np.intersect1d(marks, new_marks, return_indices=True)
    rows = np.full(len(marks), -1, np.int64)
    rows[old] = new
    return rows, np.setdiff1d(np.arange(len(new_marks)), new)


def save_cells(cells: Any, path: Path) -> None:
    """Write cells to a file of FAISS."""
    faiss.write_index(cells, str(path))


def load_cells(path: Path, *, is_mapped: bool) -> Any:
    """Read cells from a file of FAISS, in which more may follow.

    Raises:
        RuntimeError: it holds none.
    """
    cells = faiss.read_index(str(path), faiss.IO_FLAG_MMAP if is_mapped else 0)
    if is_mapped:
        # Each search would begin 32 threads that read ahead.
        faiss.downcast_InvertedLists(cells.invlists).prefetch_nthread = 0
    return cells


def mark_vectors(vectors: Matrix) -> Marks:
    """Return a number for each of `m` vectors, by which it is recognised among others; equal vectors get different ones."""
    weights = np.random.default_rng(0).integers(1, 2**63, vectors.shape[1], dtype=np.uint64) | np.uint64(1)
    marks = np.empty(len(vectors), np.uint64)
    for at in range(0, len(vectors), _AT_ONCE):
        words = np.ascontiguousarray(vectors[at : at + _AT_ONCE]).view(np.uint32).astype(np.uint64)
        marks[at : at + _AT_ONCE] = (words * weights).sum(axis=1, dtype=np.uint64)
    order = np.argsort(marks, kind="stable")
    is_first = np.append(True, marks[order][1:] != marks[order][:-1])[: len(marks)]
    starts = np.flatnonzero(is_first)
    occurrence = np.arange(len(marks)) - np.repeat(starts, np.diff(np.append(starts, len(marks))))
    marks[order] += occurrence.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return marks


def _add(cells: Any, vectors: Matrix, rows: NDArray[np.int64]) -> None:
    """Add the vectors of some rows, some at a time: they may be mapped."""
    for at in range(0, len(rows), _AT_ONCE):
        part = rows[at : at + _AT_ONCE]
        cells.add_with_ids(np.ascontiguousarray(vectors[part]), part)
