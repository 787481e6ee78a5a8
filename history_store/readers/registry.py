"""Which reader opens which path."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from history_store.errors import DataError, LabelError, MissingPathError, UsageError
from history_store.images import ImageSource
from history_store.picture import SUFFIXES
from history_store.readers.base import printable

_SCHEME = re.compile(r"^([a-z][a-z0-9+_-]+):(?!/)(.*)$")
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".rar", ".7z")
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
_NPY_STEMS = ("images", "x", "X", "x_train", "X_train", "train_images", "data")
_schemes: dict[str, Callable[[str], ImageSource]] = {}


def register(scheme: str, opener: Callable[[str], ImageSource]) -> None:
    """Register a scheme; see `history_store.readers.register_scheme`."""
    if not _SCHEME.match(f"{scheme}:x"):
        msg = (
            f"register_scheme: expected a lower-case word of two letters or more, got {scheme!r}. Choose another name."
        )
        raise UsageError(msg)
    _schemes[scheme] = opener


def open_location(path: str | Path) -> ImageSource:
    """Open a path, ``FILE.h5::name`` or ``scheme:name``; see `history_store.readers.open_images`."""
    text = os.fspath(path)
    if not text.strip():
        msg = "dataset: expected a path, got an empty one. Give a folder of pictures, or e.g. sklearn:digits."
        raise UsageError(msg)
    place = Path(text).expanduser()
    if not os.path.lexists(place):
        return _open_name(text)
    try:
        if place.is_dir():
            return _open_folder(place)
        if not place.is_file():
            msg = f"{printable(text)}: expected a folder or a file, got a link that leads nowhere, or a device. Check the path."
            raise MissingPathError(msg)
        return _open_file(place)
    except PermissionError as error:
        msg = f"{printable(text)}: expected a path that can be read, got no permission. Check who may read it."
        raise DataError(msg) from error


def _open_name(text: str) -> ImageSource:
    """Open what is no path as it stands: a dataset of a history, or a scheme."""
    if "::" in text:
        from history_store.readers.history import open_stored

        file, _, name = text.partition("::")
        return open_stored(Path(file).expanduser(), name)
    if match := _SCHEME.match(text):
        scheme, name = match.groups()
        if scheme not in _schemes:
            msg = f"{printable(text)}: expected a path or one of the schemes {', '.join(sorted(_schemes))}, got scheme {scheme!r}. Check the spelling."
            raise UsageError(msg)
        return _schemes[scheme](name)
    parent = Path(text).expanduser().parent
    step = "Check the path." if parent.is_dir() else f"Check the path: {printable(str(parent))} does not exist either."
    if (known := _known_as(text)) is not None:
        step = f"Did you mean {known}?"
    msg = f"{printable(text)}: expected a folder, a file or a name such as sklearn:digits, got a path that does not exist. {step}"
    raise MissingPathError(msg)


def _known_as(text: str) -> str | None:
    """Give the source that goes by a plain name like ``cifar10`` or ``digits``, with its scheme."""
    plain = re.sub(r"[\W_]", "", text).lower()
    return next((f"torchvision:{name}" for name in _TORCHVISION if name.lower() == plain), _SKLEARN.get(plain))


def _open_folder(path: Path) -> ImageSource:
    from history_store.readers import cifar, idx

    with os.scandir(path) as entries:
        names = sorted(entry.name for entry in entries)
    if images := [name for name in names if idx.IMAGES_NAME.match(name)]:
        return idx.open_idx(path, images)
    if binaries := [name for name in names if cifar.FILE_NAME.match(name)]:
        return cifar.open_cifar(path, binaries)
    if any(cifar.PICKLE_NAME.match(name) for name in names):
        msg = f"{path}: expected the binary version of CIFAR (*.bin), got the Python version, whose pickles are not read. Download the binary version, or use torchvision:CIFAR10."
        raise DataError(msg)
    if any(idx.LABELS_NAME.match(name) for name in names):
        msg = f"{path}: expected idx images (…-images-idx3-ubyte) beside the labels, got labels alone. Put both into the folder."
        raise DataError(msg)
    for stem in _NPY_STEMS:
        if f"{stem}.npy" in names:
            from history_store.readers.npz import open_npy

            return open_npy(path / f"{stem}.npy")
    from history_store.readers.folder import FolderSource

    return FolderSource(str(path))


def _open_file(path: Path) -> ImageSource:
    from history_store.readers import cifar, idx, npz

    name = path.name.lower()
    if idx.IMAGES_NAME.match(name):
        return idx.open_idx(path.parent, [path.name])
    if name.endswith(".npz"):
        return npz.open_npz(path)
    if name.endswith(".npy"):
        return npz.open_npy(path)
    if name.endswith(".bin"):
        return cifar.open_cifar(path.parent, [path.name], single=True)
    _refuse(path, name)
    raise AssertionError


def _refuse(path: Path, name: str) -> None:
    """Say what a file that is no dataset is, and what to give instead."""
    from history_store.readers.idx import LABELS_NAME

    where = printable(str(path))
    wanted = f"{where}: expected a dataset: a folder of class folders, idx, CIFAR .bin, .npz or .npy files,"
    with path.open("rb") as file:
        head = file.read(8)
    if name.endswith(_HISTORIES) or head == b"\x89HDF\r\n\x1a\n":
        msg = f"{where}: expected a dataset inside the history, got the history itself. Name the dataset: {where}::NAME (warmstart history list shows the names)."
        raise UsageError(msg)
    if name.endswith(_ARCHIVES) or head[:4] == b"PK\x03\x04":
        msg = f"{wanted} got an archive. Unpack it first, then give the folder."
        raise DataError(msg)
    if LABELS_NAME.match(name):
        msg = f"{wanted} got a labels file. Give the folder, or the images file."
        raise DataError(msg)
    if path.suffix.lower() in SUFFIXES:
        msg = f"{wanted} got a single picture. Give the folder that holds one folder a class."
        raise LabelError(msg)
    if not head:
        msg = f"{wanted} got an empty file. Check the path."
        raise DataError(msg)
    msg = f"{wanted} got a {path.suffix or 'nameless'} file. Check the path, or save arrays with np.savez(file, images=…, labels=…)."
    raise DataError(msg)


def _sklearn(name: str) -> ImageSource:
    from history_store.readers.sklearn_sets import open_sklearn

    return open_sklearn(name)


register("sklearn", _sklearn)
