"""The networks that a study was for: the best configurations trained again, kept in a file, and asked about images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from history_store.errors import DataError, MissingPathError, ModelError
from history_store.records import Value
from metafeat.device import cpu_threads
from metafeat.files import replace_file
from training.target import TargetData, train_target
from training.target_config import TargetConfig
from training.target_network import build_network
from warmstart.studies.objective import TrialStatus
from warmstart.studies.target_objective import read_target_data, run_length
from warmstart.studies.trial import Trial

if TYPE_CHECKING:
    from torch import nn

    from warmstart.studies.plan import Plan

METADATA_KEY = "warmstart-networks"
SCHEMA = 1
BATCH = 256


@dataclass(frozen=True, slots=True)
class Member:
    """One trained network: the trial that it repeats, and the validation error that it reached."""

    trial: int
    config: dict[str, Value]
    seed: int
    error: float


class Networks:
    """Trained target networks whose probabilities are averaged; often one alone.

    Attributes:
        members: best first.
        classes: their names, in the order of the probabilities.
        size: pixels a side of the images.
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

    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Give the probabilities of the classes.

        Args:
            images: `n x size x size x channels` uint8, as `history_store.readers.open_images(path).read(rows, size=size)` gives.

        Returns: `n x classes`.

        Raises:
            DataError: when the images are of another shape or type.
        """
        wanted = (self.size, self.size, self.channels)
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != wanted:
            msg = f"networks: expected images n x {' x '.join(map(str, wanted))} of uint8, got {images.dtype} of shape {images.shape}. Read them with open_images(path).read(rows, size={self.size})."
            raise DataError(msg)
        pixels = (torch.from_numpy(np.ascontiguousarray(images)).float() / 255 - self._mean) / self._spread
        return average(self._networks, pixels).double().numpy()

    def save(self, path: Path) -> None:
        """Write a safetensors file.

        Raises:
            StorageError: the place cannot be written, or is full.
        """
        header = {
            "schema_version": SCHEMA,
            "members": [asdict(member) for member in self.members],
            "classes": list(self.classes),
            "size": self.size,
            "error": self.error,
        }
        tensors = {"mean": self._mean.contiguous(), "spread": self._spread.contiguous()}
        for i, network in enumerate(self._networks):
            tensors |= {f"{i}.{name}": tensor.contiguous() for name, tensor in network.state_dict().items()}
        replace_file(path, save(tensors, metadata={METADATA_KEY: json.dumps(header)}))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            MissingPathError: when there is no such file.
            ModelError: when it is something else, damaged or of a newer version.
        """
        if not Path(path).is_file():
            msg = f"{path}: expected a file of networks, got none. Check the path; `warmstart tune --save-model` writes one."
            raise MissingPathError(msg)
        try:
            with safe_open(path, framework="pt") as file:
                header: dict[str, Any] = json.loads(file.metadata()[METADATA_KEY])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
            if header["schema_version"] != SCHEMA:
                msg = f"{path}: expected networks of version {SCHEMA}, got {header['schema_version']!r}. Upgrade warmstart."
                raise ModelError(msg)
            mean, size, classes = tensors["mean"], header["size"], header["classes"]
            members = [Member(**member) for member in header["members"]]
            networks = []
            for i, member in enumerate(members):
                network = build_network(TargetConfig.of(member.config), len(mean), size, len(classes))
                prefix = f"{i}."
                network.load_state_dict(
                    {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}
                )
                networks.append(network)
            return cls(
                members,
                networks,
                classes=classes,
                size=size,
                mean=mean,
                spread=tensors["spread"],
                error=header["error"],
            )
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            msg = f"{path}: expected networks that `warmstart tune --save-model` wrote, got something else ({type(error).__name__}: {error}). Write them again: the same command takes the trials that it has."
            raise ModelError(msg) from error


def train_best(plan: Plan, trials: Sequence[Trial], *, k: int) -> Networks:
    """Train the k best configurations of a study of the target network again, each with the seed of its trial.

    On the device of the study this gives the networks that the trials had.

    Args:
        plan: of the study.
        trials: that ended, at least one of them well.
        k: networks; fewer where fewer trials ended well.

    Raises:
        DataError: when the dataset cannot be read any more.
    """
    assert plan.dataset is not None  # noqa: S101  the target network has one
    valid = sorted((t for t in trials if t.status is TrialStatus.OK and t.feasible), key=lambda t: (t.error, t.number))
    members: list[Member] = []
    networks: list[nn.Module] = []
    with cpu_threads(1):
        data, classes = read_target_data(plan.dataset, device=plan.device)
        length = run_length(str(plan.objective["target_budget"]), plan.budget)
        for trial in valid[:k]:
            result = train_target(data, trial.config, length, seed=trial.seed, keep=networks.append)
            members.append(Member(trial.number, dict(trial.config), trial.seed, result.error))
        assert data.mean is not None  # noqa: S101  standardised here
        assert data.spread is not None  # noqa: S101
        return Networks(
            members,
            [network.cpu() for network in networks],
            classes=classes,
            size=int(data.images.shape[1]),
            mean=data.mean.cpu(),
            spread=data.spread.cpu(),
            error=_error_of(networks, data),
        )


def average(networks: Sequence[nn.Module], pixels: torch.Tensor) -> torch.Tensor:
    """Average the probabilities of networks: `n x s x s x c` standardised pixels -> `n x classes`."""
    parts = []
    with torch.no_grad():
        for batch in torch.split(pixels, BATCH):
            logits = [network.eval()(batch.permute(0, 3, 1, 2)).float() for network in networks]
            parts.append(torch.stack(logits).softmax(-1).mean(0))
    return torch.cat(parts)


def _error_of(networks: Sequence[nn.Module], data: TargetData) -> float:
    chosen = average(networks, data.val_images).argmax(1)
    return int((chosen != data.val_labels).sum()) / len(data.val_labels)
