"""Layouts of other tasks (detection, segmentation, no labels), recognised by their files and refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from warmstart.history_store.errors import LabelError
from warmstart.history_store.picture import SUFFIXES
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.tree import split_of

_MASKS = ("masks", "mask", "segmentationclass", "segmentationobject", "annotations", "labels", "gtfine", "trimaps", "ann_dir", "groundtruth", "gt")  # fmt: skip
_IMAGES = ("images", "image", "imgs", "jpegimages", "leftimg8bit", "img_dir", "photos")
_MAX_FILES = 200
_HEAD = 65_536
_EMPTY = re.compile(rb'"annotations"\s*:\s*\[\s*\]')
_CLASSIFICATION_ONLY = "warmstart compares classification datasets alone: one class a picture, a folder a class."


def refuse_other_tasks(path: Path, entries: Sequence[str]) -> None:
    """Raise if a folder is laid out for another task than classification.

    Raises:
        LabelError: names the layout.
    """
    lower = {entry.lower(): path / entry for entry in entries}
    location = printable(str(path))
    task = _coco(lower) or _yolo(path, lower) or _pascal(lower) or _segmentation(lower)
    if task:
        msg = f"{location}: expected pictures in class folders, got {task}. {_CLASSIFICATION_ONLY}"
        raise LabelError(msg)


def _coco(lower: dict[str, Path]) -> str:
    folders = [lower.get("annotations"), *(folder for name, folder in lower.items() if split_of(name) is not None)]
    files = [folder for name, folder in lower.items() if name.endswith(".json")]
    for folder in folders:
        if folder is not None and folder.is_dir():
            files += [file for file in islice(folder.iterdir(), _MAX_FILES) if file.suffix.lower() == ".json"]
    for file in files:
        name = file.name.lower()
        if _is_file(file) and (
            name.startswith(("instances", "person_keypoints", "stuff_", "panoptic"))
            or "coco" in name
            or _has_boxes(file)
        ):
            return f"a detection dataset in the layout of COCO ({printable(file.name)})"
    return ""


def _has_boxes(file: Path) -> bool:
    """Return whether JSON holds annotations with boxes, shapes or points; classes alone are no other task."""
    head = _read_ends(file, is_ended=True)
    if b'"annotations"' in head and (b'"segmentation"' in head or b'"keypoints"' in head):
        return True
    return b'"bbox"' in head or (b'"categories"' in head and _EMPTY.search(head) is not None)


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:
        return False


def _read_ends(file: Path, *, is_ended: bool = False) -> bytes:
    """Read the beginning of a file, and its end if asked; nothing if it cannot be read."""
    # Opening a pipe would wait for a writer.
    if not _is_file(file):
        return b""
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD)
            if is_ended and (size := file.stat().st_size) > _HEAD:
                opened.seek(-min(size, _HEAD), 2)
                head += opened.read()
    except OSError:
        return b""
    return head


def _yolo(path: Path, lower: dict[str, Path]) -> str:
    configs = [file for name, file in lower.items() if name.endswith((".yaml", ".yml"))]
    config_name = next((file.name for file in configs if _is_yolo_config(file)), None)
    splits = [root for name, root in lower.items() if split_of(name) is not None and root.is_dir()]
    for root in (path, *splits):
        labels = root / "labels"
        for folder in (labels, *(sorted(labels.iterdir())[:5] if labels.is_dir() else ())):
            if folder.is_dir() and any(_is_boxes(file) for file in islice(folder.iterdir(), _MAX_FILES)):
                return f"a detection dataset in the layout of YOLO ({printable(str(folder.relative_to(path)))}/*.txt)"
    return f"a detection dataset in the layout of YOLO ({printable(config_name)})" if config_name else ""


def _is_yolo_config(file: Path) -> bool:
    keys = {line.partition(b":")[0].strip() for line in _read_ends(file).splitlines() if b":" in line}
    return {b"names", b"train"} <= keys or {b"nc", b"names"} <= keys


def _is_boxes(file: Path) -> bool:
    """Return whether a text file holds lines of a class and at least four numbers."""
    if file.suffix.lower() != ".txt":
        return False
    words = _read_ends(file).partition(b"\n")[0].split()
    try:
        return len(words) >= 5 and words[0].isdigit() and all(-1 <= float(word) <= 2 for word in words[1:])
    except ValueError:
        return False


def _pascal(lower: dict[str, Path]) -> str:
    notes = lower.get("annotations")
    if notes is None or not notes.is_dir():
        return ""
    for file in islice(notes.iterdir(), _MAX_FILES):
        if file.suffix.lower() == ".xml" and b"<bndbox>" in _read_ends(file):
            return f"a detection dataset in the layout of Pascal VOC (Annotations/{printable(file.name)})"
    return ""


def _segmentation(lower: dict[str, Path]) -> str:
    images = next((lower[name] for name in _IMAGES if name in lower and lower[name].is_dir()), None)
    if images is None:
        return ""
    stems = _stems(images)
    for name in _MASKS:
        masks_folder = lower.get(name)
        if masks_folder is None or not masks_folder.is_dir():
            continue
        masks = _stems(masks_folder)
        shared = [mask for mask in masks if mask in stems or any(mask.removesuffix(end) in stems for end in ("_mask", "_seg", "_gt"))]  # fmt: skip
        if masks and 2 * len(shared) >= len(masks):
            return f"a segmentation dataset: pictures in {printable(images.name)}/, masks in {printable(masks_folder.name)}/"
    return ""


def _stems(folder: Path) -> set[str]:
    """Return the names of a folder's pictures without endings; if it has none, those of its first folders."""
    stems = {file.stem for file in folder.iterdir() if file.suffix.lower() in SUFFIXES}
    if not stems:
        inner = sorted(inner_folder for inner_folder in folder.iterdir() if inner_folder.is_dir())[:5]
        stems = {
            file.stem
            for inner_folder in inner
            for file in islice(inner_folder.iterdir(), 1000)
            if file.suffix.lower() in SUFFIXES
        }
    return stems
