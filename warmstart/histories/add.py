"""Add a dataset with its images to a history, and import exported evaluations."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.broken import read_all
from warmstart.history_store.bundle.records import describe_dataset
from warmstart.history_store.canonical import images_of, resolved
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.exchange import import_evaluations, import_history
from warmstart.history_store.file.content import is_blank
from warmstart.history_store.history import History
from warmstart.history_store.images import BrokenImage, ImageSet, ImageSource
from warmstart.history_store.picture import DECODING
from warmstart.history_store.readers.base import printable
from warmstart.history_store.records import LEFT_OUT, DatasetInfo
from warmstart.history_store.shards import history_from_shards, merge_shards
from warmstart.history_store.splits import TEST, TRAIN, VAL, split_codes
from warmstart.history_store.wording import in_shell
from warmstart.metafeat.labels import check_contrast


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """The description of a dataset in a history.

    Attributes:
        name: of the dataset in the history.
        group: sibling group; its datasets share images, drawers or a source.
        what: one line on what the images show.
        licence: as the source states it.
    """

    name: str
    group: str
    what: str = ""
    licence: str = "not stated"

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            UsageError: a name or group that is empty or contains ``::``; text that is not UTF-8.
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
    skip_broken: bool | None = False,
    seed: int = 0,
) -> tuple[DatasetInfo, tuple[BrokenImage, ...]]:
    """Store a dataset in a history: its record, its split and, by default, its images.

    A dataset that the history has without images gets them, if they are the same images. One that it has by runs alone,
    from an import, gets its record too; the runs stay.

    Args:
        history: open for writing.
        source: all its images are read once.
        card: its description.
        with_images: store the images too.
        skip_broken: go on without pictures that cannot be decoded.
        seed: of the split, where the source has none of its own.

    Returns: the record, and the pictures left out.

    Raises:
        UsageError: a name that the history has already, with images.
        DataError: a dataset that cannot be read, or other images than the history's of this name.
        StorageError: a history that cannot be written.
    """
    earlier = history.dataset(card.name) if card.name in history.names else None
    blank = earlier is not None and is_blank(earlier)
    if earlier is not None and not blank and (history.has_images(card.name) or not with_images):
        msg = f"{history.path}: expected a new name, got {card.name!r}, which it has already. Choose another, or remove that one first."
        raise UsageError(msg)
    check_contrast(source.labels, source.location)
    read, splits = read_all(source, history.stored_size, skip_broken=skip_broken)
    # Again, as the broken pictures left out may have been a whole class.
    check_contrast(read.labels, source.location)
    if earlier is not None and earlier.split_seed is not None:
        seed = earlier.split_seed
    codes, split_seed = split_codes(read.labels, splits, seed=seed, location=source.location)
    info = _record(source, read, card, codes=codes, split_seed=split_seed, stored_size=history.stored_size)
    if earlier is not None:
        info = (
            _complete_record(earlier, info, str(history.path))
            if blank
            else _check_same_images(earlier, info, str(history.path))
        )
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
    """Return the record of a dataset whose images were read and split."""
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


def _complete_record(earlier: DatasetInfo, record: DatasetInfo, path: str) -> DatasetInfo:
    """Complete the record of a dataset that had runs alone."""
    if earlier.fingerprint not in ("", record.fingerprint):
        _check_same_images(
            replace(earlier, n_train=record.n_train, n_val=record.n_val, n_test=record.n_test), record, path
        )
    return describe_dataset(earlier, record)


def _check_same_images(earlier: DatasetInfo, record: DatasetInfo, path: str) -> DatasetInfo:
    """Check that images equal those of an earlier record; return that record."""
    for key in ("fingerprint", "n_train", "n_val", "n_test", "n_classes", "channels"):
        old, new = getattr(earlier, key), getattr(record, key)
        if old not in ("", new):
            msg = f"{path}:{earlier.name}: expected the images that it was measured on ({key}={old}), got {key}={new}. Obtain the same images, or add these under another name."
            raise DataError(msg)
    return earlier


def twin_note(history: "History", info: DatasetInfo) -> str | None:
    """Return a note on a dataset of another group with the same images; None without one."""
    candidates = (
        candidate
        for candidate in history.datasets
        if candidate.fingerprint == info.fingerprint and candidate.group != info.group
    )
    twin = next(candidates, None)
    if twin is None:
        return None
    return (
        f"The same images are there as {twin.name!r} in the group {twin.group!r}: an evaluation would let each answer for the "
        f"other. Remove one of the two (`warmstart history remove`), or remove {info.name!r} and add it with `--group {in_shell(twin.group)}`."
    )


def import_into(path: Path, source: Path) -> dict[str, int]:
    """Import exported evaluations into a history; create the history if it does not exist.

    Args:
        path: the history.
        source: a ``.csv`` or ``.parquet`` file, or a folder of shards.

    Returns: `imported` evaluations, and `n_evaluations` of the history afterwards.

    Raises:
        MissingPathError: nothing at `source`.
        DataError: `source` cannot be read or does not fit the history; nothing was added.
        StorageError: a history that cannot be written.
    """
    if not path.exists():
        with history_from_shards(source, path) if source.is_dir() else import_history(source, path) as created:
            return {"imported": created.n_evaluations, "n_evaluations": created.n_evaluations}
    with History.open(path, write=True) as history:
        added = merge_shards(history, source) if source.is_dir() else import_evaluations(history, source).n_evaluations
        return {"imported": added, "n_evaluations": history.n_evaluations}
