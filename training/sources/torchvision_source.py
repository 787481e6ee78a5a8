"""The datasets of torchvision as sources of images."""

from __future__ import annotations

import xml.etree.ElementTree as ET  # expat limits the expansion of entities
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.history_store.extras import require_extra
from warmstart.history_store.images import FingerprintKind, ImageSet, ImageSource
from warmstart.history_store.readers import open_torch_dataset
from warmstart.training.sources.download import data_folder


def open_torchvision(name: str, *, root: str | Path | None = None, download: bool = False) -> ImageSource:
    """Open a dataset of torchvision with all its parts.

    An image with several true labels (VOC) gets one of them, drawn with seed 0.

    Args:
        name: class of torchvision.datasets, or ``VOC2007``, ``VOC2012``.
        root: folder for torchvision; None = `data_folder`.
        download: let torchvision fetch missing files.

    Raises:
        UsageError: when the name is unknown.
        MissingPathError: when files are missing, or cannot be fetched.
    """
    check_name(name)
    folder = data_folder() if root is None else Path(root)
    if download:
        folder.mkdir(parents=True, exist_ok=True)
    if folder.is_dir():
        try:
            joined = JoinedParts(name, folder, download=download)
        # torchvision raises RuntimeError for missing or damaged files.
        except (RuntimeError, OSError):
            reason = "none that torchvision can read"
        else:
            return TorchvisionSource(name, joined)
    else:
        reason = "no such folder"
    advice = "Check the network" if download else "Pass `download` to let torchvision fetch them"
    msg = f"torchvision:{name}: expected its files below {folder}, got: {reason}. {advice}, or name the folder that has them."
    raise MissingPathError(msg)


class TorchvisionSource:
    """`ImageSource` of a dataset of torchvision with its splits."""

    def __init__(self, name: str, joined: JoinedParts) -> None:
        self.location = f"torchvision:{name}"
        self.layout = "torchvision"
        self.splits: Mapping[str, NDArray[np.int64]] = joined.splits
        self.inner = open_torch_dataset(joined)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Return the `n` int64 labels."""
        return self.inner.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes by label."""
        return self.inner.class_names

    def __len__(self) -> int:
        return len(self.inner)

    def read(
        self, indices: Sequence[int] | NDArray[np.integer[Any]], *, size: int | None = 32, skip_broken: bool = False
    ) -> ImageSet:
        """Decode images by index; see `ImageSource`."""
        return self.inner.read(indices, size=size, skip_broken=skip_broken)

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Return the fingerprint of the content; see `ImageSource`."""
        return self.inner.fingerprint(kind)

    def signature(self) -> str:
        """Return the signature of the files; see `ImageSource`."""
        return self.inner.signature()


# Part -> keyword arguments of the class.
Parts = Mapping[str, Mapping[str, Any]]
_FLAG: Parts = {"train": {"train": True}, "test": {"train": False}}
_TWO: Parts = {"train": {"split": "train"}, "test": {"split": "test"}}
_THREE: Parts = {"train": {"split": "train"}, "val": {"split": "val"}, "test": {"split": "test"}}
_VOC: Parts = {"train": {"image_set": "train"}, "val": {"image_set": "val"}}
_WHOLE: Parts = {"train": {}}

PARTS: Mapping[str, Parts] = {
    **dict.fromkeys(("CIFAR10", "CIFAR100", "FashionMNIST", "KMNIST", "MNIST", "USPS"), _FLAG),
    **dict.fromkeys(("Food101", "GTSRB", "STL10", "SVHN", "StanfordCars"), _TWO),
    **dict.fromkeys(("DTD", "FGVCAircraft", "Flowers102"), _THREE),
    **dict.fromkeys(("Caltech101", "Caltech256", "EuroSAT", "SEMEION", "SUN397"), _WHOLE),
    "OxfordIIITPet": {"train": {"split": "trainval"}, "test": {"split": "test"}},
    **{
        f"VOC{year}": {part: {**keywords, "year": str(year)} for part, keywords in _VOC.items()}
        for year in (2007, 2012)
    },
}


def check_name(name: str) -> None:
    """Check that a name is a dataset of torchvision with labelled images.

    Raises:
        UsageError: when the name is unknown.
    """
    if name not in PARTS:
        msg = f"torchvision:{name}: expected one of {', '.join(sorted(PARTS))}, got {name!r}. Correct the name."
        raise UsageError(msg, given=name, choices=PARTS)


class JoinedParts:
    """Parts of a torchvision dataset as one torch-style dataset, train first.

    Attributes:
        splits: int64 indices by part.
        targets: one label for each image: a number, or a class name if images have several labels.
        classes: names by label; None if the labels are names.
    """

    def __init__(self, name: str, root: Path, *, download: bool) -> None:
        """Open every part; pictures are decoded on access.

        Raises:
            UsageError: when the name is unknown.
            RuntimeError: or FileNotFoundError, by torchvision, when files are missing.
        """
        check_name(name)
        require_extra("pictures", f"torchvision:{name}", ["torchvision"])
        from torchvision import datasets

        voc = name.startswith("VOC")
        maker = datasets.VOCDetection if voc else getattr(datasets, name)
        # The archive of VOC holds all parts: torchvision would unpack it again for each.
        self.parts = [
            maker(str(root), **keywords, download=download and (i == 0 or not voc))
            for i, keywords in enumerate(PARTS[name].values())
        ]
        ends = np.cumsum([0, *(len(part) for part in self.parts)])
        self.ends: NDArray[np.int64] = ends
        self.splits = {part: np.arange(ends[i], ends[i + 1], dtype=np.int64) for i, part in enumerate(PARTS[name])}
        self.targets: list[Any]
        self.classes: list[str] | None = None
        if voc:
            self.targets = draw_labels([x for part in self.parts for x in voc_labels(part.annotations)])
        else:
            self.targets = [int(label) for part in self.parts for label in _labels(part)]
            names = getattr(self.parts[0], "classes", None) or getattr(self.parts[0], "categories", None) or []
            self.classes = [str(class_name) for class_name in names] or None

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        part = int(np.searchsorted(self.ends, index, side="right")) - 1
        picture, _ = self.parts[part][index - int(self.ends[part])]
        return picture, self.targets[index]


def draw_labels(label_sets: Sequence[Sequence[str]], *, seed: int = 0) -> list[str]:
    """Draw one of the true labels of each image.

    Args:
        label_sets: labels of each image; repeats count once.
        seed: of the draws.

    Returns: one label for each image.
    """
    rng = np.random.default_rng(seed)
    distinct = [sorted(set(labels)) for labels in label_sets]
    return [labels[int(rng.random() * len(labels))] for labels in distinct]


def voc_labels(annotations: Sequence[str]) -> list[list[str]]:
    """Return the classes of the objects in VOC annotation files."""
    return [
        [name.text or "" for name in ET.parse(path).iterfind("object/name")]  # noqa: S314  see the import
        for path in annotations
    ]


def _labels(part: Any) -> Sequence[Any]:
    """Return the labels of a dataset without decoding pictures; torchvision has several names for them."""
    for attribute in ("targets", "labels", "y", "_labels"):
        labels = getattr(part, attribute, None)
        if labels is not None:
            return [int(label) for label in labels]
    if hasattr(part, "_samples"):
        return [label for _, label in part._samples]  # noqa: SLF001
    return [part[i][1] for i in range(len(part))]
