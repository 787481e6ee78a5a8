"""Which pictures of a dataset cannot be decoded; known from the cache while its files are unchanged."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.broken import SkipBroken, check_few_broken
from warmstart.history_store.errors import BrokenImagesError
from warmstart.history_store.images import BrokenImage, ImageSource
from warmstart.metafeat.cache import EmbeddingCache, cache_folder

_CHUNK = 256
_LOOK = 32
"""Pixels of a side at which pictures are looked at."""
_KEY = "broken rows"


def left_out_pictures(
    source: ImageSource, skip_broken: SkipBroken
) -> tuple[tuple[BrokenImage, ...], NDArray[np.int64]]:
    """Return the broken pictures of a dataset, and the rows of the others.

    Args:
        source: the dataset.
        skip_broken: how many may be left out; False = none are searched for, a reader refuses them.

    Raises:
        BrokenImagesError: too many are broken, or all.
    """
    rows = np.arange(len(source))
    if skip_broken is False:
        return (), rows
    broken = broken_pictures(source)
    check_few_broken(tuple(broken.values()), len(source), source.location, skip_broken=skip_broken)
    return tuple(broken.values()), rows[~np.isin(rows, list(broken))]


def broken_pictures(source: ImageSource) -> dict[int, BrokenImage]:
    """Return the broken pictures of a dataset by their rows."""
    store = EmbeddingCache(cache_folder() / "embeddings")
    signature = hashlib.sha256(
        f"{source.location}\0{source.signature()}".encode("utf-8", "surrogateescape")
    ).hexdigest()
    known = store.get(signature, "", _KEY)
    if known is not None:
        # The first number says that the entry is one: an empty vector could not be told from a cut one.
        return _look(source, known[1:].astype(np.int64))
    broken = _look(source, np.arange(len(source)))
    store.put(signature, "", _KEY, np.array([len(broken), *broken], dtype=np.float32))
    return broken


def _look(source: ImageSource, rows: NDArray[np.int64]) -> dict[int, BrokenImage]:
    """Decode pictures in small, and return the broken ones by row."""
    broken: dict[int, BrokenImage] = {}
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        try:
            read = source.read(part, size=_LOOK, skip_broken=True)
            lost = part[~np.isin(part, read.whole(source, part))]
            reasons = list(read.broken)
        except BrokenImagesError:  # a reader refuses a part without a whole picture
            lost = part
            reasons = [reason_of_row(source, int(row)) for row in part]
        broken |= dict(zip(lost.tolist(), reasons, strict=True))
    return broken


def reason_of_row(source: ImageSource, row: int) -> BrokenImage:
    """Return a broken picture with its reason."""
    try:
        source.read([row], size=_LOOK)
    except BrokenImagesError as error:
        path = error.paths[0] if error.paths else str(row)
        return BrokenImage(path, str(error).partition(f"{path} (")[2].partition(")")[0] or "damaged data")
    return BrokenImage(str(row), "damaged data")
