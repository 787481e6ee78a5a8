"""Record of one evaluation of one configuration."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np

from warmstart.history_store.axes import plain_config
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.records import Config

Outcome = Literal["ok", "failed", "lost"]
"""End of an evaluation; lost: its worker did not answer in time."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One evaluation of a configuration.

    Attributes:
        config: hyperparameter values by name; an inactive hyperparameter is absent.
        error: to minimise; NaN when the evaluation failed, was lost, or missed a constraint and has none.
        status: end of the evaluation.
        duration: seconds; NaN = unknown.
        constraints: whether each observed constraint is met.
    """

    config: Config
    error: float
    status: Outcome = "ok"
    duration: float = math.nan
    constraints: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def valid(self) -> bool:
        """Return whether the evaluation succeeded and met every observed constraint."""
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
        """Check a report and return its record; a NaN or infinite error is a failure; None needs a missed constraint.

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
        met = {str(name): _truth(name, flag) for name, flag in (constraints or {}).items()}
        has_none = error is None and not all(met.values())
        value = _number(error, "error", empty=status != "ok" or has_none)
        is_ok = status == "ok" and (math.isfinite(value) or has_none)
        outcome: Outcome = "lost" if status == "lost" else "ok" if is_ok else "failed"
        return cls(
            plain_config(config), value if outcome == "ok" else math.nan, outcome, seconds, MappingProxyType(met)
        )

    def checked(self, config: Config) -> Self:
        """Return a record with this configuration, checked as by `of`; raises as `of`."""
        is_left_out = self.error != self.error and self.status == "ok"
        error = None if is_left_out and self.constraints else self.error
        return self.of(config, error, duration=self.duration, status=self.status, constraints=self.constraints)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy through `to_dict`: a read-only mapping cannot be pickled."""
        return type(self).from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """Return the record in JSON types, None for NaN."""
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
            DataError: when the record is damaged.
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
    """Return a number as float; NaN for None if it may be empty."""
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
    """Return a truth value, also from 0, 1 and numpy's types."""
    if isinstance(value, bool | int | float | np.generic) and value in (
        True,
        False,
    ):  # 1, 0 and numpy's are equal to them
        return bool(value)
    msg = f"tell: expected constraints to be met or not, got {name!r}: {value!r}. Give True or False."
    raise UsageError(msg)
