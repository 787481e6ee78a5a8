"""Matches of hyperparameters between two spaces, and a person's wishes about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from warmstart.history_store.records import Value

Action = Literal["kept", "renamed", "rescaled", "snapped", "clipped", "filled", "dropped"]
Outside = Literal["clip", "drop"]
Column = list[Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """A person's wishes about a mapping.

    Attributes:
        rename: our name by theirs.
        fill: values for hyperparameters of ours where theirs have none, as typed or as values.
        rescale: name of a rescaling by their name; see `RESCALINGS`.
        outside: what to do with numbers outside our bounds: `clip` them, or `drop` the runs.
        nearest: the configurations are to be tried, they are no runs that were measured: a number goes to the nearest
            of choices that are numbers, and a scale is told by names alone.
        is_trusted: with `nearest`, scales are those of the names, whatever the values.
    """

    rename: Mapping[str, str] = field(default_factory=dict)
    fill: Mapping[str, Value] = field(default_factory=dict)
    rescale: Mapping[str, str] = field(default_factory=dict)
    outside: Outside = "clip"
    nearest: bool = False
    is_trusted: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """Result of the mapping for one hyperparameter.

    Attributes:
        there: name in the other space; None = it lacks it.
        here: name in ours; None = dropped.
        action: the largest change.
        reason: why, in words.
        clipped: number of configurations whose value was moved to a bound; `rounded` to a whole number; `snapped` to
            the nearest choice.
        filled: number of configurations that got a missing value.
        lost: number of configurations that cannot be expressed because of it.
        rule: by which the two names are a pair; empty if they are none.
    """

    there: str | None
    here: str | None
    action: Action
    reason: str
    clipped: int = 0
    rounded: int = 0
    filled: int = 0
    lost: int = 0
    snapped: int = 0
    rule: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "there": self.there,
            "here": self.here,
            "action": self.action,
            "reason": self.reason,
            "clipped": self.clipped,
            "rounded": self.rounded,
            "filled": self.filled,
            "lost": self.lost,
            "snapped": self.snapped,
            "rule": self.rule,
        }
