"""A related dataset of a study, as the plan stores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from warmstart.history_store.records import Config

if TYPE_CHECKING:
    from warmstart.bo.related import RelatedTask

AUTO = "auto"
"""Stands for the nearest datasets of the history."""
NEIGHBOURS = 3
EVALUATIONS = 30
"""Evaluations of a related dataset that are used, at most."""
TOTAL = 120
"""Evaluations of all related datasets, at most: with so many an ask takes half a CPU second, the first one three."""


@dataclass(frozen=True, slots=True)
class RelatedDataset:
    """Evaluations of another dataset, for a study to learn from.

    Attributes:
        name: in the history.
        distance: from the dataset of the study; None where that has no meta-feature.
        configs: `n`, thinned.
        errors: `n`.
        meta_feature: None where one of the datasets has none.
    """

    name: str
    distance: float | None
    configs: Sequence[Config]
    errors: Sequence[float]
    meta_feature: Sequence[float] | None = None

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read a record of `dataclasses.asdict`, from JSON."""
        fields = {name: optional_tuple(record[name]) for name in ("configs", "errors", "meta_feature")}
        return cls(record["name"], record["distance"], **fields)

    def task(self) -> RelatedTask:
        """Return the related task for the optimiser."""
        from warmstart.bo.related import RelatedTask

        return RelatedTask(self.configs, self.errors, self.meta_feature)

    def summary(self) -> dict[str, str | float | int | None]:
        """Return name, distance and number of evaluations."""
        return {"name": self.name, "distance": self.distance, "evaluations": len(self.errors)}


def optional_tuple(values: Sequence[Any] | None) -> Any:
    """Return a list from JSON as a tuple, and None as None."""
    return None if values is None else tuple(values)
