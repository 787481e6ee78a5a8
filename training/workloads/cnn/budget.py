"""Budgets of the training of a target network."""

from dataclasses import asdict, dataclass
from typing import Any

from warmstart.history_store.errors import UsageError


@dataclass(frozen=True, slots=True)
class Budget:
    """Length of one training run, and clock of its learning-rate decay.

    Attributes:
        name: part of the origin of each evaluation.
        updates: gradient steps; None = by `epochs`.
        epochs: passes over the training part; None = by `updates`.
        decay_updates: length of the run on the clock of the decay: step t counts as t * decay_updates / updates.
            None = each step counts as one.
        curve_points: validation errors along the run, the last at its end.
    """

    name: str
    updates: int | None = None
    epochs: int | None = None
    decay_updates: int | None = None
    curve_points: int = 8

    def __post_init__(self) -> None:
        lengths = [value for value in (self.updates, self.epochs) if value is not None]
        if len(lengths) != 1 or lengths[0] < 1 or self.curve_points < 1:
            msg = (
                f"budget {self.name!r}: expected either updates or epochs of at least 1 and at least one curve point, "
                f"got updates={self.updates}, epochs={self.epochs}, curve_points={self.curve_points}. Set exactly one length."
            )
            raise UsageError(msg)

    @property
    def unit(self) -> str:
        """Return the unit of an amount."""
        return "updates"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that errors depend on, for shards; the number of curve points is none of them."""
        return {name: value for name, value in asdict(self).items() if name != "curve_points"}

    def length(self, n_train: int, batch_size: int) -> int:
        """Return the number of updates of a run on n_train images."""
        if self.updates is not None:
            return self.updates
        assert self.epochs is not None  # noqa: S101  by __post_init__
        return self.epochs * max(n_train // batch_size, 1)

    def clock(self, step: int, length: int) -> float:
        """Return the time of the learning-rate decay at a step."""
        return float(step) if self.decay_updates is None else step * self.decay_updates / length


# A decay rate of 1e-4 to 1e-8 an update acts over 1e4 to 1e8 updates. Short runs keep that effect by stretching
# their clock to 1e5 updates, the length of some 200 epochs over 50,000 images.
COMPACT = Budget("compact-400", updates=400, decay_updates=100_000)
PAPER = Budget("paper", epochs=200)
BUDGETS = {budget.name: budget for budget in (COMPACT, PAPER)}
