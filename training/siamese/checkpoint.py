"""Checkpoint of a Siamese run: one safetensors file, replaced atomically, without pickle."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from warmstart.history_store.errors import ModelError, UsageError
from warmstart.history_store.json_text import finite, parse_json
from warmstart.metafeat.files import replace_file


@dataclass(frozen=True, slots=True)
class Validation:
    """Agreement of the distances to held-out datasets with the true ones, at one step.

    Attributes:
        step: number of updates so far.
        loss: mean squared residual over pairs (held-out, training) of datasets.
        spearman: rank correlation of embedding and target distance over these pairs; NaN for too few or equal ones.
        per_query: mean of the rank correlations within each held-out dataset's row, which decide the choice of
            neighbours.
    """

    step: int
    loss: float
    spearman: float
    per_query: float


@dataclass(slots=True)
class Curves:
    """Training loss of each step and every validation.

    Attributes:
        loss: of step 0, 1, ...
        validations: in order of their steps.
        stopped: `done`, `deadline`, or None while running.
    """

    loss: list[float] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    stopped: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the curves in JSON types; None = unknown."""
        fields: dict[str, Any] = finite(asdict(self))
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Read a record of `to_dict`."""
        validations = [
            Validation(**{name: _number(record[name]) for name in record}) for record in fields["validations"]
        ]
        return cls([*map(_number, fields["loss"])], validations, fields["stopped"])

    def save(self, path: str | Path) -> None:
        """Write the curves as JSON."""
        replace_file(Path(path), (json.dumps(self.to_dict()) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file of `save`."""
        return cls.from_dict(parse_json(Path(path).read_text(encoding="utf-8")))

    def plot(self, path: str | Path) -> None:
        """Plot training loss, its running mean and the validations to an image file; needs matplotlib."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        window = max(len(self.loss) // 40, 1)
        means = [
            sum(part) / len(part) for part in (self.loss[max(i - window + 1, 0) : i + 1] for i in range(len(self.loss)))
        ]
        left.plot(self.loss, color="0.8", linewidth=0.7, label="step")
        left.plot(means, color="C0", label=f"mean of {window}")
        left.set(xlabel="step", ylabel="training loss", yscale="log" if min(self.loss, default=0) > 0 else "linear")
        left.legend()
        steps = [v.step for v in self.validations]
        right.plot(steps, [v.spearman for v in self.validations], "o-", color="C1", label="all pairs")
        right.plot(steps, [v.per_query for v in self.validations], "o-", color="C2", label="per held-out dataset")
        right.set(xlabel="step", ylabel="Spearman, held-out datasets", ylim=(-1, 1))
        right.legend()
        figure.savefig(path, dpi=120)


def _number(value: Any) -> Any:
    """Convert None back to NaN."""
    return math.nan if value is None else value


FORMAT = "warmstart-siamese-checkpoint"
VERSION = 1
METADATA_KEY = "warmstart"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State of a run between two steps.

    Attributes:
        step: number of updates so far.
        weights: of the network, by name.
        moments: Adam's first and second, by parameter name.
        curves: so far.
        best: best validation score and its weights, if any.
    """

    step: int
    weights: Mapping[str, Tensor]
    moments: Mapping[str, tuple[Tensor, Tensor]]
    curves: Curves
    best: tuple[float, dict[str, Tensor]] | None


def save_checkpoint(path: Path, state: Checkpoint, identity: Mapping[str, Any]) -> None:
    """Write a checkpoint; `identity` identifies its run.

    Raises:
        StorageError: when the file cannot be written, or the disk is full.
    """
    tensors = {f"weights/{name}": tensor for name, tensor in state.weights.items()}
    for name, pair in state.moments.items():
        tensors |= {f"moment{i}/{name}": tensor for i, tensor in enumerate(pair)}
    if state.best is not None:
        tensors |= {f"best/{name}": tensor for name, tensor in state.best[1].items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "identity": dict(identity),
        "step": state.step,
        "best": None if state.best is None else state.best[0],
        "curves": state.curves.to_dict(),
    }
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    replace_file(path, to_safetensors(plain, metadata={METADATA_KEY: json.dumps(header)}))


def load_checkpoint(path: Path, identity: Mapping[str, Any]) -> Checkpoint:
    """Read a checkpoint of the same run.

    Raises:
        ModelError: when the file is damaged, of another kind or version.
        UsageError: when it belongs to a run with other data, settings or seed.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = parse_json((file.metadata() or {})[METADATA_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        kind_and_version = (header["format"], header["version"])
        stored_identity = header["identity"]
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "moment0": {}, "moment1": {}, "best": {}}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition("/")
            parts[kind][rest] = tensor
        state = Checkpoint(
            header["step"],
            parts["weights"],
            {name: (first, parts["moment1"][name]) for name, first in parts["moment0"].items()},
            Curves.from_dict(header["curves"]),
            None if header["best"] is None else (header["best"], parts["best"]),
        )
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        msg = f"{path}: expected a checkpoint of Siamese training, got a file that is damaged or of another kind. Delete it to start anew."
        raise ModelError(msg) from error
    if kind_and_version != (FORMAT, VERSION):
        msg = f"{path}: expected format {FORMAT!r} version {VERSION}, got {kind_and_version[0]!r} version {kind_and_version[1]}. Upgrade warmstart or delete it to start anew."
        raise ModelError(msg)
    differing = sorted(key for key in identity if json.loads(json.dumps(identity[key])) != stored_identity.get(key))
    if differing:
        msg = f"{path}: expected a checkpoint of this run, got one with another {', '.join(differing)}. Give another path or delete it."
        raise UsageError(msg)
    return state
