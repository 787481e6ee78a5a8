"""Observations: one evaluation of one configuration, as the optimiser keeps it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np

from warmstart.bo.space.axes import plain_config
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.records import Config

Outcome = Literal["ok", "failed", "lost"]
"""How an evaluation ended; lost: its worker did not answer in time."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One evaluation.

    Attributes:
        config: hyperparameter values by name; an inactive hyperparameter is absent.
        error: what is minimised; NaN where the evaluation failed or was lost, or missed a constraint and has none.
        status: how it ended.
        duration: seconds; NaN = unknown.
        constraints: whether each constraint that was looked at is met.
    """

    config: Config
    error: float
    status: Outcome = "ok"
    duration: float = math.nan
    constraints: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def valid(self) -> bool:
        """Return whether it has an error and meets every constraint that was evaluated."""
        return self.status == "ok" and all(self.constraints.values())

    @classmethod
    def of(
        cls,
        config: Config,
        error: float | None,
        *,
        duration: float | None = None,
        status: str = "ok",
        constraints: Mapping[str, bool] | None = None,
    ) -> Self:
        """Check what a caller reports; an error that is NaN or infinite is a failure, one that is left out a missed constraint's.

        Raises:
            UsageError: when a value is of another kind, or a duration is negative or infinite.
        """
        if status not in get_args(Outcome):
            msg = f"tell: expected status {', '.join(get_args(Outcome))}, got {status!r}. Leave it out for an evaluation that succeeded."
            raise UsageError(msg)
        seconds = _number(duration, "duration", empty=True)
        if seconds < 0 or math.isinf(seconds):
            msg = f"tell: expected a duration of 0 or more seconds, got duration={seconds}. Leave it out where it is unknown."
            raise UsageError(msg)
        bounds: object = constraints
        if bounds is not None and not isinstance(bounds, Mapping):
            msg = f"tell: expected constraints by name, got {bounds!r}. Give a dictionary of names and truth values."
            raise UsageError(msg)
        met = {str(name): _truth(name, given) for name, given in (constraints or {}).items()}
        has_none = error is None and not all(met.values())
        value = _number(error, "error", empty=status != "ok" or has_none)
        is_ok = status == "ok" and (math.isfinite(value) or has_none)
        outcome: Outcome = "lost" if status == "lost" else "ok" if is_ok else "failed"
        return cls(
            plain_config(config), value if outcome == "ok" else math.nan, outcome, seconds, MappingProxyType(met)
        )

    def checked(self, config: Config) -> Self:
        """Return it as `of` reads it, whoever made it, with a configuration of its own; raises as `of`."""
        is_left_out = self.error != self.error and self.status == "ok"
        error = None if is_left_out and self.constraints else self.error
        return self.of(config, error, duration=self.duration, status=self.status, constraints=self.constraints)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the record: a read-only mapping cannot be."""
        return type(self).from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it, None for NaN."""
        return {
            "config": dict(self.config),
            "error": None if math.isnan(self.error) else self.error,
            "status": self.status,
            "duration": None if math.isnan(self.duration) else self.duration,
            "constraints": dict(self.constraints),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read a record of `to_dict`.

        Raises:
            DataError: when it is none.
        """
        try:
            return cls.of(
                record["config"],
                record["error"],
                duration=record["duration"],
                status=record["status"],
                constraints=record["constraints"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            msg = (
                f"observation: expected a record of Observation.to_dict, got {record!r} ({error}). Save the run again."
            )
            raise DataError(msg) from error


def _number(value: Any, name: str, *, empty: bool) -> float:
    """Read a number, NaN for None where it may be left out."""
    if value is None and empty:
        return math.nan
    try:
        bare = value.item() if hasattr(value, "item") else value  # numpy's and torch's numbers
        if isinstance(bare, bool | str | bytes):
            raise TypeError(bare)  # noqa: TRY301  float("0.5") and float(True) are numbers, but "0.5" and True are none
        return float(bare)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        advice = "leave it out where it is unknown" if name == "duration" else "status='failed' where there is none"
        msg = f"tell: expected {name} to be a number, got {value!r}. Give a float, or {advice}."
        raise UsageError(msg) from error


def _truth(name: object, value: object) -> bool:
    """Read whether a constraint is met."""
    if isinstance(value, bool | int | float | np.generic) and value in (
        True,
        False,
    ):  # 1, 0 and numpy's are equal to them
        return bool(value)
    msg = f"tell: expected constraints to be met or not, got {name!r}: {value!r}. Give True or False."
    raise UsageError(msg)
