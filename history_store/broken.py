"""Pictures that cannot be decoded: a few are left out and named, many are an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import BrokenImagesError
from warmstart.history_store.images import BrokenImage, ImageSet, ImageSource

MOST_BROKEN = 0.05
"""Largest share of broken pictures that are left out unasked."""
_MAX_NAMED = 5

SkipBroken = bool | None
"""True = leave all broken pictures out; False = refuse any; None = leave them out up to `MOST_BROKEN`."""


def read_images(
    source: ImageSource, rows: Sequence[int] | NDArray[np.int64], *, size: int | None, skip_broken: SkipBroken
) -> ImageSet:
    """Decode pictures of a source, and leave broken ones out as far as `skip_broken` allows.

    Raises:
        BrokenImagesError: more are broken, or all.
    """
    images = source.read(rows, size=size, skip_broken=skip_broken is not False)
    check_few_broken(images.broken, len(rows), source.location, skip_broken=skip_broken)
    return images


def check_few_broken(
    broken: Sequence[BrokenImage], n_read: int, location: str, *, skip_broken: SkipBroken = None
) -> None:
    """Check that broken pictures may be left out.

    Raises:
        BrokenImagesError: they are too many.
    """
    if not broken:
        return
    most = {True: n_read - 1, False: 0, None: int(MOST_BROKEN * n_read)}[skip_broken]
    if len(broken) <= most:
        return
    named = "; ".join(f"{image.path} ({image.reason})" for image in broken[:_MAX_NAMED])
    more = f"; and {len(broken) - _MAX_NAMED} more" if len(broken) > _MAX_NAMED else ""
    limit = f", where up to {most} are left out" if skip_broken is None and 0 < most < n_read else ""
    step = "Not one is left: check the path and the files." if len(broken) == n_read else "Repair or remove them, or go on without them: `skip_broken`."  # fmt: skip
    where, read = (f"{location}: ", " read") if location else ("", "")
    msg = f"{where}expected pictures that can be decoded, got {len(broken)} broken of {n_read}{read}{limit}: {named}{more}. {step}"
    raise BrokenImagesError(msg, [image.path for image in broken])


def read_all(
    source: ImageSource, size: int, *, skip_broken: bool | None
) -> tuple[ImageSet, Mapping[str, NDArray[np.int64]]]:
    """Read a whole collection, and its splits as rows of the result; raises as `ImageSource.read`."""
    images = read_images(source, np.arange(len(source)), size=size, skip_broken=skip_broken)
    if not images.broken:
        return images, source.splits
    # Pictures were left out, so rows have moved.
    row_indices = images.whole(source, range(len(source)))
    return images, {name: np.flatnonzero(np.isin(row_indices, rows)) for name, rows in source.splits.items()}
