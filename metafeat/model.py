"""The meta-feature model: a trained network with its file, its hash and the history it belongs to.

The file is safetensors; one metadata key `warmstart` holds a JSON header (see `history_store/FORMAT.md`).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save as to_safetensors

from warmstart.history_store.errors import UsageError
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.handcrafted import query_features
from warmstart.metafeat.images import check_images
from warmstart.metafeat.labels import check_labels, label_codes
from warmstart.metafeat.siamese_network import SiameseNetwork
from warmstart.metafeat.spec import FORMAT, METADATA_KEY, VERSION, WITHOUT_NETWORK, ModelSpec
from warmstart.metafeat.weights import mismatched_weights, read_model, weights_hash

DRAWS = 10


class MetaFeatureModel:
    """A model that embeds a labelled image dataset; distances imitate how alike configurations perform.

    Attributes:
        spec: architecture and input.
        hash: 16 hex digits over spec and weights; embeddings and indexes are tied to it.
        header: JSON header of the file: history_id, history_revision, space_digest, quality, ...
        network: the network, in evaluation mode.
    """

    def __init__(self, network: SiameseNetwork, header: Mapping[str, Any] | None = None) -> None:
        self.network = network.eval().requires_grad_(requires_grad=False)
        self.spec = network.spec
        self.header: Mapping[str, Any] = MappingProxyType(dict(header or {}))
        self.hash = weights_hash(
            self.spec, {name: tensor.cpu().numpy() for name, tensor in network.state_dict().items()}
        )

    @classmethod
    def random(cls, spec: ModelSpec, *, seed: int = 0) -> Self:
        """Build a model with random weights: the start of training and the baseline that it has to beat."""
        return cls(random_network(spec, seed=seed))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model file.

        Raises:
            MissingPathError: no such file.
            ModelError: not a model, damaged, altered or written by a newer version.
        """
        header, spec, weights = read_model(path)
        if spec.extractor == WITHOUT_NETWORK:
            raise mismatched_weights(path)
        network = SiameseNetwork(spec)
        try:
            network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        except RuntimeError as error:
            raise mismatched_weights(path) from error
        return cls(network, header)

    def save(self, path: str | Path, header: Mapping[str, Any] | None = None) -> None:
        """Write the model file whole, atomically.

        Args:
            path: usually `*.safetensors`.
            header: JSON fields to store; None = those that the model has.

        Raises:
            StorageError: the file cannot be written, or the disk is full.
        """
        fields = dict(self.header if header is None else header)
        fields |= {"format": FORMAT, "version": VERSION, "spec": self.spec.to_dict(), "hash": self.hash}
        tensors = {name: tensor.contiguous().cpu() for name, tensor in self.network.state_dict().items()}
        text = json.dumps(fields, sort_keys=True, allow_nan=False)
        replace_file(Path(path), to_safetensors(tensors, metadata={METADATA_KEY: text}))

    def embed(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        *,
        rng: np.random.Generator,
        draws: int = DRAWS,
        tau: int | None = None,
        features: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float32]:
        """Embed a dataset: the mean of its points over several random draws of tau images.

        The convolutions see each given image once, so the cost is one forward pass over them. Handcrafted features,
        where the model asks for them, are computed once from the given images, or a random sample of them.

        Args:
            images: `n x s x s x c` uint8, c = 1 or 3; a few hundred suffice.
            labels: `n` class indices.
            rng: the only source of randomness.
            draws: R.
            tau: images a draw, drawn with replacement where n < tau; None = as in training.
            features: of `query_features`, if several models share them; None = computed if needed.

        Returns: `256` float32.

        Raises:
            DataError: images or labels of a wrong kind.
            ModelMismatchError: images of another size.
        """
        check_images(images, self.spec)
        labels = check_labels(labels, len(images))
        tau = self.spec.tau if tau is None else tau
        if draws < 1 or tau < 1:
            msg = f"embed: expected draws ≥ 1 and tau ≥ 1, got {draws=}, {tau=}. Use the defaults."
            raise UsageError(msg)
        samples = np.stack([draw(rng, len(images), tau) for _ in range(draws)])
        codes = np.stack([label_codes(labels[sample], self.spec.label_code) for sample in samples])
        with torch.inference_mode():
            deep = self.network.features(images, labels)
            standardised = None
            if self.spec.handcrafted:
                features = query_features(images, labels, rng=rng) if features is None else features
                standardised = self.network.standardised(features[None]).expand(draws, -1)
            points = self.network.encode(
                deep[torch.from_numpy(samples)], torch.from_numpy(codes).to(deep.device), standardised
            )
        return points.double().mean(0).float().cpu().numpy()


def draw(rng: np.random.Generator, n: int, tau: int) -> NDArray[np.int64]:
    """Draw tau of n positions in random order, with replacement only where n < tau."""
    return rng.choice(n, size=tau, replace=n < tau)


def random_network(spec: ModelSpec, *, seed: int) -> SiameseNetwork:
    """Build a network whose weights depend on the seed alone; torch's global generator does not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SiameseNetwork(spec)
