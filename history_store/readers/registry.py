"""Registry of readers. To add one, write a `Reader` and name it in `READERS` or by an entry point."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from warmstart.history_store.canonical import home_path
from warmstart.history_store.errors import DataError, LabelError, MissingPathError, UsageError, WarmstartError
from warmstart.history_store.images import ImageSource
from warmstart.history_store.picture import SUFFIXES
from warmstart.history_store.readers.base import Source, check_splits, printable, unpacking
from warmstart.history_store.registry import Registry
from warmstart.history_store.wording import in_words

_SCHEME = re.compile(r"^([a-z][a-z0-9+_-]+):(?!/)(.*)$")
_HISTORIES = (".h5", ".hdf5")
_TORCHVISION = (
    *(
        "Caltech101",
        "Caltech256",
        "CIFAR10",
        "CIFAR100",
        "DTD",
        "EuroSAT",
        "FashionMNIST",
        "FGVCAircraft",
        "Flowers102",
    ),
    *("Food101", "GTSRB", "KMNIST", "MNIST", "OxfordIIITPet", "SEMEION", "StanfordCars", "STL10", "SUN397", "SVHN"),
    *("USPS", "VOC2007", "VOC2012"),
)
"""Names that people type without their scheme."""
_SKLEARN = {"digits": "sklearn:digits", "olivettifaces": "sklearn:olivetti_faces", "lfwpeople": "sklearn:lfw_people"}
_IDX_LABELS = re.compile(r"^.*?labels[-._]idx1-ubyte(\.gz)?$", re.IGNORECASE)
_CIFAR_PICKLES = re.compile(r"^(data_batch_\d|test_batch)$")


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a dataset: a path on the disk, or a name such as ``sklearn:digits``.

    Attributes:
        text: as given.
        path: of a folder or a file that is there; None for a name.
        entries: sorted names in the folder; empty for a file or a name.
        download: whether a reader may fetch what is missing.
    """

    text: str
    path: Path | None = None
    entries: tuple[str, ...] = ()
    download: bool = False

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder."""
        return self.path is not None and self.path.is_dir()

    @property
    def file(self) -> str:
        """Return the lower-case name of a file; empty for a folder or a name."""
        return "" if self.path is None or self.is_folder else self.path.name.lower()

    @property
    def scheme(self) -> str:
        """Return the part before the colon of a name; empty for a path."""
        match = None if self.path is not None else _SCHEME.match(self.text)
        return match.group(1) if match else ""

    @property
    def name(self) -> str:
        """Return the part behind the colon of a name; empty for a path."""
        return self.text.partition(":")[2] if self.scheme else ""

    def matching(self, pattern: re.Pattern[str]) -> list[str]:
        """List the entries of the folder that a pattern matches."""
        return [entry for entry in self.entries if pattern.match(entry)]


@dataclass(frozen=True, slots=True)
class Reader:
    """One layout of labelled images.

    Readers are asked in order, ours first; a folder that none matches is one of class folders. What `open` returns
    passes the contract of `warmstart.history_store.images.ImageSource`.

    Attributes:
        matches: returns whether a location has the layout, without opening files.
        open: opens it; raises the errors of `warmstart.history_store.readers.open_images`.
        scheme: of names such as ``sklearn:digits``, if it reads such names; messages list it.
    """

    matches: Callable[[Place], bool]
    open: Callable[[Place], ImageSource]
    scheme: str = ""


def scheme_reader(scheme: str, opener: Callable[[Place], ImageSource]) -> Reader:
    """Return the reader of the names ``scheme:name``.

    Raises:
        UsageError: when the scheme is not a lower-case word of two letters or more.
    """
    if not _SCHEME.match(f"{scheme}:x"):
        msg = (
            f"register_scheme: expected a lower-case word of two letters or more, got {scheme!r}. Choose another name."
        )
        raise UsageError(msg)
    return Reader(lambda location: location.scheme == scheme, opener, scheme)


def register(scheme: str, opener: Callable[[str], ImageSource]) -> None:
    """Register a scheme; see `warmstart.history_store.readers.register_scheme`."""
    READERS.register(scheme, scheme_reader(scheme, lambda location: opener(location.name)))


def open_location(path: str | Path, *, download: bool = False) -> ImageSource:
    """Open a path, ``FILE.h5::name`` or ``scheme:name``; see `warmstart.history_store.readers.open_images`."""
    text = os.fspath(path)
    if not text.strip():
        msg = "dataset: expected a path, got an empty one. Give a folder of pictures, or e.g. sklearn:digits."
        raise UsageError(msg)
    try:
        location = _look_up(text, download=download)
        for reader in tuple(READERS.values()):
            if reader.matches(location):
                return _with_common_classes(reader.open(location))
        if location.path is None:
            raise _no_reader_error(location)
        if location.is_folder:
            return _open_folder(location.path, location.entries)
        _refuse_file(location.path, location.file)
        raise AssertionError
    except WarmstartError:
        raise
    except OSError as error:
        reason = "no permission" if isinstance(error, PermissionError) else in_words(error)
        msg = f"{printable(text)}: expected a path that can be read, got {reason}. Check the path, and who may read it."
        raise DataError(msg) from error


def _with_common_classes(source: ImageSource) -> ImageSource:
    """Return a source as it is, unless it is a file of arrays with a split that shares no class with training.

    Other readers leave out such a split themselves; the images of a history stay as they were put in.
    """
    return check_splits(source) if isinstance(source, Source) and source.layout in ("npz", "idx") else source


def _look_up(text: str, *, download: bool) -> Place:
    """Return the location of a text: a folder or a file, else a name."""
    path = home_path(text)
    if not os.path.lexists(path):
        return Place(text, download=download)
    if path.is_dir():
        with os.scandir(path) as entries:
            return Place(text, path, tuple(sorted(entry.name for entry in entries)), download)
    if not path.is_file():
        msg = f"{printable(text)}: expected a folder or a file, got a link that leads nowhere, or a device. Check the path."
        raise MissingPathError(msg)
    return Place(text, path, download=download)


def _no_reader_error(location: Place) -> UsageError | MissingPathError:
    """Return the error of a name that no reader takes."""
    text = printable(location.text)
    if location.scheme:
        schemes = sorted({reader.scheme for reader in READERS.values()} - {""})
        msg = f"{text}: expected a path or one of the schemes {', '.join(schemes)}, got scheme {location.scheme!r}. Check the spelling."
        return UsageError(msg)
    parent = home_path(location.text).parent
    step = "Check the path." if parent.is_dir() else f"Check the path: {printable(str(parent))} does not exist either."
    if (suggestion := _source_of_name(location.text)) is not None:
        step = f"Did you mean {suggestion}?"
    msg = f"{text}: expected a folder, a file or a name such as sklearn:digits, got a path that does not exist. {step}"
    return MissingPathError(msg)


def _source_of_name(text: str) -> str | None:
    """Return the source of a plain name such as ``cifar10`` or ``digits``, with its scheme."""
    plain = re.sub(r"[\W_]", "", text).lower()
    return next((f"torchvision:{name}" for name in _TORCHVISION if name.lower() == plain), _SKLEARN.get(plain))


def _open_folder(path: Path, names: Sequence[str]) -> ImageSource:
    """Open a folder without another layout as class folders."""
    from warmstart.history_store.readers.folder import FolderSource
    from warmstart.history_store.readers.other_tasks import refuse_other_tasks

    refuse_other_tasks(path, names)

    if any(_CIFAR_PICKLES.match(name) for name in names):
        msg = f"{path}: expected the binary version of CIFAR (*.bin), got the Python version, whose pickles are not read. Download the binary version, or use torchvision:CIFAR10."
        raise DataError(msg)
    if any(_IDX_LABELS.match(name) for name in names):
        msg = f"{path}: expected idx images (…-images-idx3-ubyte) beside the labels, got labels alone. Put both into the folder."
        raise DataError(msg)
    return FolderSource(str(path))


def _refuse_file(path: Path, name: str) -> None:
    """Raise an error that says what a file is, and what to give instead."""
    location = printable(str(path))
    expected = f"{location}: expected a dataset: a folder of class folders, a .zip or .tar, Parquet, Arrow, idx, CIFAR .bin, .npz or .npy files,"
    with path.open("rb") as file:
        head = file.read(8)
    if name.endswith(_HISTORIES) or head == b"\x89HDF\r\n\x1a\n":
        msg = f"{location}: expected a dataset inside the history, got the history itself. Name the dataset: {location}::NAME (warmstart history list shows the names)."
        raise UsageError(msg)
    if (step := unpacking(path.name)) is not None:
        msg = f"{expected} got a compressed archive. {step}"
        raise DataError(msg)
    if head[:4] == b"PK\x03\x04":
        msg = f"{expected} got an archive without the ending .zip. Rename it, or unpack it and give the folder."
        raise DataError(msg)
    if _IDX_LABELS.match(name):
        msg = f"{expected} got a labels file. Give the folder, or the images file."
        raise DataError(msg)
    if path.suffix.lower() in SUFFIXES:
        msg = f"{expected} got a single picture. Give the folder that holds one folder a class."
        raise LabelError(msg)
    if head and name.endswith((".csv", ".tsv")):
        msg = f"{expected} got a table of labels. Give the folder of its pictures, and the table with `labels`."
        raise DataError(msg)
    if not head:
        msg = f"{expected} got an empty file. Check the path."
        raise DataError(msg)
    msg = f"{expected} got a {path.suffix or 'nameless'} file. Check the path, or save arrays with np.savez(file, images=…, labels=…)."
    raise DataError(msg)


def _lazy_reader(module: str, *, may_match: Callable[[Place], bool], scheme: str = "") -> Reader:
    """Return a reader whose module is imported only for locations that may match.

    Args:
        module: in `warmstart.history_store.readers`, with a `READER`.
        may_match: returns from the names alone whether a location may have the layout.
        scheme: of the reader.
    """

    def reader() -> Reader:
        loaded: Reader = import_module(f"warmstart.history_store.readers.{module}").READER
        return loaded

    return Reader(
        lambda location: may_match(location) and reader().matches(location),
        lambda location: reader().open(location),
        scheme,
    )


def _names_hold(*parts: str) -> Callable[[Place], bool]:
    """Return the test of a location for parts of names: that of the file, or those in a folder."""
    return lambda location: any(part in name.lower() for name in (location.file, *location.entries) for part in parts)


def _holds_ending(*endings: str) -> Callable[[Place], bool]:
    """Return the test of a location for files of some endings: the file, or a folder that may hold one."""
    inner = ("data", "train", "test", "val", "valid", "validation")
    return lambda location: (
        location.file.endswith(endings)
        or any(entry.lower().endswith(endings) or entry.lower() in inner for entry in location.entries)
    )


READERS: Registry[Reader] = Registry(
    "warmstart.readers",
    "reader",
    {
        "arranged": _lazy_reader("arranged", may_match=lambda location: "::arranged=" in location.text),
        "csv": _lazy_reader("csv_labels", may_match=lambda location: "::labels=" in location.text),
        "column": _lazy_reader("hf_table", may_match=lambda location: "::column=" in location.text),
        "history": _lazy_reader("history", may_match=lambda location: location.path is None and "::" in location.text),
        "sklearn": _lazy_reader("sklearn_sets", may_match=lambda place: place.scheme == "sklearn", scheme="sklearn"),
        "idx": _lazy_reader("idx", may_match=_names_hold("idx")),
        "cifar": _lazy_reader("cifar", may_match=_names_hold(".bin")),
        "npz": _lazy_reader("npz", may_match=_names_hold(".npz", ".npy")),
        "zip": _lazy_reader("zip_folder", may_match=_holds_ending(".zip")),
        "table": _lazy_reader("hf_table", may_match=_holds_ending(".parquet", ".arrow")),
        "webdataset": _lazy_reader("webdataset", may_match=_holds_ending(".tar")),
    },
    check=lambda found: isinstance(found, Reader),
    requirement="a warmstart.history_store.readers.Reader",
)
"""Every reader, in the order in which they are asked."""
