"""Scikit-learn's digits as a folder of class folders."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

from PIL import Image

from warmstart.history_store.errors import MissingPathError, UsageError

_SIDE = 64
"""Pixels of a side: people see more than of the original 8."""


def write_example(folder: Path) -> int:
    """Write the digits, whole or not at all; return the number of pictures.

    Raises:
        UsageError: there is something already.
        MissingPathError: no folder to write it in.
    """
    from sklearn.datasets import load_digits

    if os.path.lexists(folder):
        msg = f"{folder}: expected a new folder, got one that is there. Name another."
        raise UsageError(msg)
    parent = folder.absolute().parent
    if not parent.is_dir():
        msg = f"{folder}: expected a folder in one that is there, got none at {parent}. Make that first."
        raise MissingPathError(msg)
    digits = load_digits()
    written = Path(mkdtemp(prefix=f".{folder.name}-", dir=parent))
    try:
        for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
            of_class = written / str(label)
            of_class.mkdir(exist_ok=True)
            pixels = (image * 255 / 16).round().astype("uint8")
            Image.fromarray(pixels).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC).save(of_class / f"{number:04}.png")
        written.chmod(0o755)
        written.rename(folder)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise
    return len(digits.target)
