"""Learning curves of a Siamese run: kept, written as JSON, plotted."""

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
        step: updates done.
        loss: mean squared residual over pairs (held-out, training) of datasets.
        spearman: rank correlation of embedding and target distance over those pairs; NaN where they are too few, or all alike.
        per_query: the same within each held-out dataset's row, averaged: the choice of neighbours depends on this.
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
        """Return the curves as JSON types; None = not known."""
        fields: dict[str, Any] = finite(asdict(self))
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Read a record of `to_dict`."""
        validations = [Validation(**{name: _number(each[name]) for name in each}) for each in fields["validations"]]
        return cls([*map(_number, fields["loss"])], validations, fields["stopped"])

    def save(self, path: str | Path) -> None:
        """Write the curves as JSON."""
        replace_file(Path(path), (json.dumps(self.to_dict()) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        return cls.from_dict(parse_json(Path(path).read_text(encoding="utf-8")))

    def plot(self, path: str | Path) -> None:
        """Draw training loss, its running mean and the validations into an image file; needs matplotlib."""
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
    """Read what `finite` wrote."""
    return math.nan if value is None else value
