"""Pictures drawn for tests: stripes whose direction is the class."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def pictures(
    kind: int, n: int = 40, *, classes: int = 4, size: int = 32
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Draw n stripes whose direction tells the class and whose colour and noise tell the kind: `n x size x size x 3`."""
    rng = np.random.default_rng([kind, n])
    labels = np.arange(n) % classes
    y, x = np.mgrid[:size, :size] / size
    angle = labels * np.pi / classes
    phase = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
    wave = 0.5 + 0.5 * np.sin(2 * np.pi * (2 + kind) * phase)
    colour = rng.random(3)
    noisy = wave[..., None] * colour + rng.normal(0, 0.02 * (1 + kind), (n, size, size, 3))
    return (noisy.clip(0, 1) * 255).astype(np.uint8), labels.astype(np.int64)


def write_folder(root: Path, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Path:
    """Write pictures as `root/class/number.png`."""
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = root / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number:03d}.png")
    return root
