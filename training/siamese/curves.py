"""Learning curves of a Siamese run, with JSON files and a plot."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

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
