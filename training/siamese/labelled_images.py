"""Labelled images of a dataset, for the training of a meta-feature model."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.metafeat.handcrafted import SUBSAMPLE, sample_features
from warmstart.metafeat.model import draw

HANDCRAFTED_SAMPLES = 4
DIGESTED = 16
"""Number of images in the digest of a dataset."""


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """Labelled images of one dataset.

    Attributes:
        images: `n x s x s x c` uint8, may be a memory map.
        labels: `n` class indices.
        rows: indices to draw from; None = all.
        handcrafted: `k x p` handcrafted features of k samples; None = computed on demand.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    rows: NDArray[np.int64] | None = None
    handcrafted: NDArray[np.float64] | None = None

    def sample(self, rng: np.random.Generator, tau: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Draw tau images and labels, with replacement only if there are fewer."""
        n = len(self.images) if self.rows is None else len(self.rows)
        chosen = draw(rng, n, tau)
        chosen = chosen if self.rows is None else self.rows[chosen]
        return self.images[chosen], self.labels[chosen]

    def handcrafted_samples(self) -> NDArray[np.float64]:
        """Return `k x p` handcrafted features: the stored ones, or new ones of four samples, which take 1 s."""
        if self.handcrafted is not None:
            return self.handcrafted
        n = len(self.images) if self.rows is None else len(self.rows)
        rngs = [np.random.default_rng(number) for number in range(HANDCRAFTED_SAMPLES)]
        samples = [self.sample(rng, min(n, SUBSAMPLE)) for rng in rngs]
        return np.stack(
            [sample_features(images, labels, rng=rng) for (images, labels), rng in zip(samples, rngs, strict=True)]
        )

    @property
    def digest(self) -> bytes:
        """Return a digest of some images spread over all, every label, the rows and the stored features."""
        spread = np.unique(np.linspace(0, len(self.images) - 1, DIGESTED).astype(np.int64))
        digest = hashlib.sha256(repr(self.images.shape).encode())
        for part in (self.images[spread], np.asarray(self.labels, np.int64), self.rows, self.handcrafted):
            digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
        return digest.digest()
