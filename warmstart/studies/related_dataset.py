"""A related dataset of a study: what is known of it, as the plan keeps it."""

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
"""Evaluations of all of them together, at most: an ask takes half a CPU second then, the first one three."""


@dataclass(frozen=True, slots=True)
class RelatedDataset:
    """What a study learns of another dataset.

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
        """Read what `dataclasses.asdict` gave, from JSON."""
        fields = {name: optional_tuple(record[name]) for name in ("configs", "errors", "meta_feature")}
        return cls(record["name"], record["distance"], **fields)

    def task(self) -> RelatedTask:
        """Return it as the optimiser takes it."""
        from warmstart.bo.related import RelatedTask

        return RelatedTask(self.configs, self.errors, self.meta_feature)

    def summary(self) -> dict[str, str | float | int | None]:
        """Say what was used, without it."""
        return {"name": self.name, "distance": self.distance, "evaluations": len(self.errors)}


def optional_tuple(values: Sequence[Any] | None) -> Any:
    """Return a tuple, which JSON does not have."""
    return None if values is None else tuple(values)
