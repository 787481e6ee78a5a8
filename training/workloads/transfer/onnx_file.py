"""A saved classifier as an ONNX file, with the preparation of its pictures beside it as JSON."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from warmstart.history_store.extras import require_extra
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.heads import VOTE_TEMPERATURE, Head, LinearHead, NeighbourHead

_OPSET = 18
_TINY = 1e-12


class AveragedModels(Protocol):
    """What is read of a `TransferClassifier`; `models` are its `TransferModel`."""

    channels: int
    error: float
    training_images: int | None
    classes: tuple[str, ...]
    votes: tuple[float, ...]

    @property
    def models(self) -> Sequence[Any]:
        """Return the models, best first."""


def write_onnx(classifier: AveragedModels, path: Path) -> None:
    """Write an ONNX file and its JSON: pixels in, probabilities out, with any number of pictures.

    Raises:
        UsageError: the extra `onnx` is not installed.
        StorageError: a file cannot be written.
    """
    require_extra("onnx", "An ONNX file")
    network = _Network(classifier).eval()
    inputs = tuple(torch.zeros(2, 3, size, size) for size in network.sizes)
    names = [_input_name(size) for size in network.sizes]
    part = path.with_name(f".{path.name}.part")
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # of the exporter, on its own future
            torch.onnx.export(
                network,
                inputs,
                str(part),
                input_names=names,
                output_names=["probabilities"],
                dynamic_shapes=(tuple({0: torch.export.Dim("n")} for _ in inputs),),
                opset_version=_OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        replace_file(path, part.read_bytes(), durable=False)
    finally:
        part.unlink(missing_ok=True)
    text = json.dumps(preparation(classifier), indent=2, ensure_ascii=False) + "\n"
    replace_file(path.with_suffix(".json"), text.encode(), durable=False)


def preparation(classifier: AveragedModels) -> dict[str, Any]:
    """Return how pictures become the inputs of the ONNX file, and what comes out."""
    sizes = _sizes_of(classifier)
    return {
        "inputs": [
            {"name": _input_name(size), "shape": ["n", 3, size, size], "type": "float32", "size": size}
            for size in sizes
        ],
        "preparation": [
            "turn the picture as its EXIF orientation says, and make it RGB; a transparent one lies on white",
            f"cut the largest square out of its middle, and resize it to {sizes[0]} pixels a side (Lanczos, antialiased)",
            *(["make the pictures of the smaller inputs from that one, in the same way"] if len(sizes) > 1 else []),
            *(["make it grey, and give all three channels the same values"] if classifier.channels == 1 else []),
            "divide the values by 255; means and spreads are in the network",
        ],
        "output": {"name": "probabilities", "shape": ["n", len(classifier.classes)]},
        "classes": list(classifier.classes),
        "error": classifier.error,
    }


def _input_name(size: int) -> str:
    return f"pixels_{size}"


def _sizes_of(classifier: AveragedModels) -> list[int]:
    """Return the image sizes of the models, the largest first."""
    return sorted({model.image_size for model in classifier.models}, reverse=True)


class _Network(nn.Module):
    """The models of a classifier, averaged."""

    def __init__(self, classifier: AveragedModels) -> None:
        super().__init__()
        self.sizes = _sizes_of(classifier)
        keys = [model.pass_key for model in classifier.models]
        first = {key: number for number, key in reversed(list(enumerate(keys)))}
        self.bodies = nn.ModuleList(classifier.models[number].network for number in sorted(first.values()))
        order = {number: place for place, number in enumerate(sorted(first.values()))}
        self.body_of = [order[first[key]] for key in keys]
        self.size_of = [self.sizes.index(classifier.models[number].image_size) for number in sorted(first.values())]
        self.depths = [model.depth for model in classifier.models]
        self.heads = nn.ModuleList(_head_module(model.head) for model in classifier.models)
        self.votes = [vote / sum(classifier.votes) for vote in classifier.votes]
        images = math.inf if classifier.training_images is None else classifier.training_images
        self.shared, self.n_classes = 1 / (images + 1), len(classifier.classes)

    def forward(self, *pixels: torch.Tensor) -> torch.Tensor:
        """Compute the probabilities, `n x classes`."""
        features = [body(pixels[self.size_of[place]]) for place, body in enumerate(self.bodies)]
        mean = torch.zeros((), dtype=torch.float32)
        for head, place, depth, vote in zip(self.heads, self.body_of, self.depths, self.votes, strict=True):
            rows = torch.cat([features[place][part] for part in depth.split("+")], 1)
            mean = mean + vote * head(rows)
        return mean + (1 / self.n_classes - mean) * self.shared


def _head_module(head: Head) -> nn.Module:
    return _Linear(head) if isinstance(head, LinearHead) else _Neighbours(head)


class _Linear(nn.Module):
    """A `LinearHead`."""

    mean: torch.Tensor
    spread: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, head: LinearHead) -> None:
        super().__init__()
        self.unit = bool(head.unit)
        for name, array in (("mean", head.mean), ("spread", head.spread), ("weight", head.scale * head.weight), ("bias", head.scale * head.bias)):  # fmt: skip
            self.register_buffer(name, torch.from_numpy(np.asarray(array, np.float32)))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Compute the probabilities."""
        ready = (rows - self.mean) / self.spread
        return ((_unit(ready) if self.unit else ready) @ self.weight + self.bias).softmax(1)


class _Neighbours(nn.Module):
    """A `NeighbourHead`."""

    mean: torch.Tensor
    spread: torch.Tensor
    bank: torch.Tensor
    targets: torch.Tensor

    def __init__(self, head: NeighbourHead) -> None:
        super().__init__()
        self.k, self.n_classes = min(head.k, len(head.bank)), head.n_classes
        self.voters = head.k
        targets = np.eye(head.n_classes)[head.labels]
        for name, array in (("mean", head.mean), ("spread", head.spread), ("bank", head.bank), ("targets", targets)):
            self.register_buffer(name, torch.from_numpy(np.asarray(array, np.float32)))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Compute the votes with one more vote shared by all classes."""
        cosines = _unit((rows - self.mean) / self.spread) @ self.bank.T
        values, nearest = cosines.topk(self.k, dim=1)
        weights = ((values - values[:, :1]) / VOTE_TEMPERATURE).exp()
        votes = (weights[:, :, None] * self.targets[nearest]).sum(1)
        shares = votes / votes.sum(1, keepdim=True)
        return (self.voters * shares + 1 / self.n_classes) / (self.voters + 1)


def _unit(rows: torch.Tensor) -> torch.Tensor:
    lengths: torch.Tensor = rows.norm(dim=1, keepdim=True)
    return rows / lengths.clamp_min(_TINY)
