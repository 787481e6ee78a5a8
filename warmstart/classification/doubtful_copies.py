"""Equal pictures whose labels or parts contradict each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers.arranged import names_in

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
