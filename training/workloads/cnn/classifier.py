"""Classifier of trained target networks, with its file format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from warmstart.history_store.errors import WarmstartError
from warmstart.metafeat.files import replace_file
from warmstart.training.workloads.base import Classifier, Member
from warmstart.training.workloads.classifier_file import not_a_classifier, read_header, to_metadata
from warmstart.training.workloads.classifier_images import fitted_images
from warmstart.training.workloads.cnn.config import TargetConfig
from warmstart.training.workloads.cnn.network import build_network
from warmstart.training.workloads.cnn.train import TargetData
from warmstart.training.workloads.stored_network import check_size, load_network

BATCH = 256


class Networks(Classifier):
    """Trained target networks with averaged probabilities, often a single one.

    Attributes:
        members: best first.
        classes: names in the order of the probabilities.
        size: pixels of a side of the images.
        channels: 1 or 3.
        error: validation error of the average.
    """

    def __init__(
        self,
        members: Sequence[Member],
        networks: Sequence[nn.Module],
        *,
        classes: Sequence[str],
        size: int,
        mean: torch.Tensor,
        spread: torch.Tensor,
        error: float,
    ) -> None:
        self.members, self.classes, self.size, self.error = tuple(members), tuple(classes), size, error
        self.channels = len(mean)
        self._networks, self._mean, self._spread = [network.float().eval() for network in networks], mean, spread

    @property
    def models(self) -> Sequence[nn.Module]:
        """Return the networks, best first."""
        return self._networks

    @classmethod
    def of(
        cls,
        members: Sequence[Member],
        networks: Sequence[nn.Module],
        data: TargetData,
        classes: Sequence[str],
        *,
        error: float | None = None,
    ) -> Self:
        """Join networks trained on a dataset, best first; an unknown validation error is computed."""
        assert data.mean is not None  # noqa: S101  data of `TargetData.of` have both
        assert data.spread is not None  # noqa: S101
        joint_error = _error_of(networks, data) if error is None else error
        first = _error_of(networks[:1], data) if error is None and len(networks) > 1 else None
        classifier = cls(
            members,
            [network.cpu() for network in networks],
            classes=classes,
            size=int(data.images.shape[1]),
            mean=data.mean.cpu(),
            spread=data.spread.cpu(),
            error=joint_error,
        )
        classifier.first_error = first
        return classifier

    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Compute the probabilities of the classes.

        Args:
            images: `n x size x size x 1` or `x 3` uint8, as read by
                `warmstart.history_store.readers.open_images(path).read(rows, size=size)`; converted to the channels of
                the training.

        Returns: `n x classes`.

        Raises:
            DataError: when the images are of another shape or type.
        """
        taken = fitted_images(images, self.size, self.channels)
        pixels = (torch.from_numpy(np.ascontiguousarray(taken)).float() / 255 - self._mean) / self._spread
        return average(self._networks, pixels).double().numpy()

    def save(self, path: Path) -> None:
        """Write a safetensors file.

        Raises:
            StorageError: when the file cannot be written, or the disk is full.
        """
        header = {
            "members": [member.to_dict() for member in self.members],
            "classes": list(self.classes),
            "size": self.size,
            "error": self.error,
            "dataset": self.dataset,
        }
        tensors = {"mean": self._mean.contiguous(), "spread": self._spread.contiguous()}
        for i, network in enumerate(self._networks):
            tensors |= {f"{i}.{name}": tensor.contiguous() for name, tensor in network.state_dict().items()}
        replace_file(path, save(tensors, metadata=to_metadata("cnn", header)))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file of `save`.

        Raises:
            MissingPathError: when the file is missing.
            ModelError: when the file is of another kind, damaged or of a newer version.
        """
        header = read_header(path)
        try:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
            mean, size, classes = tensors["mean"], check_size(header["size"]), header["classes"]
            members = [Member(**member) for member in header["members"]]
            networks = []
            for i, member in enumerate(members):
                config, prefix = TargetConfig.of(member.config), f"{i}."
                state = {
                    name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)
                }
                networks.append(load_network(partial(build_network, config, len(mean), size, len(classes)), state))
            return cls(
                members,
                networks,
                classes=classes,
                size=size,
                mean=mean,
                spread=tensors["spread"],
                error=header["error"],
            )
        except WarmstartError:
            raise
        except (
            SafetensorError,
            LookupError,
            TypeError,
            ValueError,
            ArithmeticError,
            AttributeError,
            RuntimeError,
        ) as error:
            raise not_a_classifier(path, error) from error


def average(networks: Sequence[nn.Module], pixels: torch.Tensor) -> torch.Tensor:
    """Average the probabilities of networks: `n x s x s x c` standardised pixels -> `n x classes`."""
    parts = []
    with torch.no_grad():
        for batch in torch.split(pixels, BATCH):
            logits = [network.eval()(batch.permute(0, 3, 1, 2)).float() for network in networks]
            parts.append(torch.stack(logits).softmax(-1).mean(0))
    return torch.cat(parts)


def _error_of(networks: Sequence[nn.Module], data: TargetData) -> float:
    chosen = average([network.to(data.val_images.device) for network in networks], data.val_images).argmax(1)
    return int((chosen != data.val_labels).sum()) / len(data.val_labels)
