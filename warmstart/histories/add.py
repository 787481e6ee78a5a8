"""What a person gives to a history: a dataset of theirs, or one run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.bundle.records import describe_dataset
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.file.content import is_blank
from warmstart.history_store.images import BrokenImage, ImageSet, ImageSource, read_all
from warmstart.history_store.picture import DECODING
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.csv_labels import images_of, resolved
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.splits import split_codes
from warmstart.history_store.subsample import TEST, TRAIN, VAL
from warmstart.history_store.wording import in_shell
from warmstart.metafeat.labels import check_contrast
from warmstart.suggestions.tuned_before import LEFT_OUT

if TYPE_CHECKING:
    from warmstart.history_store.history import History


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """What a history says of a dataset besides its images.

    Attributes:
        name: of the dataset in the history.
        group: its siblings; datasets of one group share images, drawers or a source.
        what: one line on what the images show.
        licence: as the source states it.
    """

    name: str
    group: str
    what: str = ""
    licence: str = "not stated"

    def __post_init__(self) -> None:
        """Check the texts.

        Raises:
            UsageError: a name or group that is empty, or has ``::`` in it; bytes that are no UTF-8.
        """
        for param in ("name", "group", "what", "licence"):
            value = getattr(self, param)
            if value != value.encode("utf-8", "replace").decode():
                msg = f"expected a text in Unicode, got {value!a}. Write it in UTF-8."
                raise UsageError(msg, param=param)
        for param, value in (("name", self.name), ("group", self.group)):
            if not value.strip() or "::" in value:
                msg = f"expected a text without '::', got {value!r}. Name it after what it shows."
                raise UsageError(msg, param=param)


def add_source(
    history: "History",
    source: ImageSource,
    card: DatasetCard,
    *,
    with_images: bool = True,
    skip_broken: bool = False,
    seed: int = 0,
) -> tuple[DatasetInfo, tuple[BrokenImage, ...]]:
    """Store a collection in a history: its record, its parts and, unless told otherwise, its images.

    A dataset that the history knows without its images gets them, where they are the same images. One that it knows by its
    runs alone, as an import makes it, gets its record too; the runs stay.

    Args:
        history: open for writing.
        source: all its images are read once.
        card: what the history says of it.
        with_images: store the images too.
        skip_broken: go on without pictures that cannot be decoded.
        seed: of the split, where the source has none of its own.

    Returns: the record, and the pictures left out.

    Raises:
        UsageError: a name that the history has already, images included.
        DataError: a collection that cannot be read, or other images than those that the history knows by this name.
        StorageError: a history that cannot be written.
    """
    known = history.dataset(card.name) if card.name in history.names else None
    blank = known is not None and is_blank(known)
    if known is not None and not blank and (history.has_images(card.name) or not with_images):
        msg = f"{history.path}: expected a new name, got {card.name!r}, which it has already. Choose another, or remove that one first."
        raise UsageError(msg)
    check_contrast(source.labels, source.location)
    read, own = read_all(source, history.stored_size, skip_broken=skip_broken)
    check_contrast(read.labels, source.location)
    if known is not None and known.split_seed is not None:
        seed = known.split_seed
    codes, split_seed = split_codes(read.labels, own, seed=seed, location=source.location)
    info = _record(source, read, card, codes=codes, split_seed=split_seed, stored_size=history.stored_size)
    if known is not None:
        info = _described(known, info, str(history.path)) if blank else _same(known, info, str(history.path))
    history.add_dataset(info, read if with_images else None, codes if with_images else None)
    return info, read.broken


def _record(
    source: ImageSource,
    read: ImageSet,
    card: DatasetCard,
    *,
    codes: NDArray[np.int8],
    split_seed: int | None,
    stored_size: int,
) -> DatasetInfo:
    """Describe a collection whose images were read and split."""
    train, val, test = (int(np.count_nonzero(codes == code)) for code in (TRAIN, VAL, TEST))
    return DatasetInfo(
        name=card.name,
        group=card.group,
        n_train=train,
        n_val=val,
        n_test=test,
        n_classes=len(read.class_names),
        channels=int(read.images.shape[3]),
        class_counts=tuple(np.bincount(read.labels[codes == TRAIN], minlength=len(read.class_names)).tolist()),
        fingerprint=source.fingerprint("content"),
        source=printable(resolved(source.location) if images_of(source.location).exists() else source.location),
        licence=card.licence,
        what=card.what,
        split_seed=split_seed,
        decoding=f"{DECODING}, {stored_size}",
        extra={LEFT_OUT: str(len(read.broken))} if read.broken else {},
    )


def _described(known: DatasetInfo, found: DatasetInfo, where: str) -> DatasetInfo:
    """Describe a dataset of which runs alone were known."""
    if known.fingerprint not in ("", found.fingerprint):
        _same(replace(known, n_train=found.n_train, n_val=found.n_val, n_test=found.n_test), found, where)
    return describe_dataset(known, found)


def _same(known: DatasetInfo, found: DatasetInfo, where: str) -> DatasetInfo:
    """Check that images are those that the history knows by a name; what it says of them stays."""
    for key in ("fingerprint", "n_train", "n_val", "n_test", "n_classes", "channels"):
        old, new = getattr(known, key), getattr(found, key)
        if old not in ("", new):
            msg = f"{where}:{known.name}: expected the images that it was measured on ({key}={old}), got {key}={new}. Obtain the same images, or add these under another name."
            raise DataError(msg)
    return known


def note_on_twins(history: "History", info: DatasetInfo) -> str | None:
    """Say which dataset of another group has the very images of one that was added; None where there is none."""
    others = (each for each in history.datasets if each.fingerprint == info.fingerprint and each.group != info.group)
    twin = next(others, None)
    if twin is None:
        return None
    return (
        f"The same images are there as {twin.name!r} in the group {twin.group!r}: an evaluation would let each answer for the "
        f"other. Remove one of the two (`warmstart history remove`), or remove {info.name!r} and add it with `--group {in_shell(twin.group)}`."
    )


def import_into(path: Path, source: Path) -> dict[str, int]:
    """Read exported evaluations into a history, which is made where it is not there.

    Args:
        path: the history.
        source: a ``.csv`` or ``.parquet`` file, or a folder of shards.

    Returns: `imported` evaluations, and `n_evaluations` of the history afterwards.

    Raises:
        MissingPathError: nothing at `source`.
        DataError: `source` cannot be read or does not fit the history; nothing was added.
        StorageError: a history that cannot be written.
    """
    from warmstart.history_store.exchange import import_evaluations, import_history
    from warmstart.history_store.history import History
    from warmstart.history_store.shards import history_from_shards, merge_shards

    if not path.exists():
        with history_from_shards(source, path) if source.is_dir() else import_history(source, path) as made:
            return {"imported": made.n_evaluations, "n_evaluations": made.n_evaluations}
    with History.open(path, write=True) as history:
        added = merge_shards(history, source) if source.is_dir() else import_evaluations(history, source).n_evaluations
        return {"imported": added, "n_evaluations": history.n_evaluations}
