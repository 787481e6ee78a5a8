"""Classifier of trained transfer models: one safetensors file, whose first backbone timm can load directly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.picture import square_arrays
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.backbones import has_fixed_size, make_network
from warmstart.metafeat.pretrained.depths import Depth, Features
from warmstart.metafeat.pretrained.features import FeatureNetwork, compute_features
from warmstart.metafeat.pretrained.heads import Head, head_from_tensors
from warmstart.training.workloads.base import Classifier, Member
from warmstart.training.workloads.classifier_file import not_a_classifier, read_header, to_metadata
from warmstart.training.workloads.classifier_images import fitted_images
from warmstart.training.workloads.familiar import Familiar
from warmstart.training.workloads.stored_network import check_size, load_network
from warmstart.training.workloads.transfer.onnx_file import write_onnx

PREFIX = "warmstart."
"""Prefix of the names of tensors outside the first backbone."""
_BANK = f"{PREFIX}familiar"


@dataclass(frozen=True, slots=True)
class TransferModel:
    """Trained model: a backbone and a head.

    Attributes:
        network: computes the features.
        head: on the features.
        depth: of the features.
        image_size: pixels of a side.
        origin: of the backbone and its weights, for the header: ``architecture``, ``weights``, ``licence``, ``tuned``.
        answers: `n x classes` probabilities of the images of its dataset (see `PreparedTransfer.seen`) by a model that
            has not seen them; NaN for others; None = unknown.
        channels: of the images, 1 or 3.
    """

    network: FeatureNetwork
    head: Head
    depth: Depth
    image_size: int
    origin: Mapping[str, Any]
    answers: NDArray[np.float64] | None = None
    channels: int = 3

    @property
    def pass_key(self) -> tuple[str, int]:
        """Return a key that is shared by models with the same features before the choice of depth."""
        weights = f"tuned {id(self.network)}" if self.origin["tuned"] else str(self.origin["weights"])
        return weights, self.image_size

    def features(self, images: NDArray[np.uint8]) -> Features:
        """Compute the features of images of any side."""
        return compute_features(self.network, square_arrays(images, self.image_size))

    def probabilities(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Compute the probabilities of the classes of images of any side, `n x classes`."""
        return self.head.probabilities(self.features(images).at(self.depth))


