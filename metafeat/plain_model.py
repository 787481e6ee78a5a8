"""A model of handcrafted features alone, in numpy: a query without a network does not import torch."""

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.metafeat.handcrafted import query_features, scaled
from warmstart.metafeat.images import check_images
from warmstart.metafeat.labels import check_labels
from warmstart.metafeat.spec import ModelSpec
from warmstart.metafeat.weights import Weights, mismatched_weights, read_model

LAYERS = ("after.0", "after.2", "after.4")
"""The after-layers of `warmstart.metafeat.siamese_network.SiameseNetwork`, with a ReLU between."""


class PlainModel:
    """Embed datasets as `warmstart.metafeat.model.MetaFeatureModel` does, up to rounding.

    Attributes:
        spec: of a model whose extractor is `handcrafted`.
    """

    def __init__(self, spec: ModelSpec, weights: Weights) -> None:
        self.spec = spec
        self._units: tuple[NDArray[Any], NDArray[Any]] = weights["handcrafted_centre"], weights["handcrafted_scale"]
        self._layers = [(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in LAYERS]

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model file.

        Raises:
            MissingPathError: no such file.
            ModelError: not a model of this kind, damaged, altered or written by a newer version.
        """
        _, spec, weights = read_model(path)
        try:
            return cls(spec, weights)
        except KeyError as error:
            raise mismatched_weights(path) from error

    def embed(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        *,
        rng: np.random.Generator,
        features: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float32]:
        """Embed a dataset.

        Args:
            images: `n x s x s x c` uint8, c = 1 or 3; a few hundred suffice.
            labels: `n` class indices.
            rng: of the sampled images and of the landmarks' folds.
            features: of `query_features`, if several models share them; None = computed.

        Returns: `256` float32.

        Raises:
            DataError: images or labels of a wrong kind.
            ModelMismatchError: images of another size.
        """
        check_images(images, self.spec)
        labels = check_labels(labels, len(images))
        return self.embed_features(query_features(images, labels, rng=rng) if features is None else features)

    def embed_features(self, features: NDArray[np.float64]) -> NDArray[np.float32]:
        """Embed a dataset by its handcrafted features: `256` float32."""
        standardised = scaled(features[None], *self._units)[0].astype(np.float32)
        (first, first_bias), (second, second_bias), (last, last_bias) = self._layers
        hidden = np.maximum(second @ np.maximum(first @ standardised + first_bias, 0) + second_bias, 0)
        embedding: NDArray[np.float32] = (last @ hidden + last_bias).astype(np.float32, copy=False)
        return embedding
