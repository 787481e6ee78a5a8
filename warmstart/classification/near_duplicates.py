"""Pictures that are equal or nearly equal: copies, other sizes, other compression, a burst of a still scene."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers.arranged import names_in

_COARSE = 8
"""Pixels of a side by which candidates are searched."""
_NEIGHBOURS = 8
_LIKE_COARSE = 0.98
"""Least cosine of two coarse pictures of a pair."""
_LIKE = ((12.0, 0.75), (16.0, 0.9), (20.0, 0.95))
"""Pairs: largest root mean square difference of two pictures, of 255, and least correlation of their details, which
differ between two subjects of one kind; a pair meets either."""
_MOST = 60_000
"""Pictures above which only equal ones are searched."""


def groups_of_equal(small: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the group of each picture: pictures of one number are equal or nearly so.

    Args:
        small: `n x 32 x 32 x 3` uint8.

    Returns: `n` int64, the row of the first picture of each group.
    """
    parent = np.arange(len(small))
    for first, second in _pairs(small):
        a, b = _root(parent, first), _root(parent, second)
        parent[max(a, b)] = min(a, b)
    return np.array([_root(parent, row) for row in range(len(small))], dtype=np.int64)


def _root(parent: NDArray[np.int64], row: int) -> int:
    while parent[row] != row:
        parent[row] = parent[parent[row]]
        row = int(parent[row])
    return row


def _pairs(small: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Return pairs of rows that are equal or nearly so."""
    rows_of: dict[bytes, int] = {}
    pairs = [(rows_of.setdefault(picture.tobytes(), row), row) for row, picture in enumerate(small)]
    pairs = [(first, row) for first, row in pairs if first != row]
    kinds = np.array(sorted(rows_of.values()), dtype=np.int64)
    if 2 <= len(kinds) <= _MOST:
        near = _near_pairs(small[kinds])
        pairs += [(int(kinds[first]), int(kinds[second])) for first, second in near]
    return pairs


def _near_pairs(small: NDArray[np.uint8]) -> list[tuple[int, int]]:
    import faiss

    step = small.shape[1] // _COARSE
    blocks = small.reshape(len(small), _COARSE, step, _COARSE, step, 3).mean((2, 4), dtype=np.float32)
    coarse = _unit(blocks.reshape(len(small), -1))
    index = faiss.IndexFlatIP(coarse.shape[1])
    index.add(coarse)
    cosines, neighbours = index.search(coarse, min(_NEIGHBOURS + 1, len(small)))
    first = np.repeat(np.arange(len(small)), neighbours.shape[1])
    second, cosine = neighbours.ravel(), cosines.ravel()
    is_candidate = (cosine >= _LIKE_COARSE) & (first < second)
    # A pair that only the second row lists among its neighbours counts too.
    is_candidate |= (cosine >= _LIKE_COARSE) & (second < first) & (second >= 0)
    return [
        (min(a, b), max(a, b))
        for a, b in zip(first[is_candidate].tolist(), second[is_candidate].tolist(), strict=True)
        if _is_near(small[a], small[b])
    ]


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Centre each row, and scale it to length 1; a flat one becomes 0."""
    centred = rows - rows.mean(1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.ascontiguousarray(centred / np.maximum(lengths, 1e-6), dtype=np.float32)


def _is_near(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> bool:
    """Tell whether two small pictures show the same: alike in values and in their details."""
    pair = np.stack([first, second]).astype(np.float32)
    difference = float(np.sqrt(np.mean((pair[0] - pair[1]) ** 2)))
    details = _unit(_details(pair.mean(3)).reshape(2, -1))
    correlation = float(details[0] @ details[1])
    return any(difference <= most and correlation >= least for most, least in _LIKE)


def _details(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return pictures without what is coarser than some 5 pixels."""
    from scipy.ndimage import uniform_filter

    blurred = uniform_filter(grey, size=(0, 5, 5), mode="nearest")
    return np.asarray(grey - blurred, dtype=np.float32)


TWO_CLASSES, TWO_PARTS = "Equal or nearly equal, of two classes", "Equal or nearly equal, in two parts"


@dataclass(frozen=True, slots=True)
class DoubtfulCopy:
    """Pictures that are equal or nearly so.

    Attributes:
        why: they are doubtful.
        images: their names, labels and parts.
    """

    why: str
    images: tuple[tuple[str, str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        images = [{"image": name, "label": label, "part": part} for name, label, part in self.images]
        return {"why": self.why, "images": images}


def doubtful_copies(source: ImageSource, rows: NDArray[np.int64], alike: NDArray[np.int64]) -> tuple[DoubtfulCopy, ...]:
    """Find equal pictures under two classes, and then those in two of the dataset's own parts.

    Args:
        source: the dataset.
        rows: of its pictures that can be read.
        alike: of each the group of equal pictures.
    """
    names, labels = names_in(source), np.asarray(source.labels)
    part_of = np.full(len(source), "", dtype="<U5")
    if len(source.splits) > 1:
        for part, of_part in source.splits.items():
            part_of[of_part] = part
    groups, sizes = np.unique(alike, return_counts=True)
    copies = []
    for group in groups[sizes > 1]:
        members = rows[alike == group]
        has_classes, has_parts = (len(np.unique(values[members])) > 1 for values in (labels, part_of))
        if has_classes or has_parts:
            images = tuple((names[row], source.class_names[labels[row]], str(part_of[row])) for row in members.tolist())
            copies.append(DoubtfulCopy(TWO_CLASSES if has_classes else TWO_PARTS, images))
    return tuple(sorted(copies, key=lambda copy: copy.why != TWO_CLASSES))
