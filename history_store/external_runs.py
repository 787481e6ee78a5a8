"""Runs of another tool as columns, before they are converted to a history's space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.limits import CELL_BYTES, check_unpacked
from warmstart.history_store.records import Status

Curve = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class ForeignParameter:
    """Description of a hyperparameter by another tool.

    Attributes:
        low: lower bound; None = unknown, or no number.
        high: upper bound, likewise.
        log: whether it is searched on a logarithmic scale.
        choices: its values, where they are listed.
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[object, ...] = ()

    def __str__(self) -> str:
        if self.choices:
            return ", ".join(map(str, self.choices))
        if self.low is None or self.high is None:
            return "unknown"
        return f"{self.low:.6g} .. {self.high:.6g}" + (" (log)" if self.log else "")


@dataclass(frozen=True, slots=True, eq=False)
class ForeignRuns:
    """`n` runs of another tool.

    Attributes:
        kind: a name for people, e.g. ``Optuna study 'cnn'``.
        origins: `n` origins of the evaluations; a run has the same wherever its files lie.
        params: `n` values by name of the hyperparameter, None = not set in that run.
        values: `n` objective values as the tool has them; NaN where the status carries none.
        status: `n`.
        datasets: `n` names of datasets; None = unknown to the tool.
        durations: `n` seconds, NaN = unknown.
        seeds: `n`, None = unknown.
        curves: `n` curves of (step, objective value).
        maximised: whether large values are good; None = unknown to the tool.
        space: descriptions of the hyperparameters, by name.
        left_out: number of runs that are no result, by reason.
        are_hints: whether a dataset that a person names replaces those of the tool.
        are_fractions: whether values that are per cent in the source are fractions here.
        former_origin: what version 0.2 recorded in place of `origins`; empty where it did not differ.
        switches: names of settings with the same truth value in all runs; not reported if a space lacks them.

    Raises:
        DataError: a name that is no text.
    """

    kind: str
    params: Mapping[str, Sequence[object]]
    values: NDArray[np.float64]
    status: Sequence[Status]
    datasets: Sequence[str | None]
    durations: NDArray[np.float64]
    seeds: Sequence[int | None]
    origins: Sequence[str]
    curves: Sequence[Curve]
    maximised: bool | None = False
    space: Mapping[str, ForeignParameter] = field(default_factory=lambda: MappingProxyType({}))
    left_out: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    are_hints: bool = False
    are_fractions: bool = False
    former_origin: str = ""
    switches: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names_by_label: dict[str, Sequence[object]] = {  # a damaged file holds anything
            "hyperparameters": [*self.params, *self.space],
            "datasets": [name for name in self.datasets if name is not None],
        }
        for label, names in names_by_label.items():
            for name in names:
                if not isinstance(name, str):
                    msg = f"{self.kind}: expected text as the names of {label}, got {name!r:.80}. Export the runs anew."
                    raise DataError(msg)

    def __len__(self) -> int:
        return len(self.values)


def as_columns(rows: Sequence[Mapping[str, Any]], location: str = "runs") -> dict[str, list[Any]]:
    """Turn one mapping a row into one list a name; None = the row lacks the name.

    Raises:
        DataError: rows with so many names of their own that the lists would be far larger than the rows.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    check_unpacked(CELL_BYTES * len(names) * len(rows), sum(map(len, rows)), location)
    return {name: [row.get(name) for row in rows] for name in names}


def objective_number(names: Sequence[str], metric: str | None, location: str) -> int:
    """Return the index of the objective that is the error.

    Raises:
        UsageError: none of that name, or several to choose from.
    """
    if metric is None and len(names) == 1:
        return 0
    if metric in names:
        return names.index(metric)
    msg = f"expected one of {', '.join(names)}, the objectives of {location}, got {metric or 'none'}. Name the one that is the error."
    raise UsageError(msg, param="metric")