class TransferClassifier(Classifier):
    """Models on pretrained backbones with averaged probabilities, often a single one.

    Attributes:
        members: best first.
        classes: names in the order of the probabilities.
        size: image size, pixels of a side: the largest of the models, resized for the others.
        channels: 1 or 3.
        error: of the average, on images that no model has seen.
        interval: of the error, 80 %; None = unknown.
        training_images: least number of training images; None = unknown, as in old files.
        votes: weight of each model in the average; equal in old files.
    """

    _models: list[TransferModel]

    @property
    def models(self) -> Sequence[TransferModel]:
        """Return the models, best first."""
        return self._models

    def __init__(
        self,
        members: Sequence[Member],
        models: Sequence[TransferModel],
        *,
        classes: Sequence[str],
        channels: int,
        error: float,
        training_images: int | None = None,
        votes: Sequence[float] | None = None,
        interval: tuple[float, float] | None = None,
    ) -> None:
        self.members, self.classes, self.training_images = tuple(members), tuple(classes), training_images
        self.interval = interval
        self.votes = tuple(1.0 for _ in models) if votes is None else tuple(votes)
        self.size, self.channels, self.error = max(model.image_size for model in models), channels, error
        self._models = [replace(model, network=_on_cpu(model.network)) for model in models]

    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Compute the probabilities of the classes.

        Args:
            images: `n x size x size x 1` or `x 3` uint8, as read by
                `warmstart.history_store.readers.open_images(path).read(rows, size=size)`; converted to the channels of
                the training.

        Returns: `n x classes`, rows that sum to 1.

        Raises:
            DataError: when the images are of another shape or type.
        """
        return self.answer(images)[0]

    def answer(self, images: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """Compute the probabilities, and whether each image is unlike those learned; None = unknown."""
        inputs = fitted_images(images, self.size, self.channels)
        if not len(inputs):
            return np.zeros((0, len(self.classes))), None if self.familiar is None else np.zeros(0, bool)
        models = {model.pass_key: model for model in self._models}
        features = {key: model.features(inputs) for key, model in models.items()}
        probabilities = self.average(
            [model.head.probabilities(features[model.pass_key].at(model.depth)) for model in self._models]
        )
        if self.familiar is None:
            return probabilities, None
        return probabilities, self.familiar.unlike(features[self._models[self.familiar.model].pass_key].full)

    def average(self, probabilities: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Average the probabilities of the models, smoothed by one vote for all classes beside the training images'.

        So few images never make an answer certain; the most probable class does not change.
        """
        mean: NDArray[np.float64] = np.average(probabilities, axis=0, weights=self.votes)
        votes = math.inf if self.training_images is None else self.training_images
        return mean + (1 / len(self.classes) - mean) / (votes + 1)

    def write_onnx(self, path: Path) -> None:
        """Write an ONNX file, and the preparation of its pictures beside it as JSON; see `Classifier.write_onnx`."""
        write_onnx(self, path)

    def save(self, path: Path) -> None:
        """Write one safetensors file; `timm.create_model` loads the first model's backbone from it.

        Raises:
            StorageError: when the file cannot be written, or the disk is full.
        """
        tensors: dict[str, torch.Tensor] = {}
        prefixes: dict[str, str] = {}
        described = []
        for i, model in enumerate(self._models):
            key = f"tuned {i}" if model.origin["tuned"] else f"{model.origin['weights']} {_fixed_size(model)}"
            if key not in prefixes:
                # The first backbone has no prefix, so that timm finds its tensors by name.
                prefixes[key] = "" if not prefixes else f"{PREFIX}{i}.backbone."
                state = model.network.network.state_dict()
                tensors |= {prefixes[key] + name: tensor.contiguous().clone() for name, tensor in state.items()}
            for name, array in model.head.tensors().items():
                tensors[f"{PREFIX}{i}.head.{name}"] = torch.from_numpy(np.ascontiguousarray(array))
            if model.answers is not None:
                tensors[f"{PREFIX}{i}.answers"] = torch.from_numpy(model.answers)
            described.append({**_describe(model), "prefix": prefixes[key]})
        if self.familiar is not None:
            tensors[_BANK] = torch.from_numpy(self.familiar.bank).half()
        header = {
            "members": [member.to_dict() for member in self.members],
            "classes": list(self.classes),
            "size": self.size,
            "channels": self.channels,
            "error": self.error,
            "interval": self.interval,
            "dataset": self.dataset,
            "training_images": self.training_images,
            "pictures": None if self.examination is None else self.examination.counts,
            "votes": list(self.votes),
            "familiar": None if self.familiar is None else {"least": self.familiar.least, "model": self.familiar.model},
            "models": described,
        }
        replace_file(path, save(tensors, metadata=to_metadata("transfer", header)))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file of `save`.

        Raises:
            MissingPathError: when the file is missing.
            ModelError: when the file is of another kind, damaged or of a newer version.
            UsageError: when timm is not installed.
        """
        header = read_header(path)
        try:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
            networks: dict[tuple[str, int], FeatureNetwork] = {}
            models = []
            for i, record in enumerate(header["models"]):
                network_key = (record["prefix"], record["image_size"])
                if network_key not in networks:
                    networks[network_key] = _network(record, _part(tensors, record["prefix"]))
                head = head_from_tensors(
                    {name: tensor.numpy() for name, tensor in _part(tensors, f"{PREFIX}{i}.head.").items()}
                )
                origin = {key: record[key] for key in ("architecture", "weights", "licence", "tuned")}
                answers = tensors.get(f"{PREFIX}{i}.answers")
                models.append(
                    TransferModel(
                        networks[network_key], head, record["depth"], int(record["image_size"]), origin,
                        None if answers is None else answers.numpy(), int(header["channels"]),
                    )
                )  # fmt: skip
            members = [Member(**member) for member in header["members"]]
            settings = {name: header[name] for name in ("classes", "channels", "error")}
            training_images, votes = header.get("training_images"), header.get("votes")
            classifier = cls(
                members, models, **settings, training_images=training_images, votes=votes,
                interval=tuple(header["interval"]) if header.get("interval") else None,
            )  # fmt: skip
            if (familiar := header.get("familiar")) is not None:
                least, model = float(familiar["least"]), int(familiar["model"])
                classifier.familiar = Familiar(tensors[_BANK].float().numpy(), least, range(len(models))[model])
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
        return classifier


def _on_cpu(network: FeatureNetwork) -> FeatureNetwork:
    """Return a network on the CPU in evaluation mode; a network on another device is copied, as it may be in use."""
    on_cpu = all(parameter.device.type == "cpu" for parameter in network.parameters())
    return (network if on_cpu else deepcopy(network).cpu()).eval()


def _fixed_size(model: TransferModel) -> int | None:
    """Return the image size if the weights depend on it, as with positions or windows (vit, swin), else None."""
    return model.image_size if has_fixed_size(model.network.network) else None


def _describe(model: TransferModel) -> dict[str, Any]:
    mean, spread = (buffer.flatten().tolist() for buffer in (model.network.mean, model.network.spread))
    preprocessing = {
        "resize": "centre square, antialiased (Lanczos)",
        "size": model.image_size,
        "scale": "pixels / 255",
        "mean": mean,
        "std": spread,
    }
    return {**model.origin, "depth": model.depth, "image_size": model.image_size, "preprocessing": preprocessing}


def _network(record: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> FeatureNetwork:
    """Build a backbone with the tensors of a file."""
    size = check_size(record["image_size"])
    network = load_network(lambda: make_network(record["architecture"], size=size), state)
    preprocessing = record["preprocessing"]
    feature_network = FeatureNetwork(network, tuple(preprocessing["mean"]), tuple(preprocessing["std"]))
    return feature_network.to(memory_format=torch.channels_last).eval()


def _part(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the tensors with a prefix, under names without it; the empty prefix is that of the first backbone."""
    if not prefix:
        return {name: tensor for name, tensor in tensors.items() if not name.startswith(PREFIX)}
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
