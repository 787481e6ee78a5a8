"""The location of a dataset: its distances to the datasets of a history, and what the history knows of this very one."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.strategies import Choice
from warmstart.history_store.error_tables import least_error
from warmstart.history_store.images import ImageSource
from warmstart.history_store.records import Value
from warmstart.locations import is_shipped
from warmstart.metafeat.sample_statistics import SAMPLE
from warmstart.suggestions.confidence import DISTANCES_UNRELIABLE, Code, judge_query
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.query import Query, cached_fingerprint
from warmstart.suggestions.records import Confidence, DatasetSummary, Neighbour
from warmstart.suggestions.references import MANY

if TYPE_CHECKING:
    from warmstart.metafeat.sample_statistics import SampleStatistics


NEAREST = 500
"""Datasets that answer, the nearest ones, of more than `MANY`; more of them answer no better (`scripts/bench/fewer_nearest.py`)."""


def n_nearest(m: int) -> int:
    """Return how many of `m` datasets answer at most."""
    return MANY if m <= MANY else NEAREST


@dataclass(frozen=True, slots=True)
class Location:
    """A dataset with its distances to the datasets of a history.

    Attributes:
        query: the opened dataset; None for a descriptor.
        vector: its meta-feature, `d` float32; empty where the embedded has no model.
        among: rows of the history that may answer.
        rows: the `m` nearest of them, ascending: see `n_nearest`; all where the embedded has no model.
        distances: `m` from the dataset to them; NaN where the embedded has no model.
        confidence: how typical the dataset is for the history.
        notes: for people.
        embedded: the history.
        summary: of the dataset.
        movement: how far distances move from one draw of the images to another; None where the history does not know.
        features: handcrafted features of its sample; None where the embedded has no model.
        sharp_error: of larger pictures at more pixels; NaN = not known, see `SourceEmbedding`.
    """

    query: Query | None
    vector: NDArray[np.float32] = field(repr=False)
    among: NDArray[np.int64] = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    distances: NDArray[np.float64] = field(repr=False)
    confidence: Confidence
    notes: tuple[str, ...]
    embedded: EmbeddedHistory = field(repr=False)
    summary: DatasetSummary
    movement: float | None = None
    features: NDArray[np.float64] | None = field(default=None, repr=False)
    sharp_error: float = float("nan")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the `m` datasets."""
        return tuple(self.embedded.names[row] for row in self.rows.tolist())

    @property
    def groups(self) -> NDArray[np.int64]:
        """Return the numbers of their `m` sibling groups."""
        return self.embedded.group_numbers[self.rows]

    @property
    def has_distances(self) -> bool:
        """Tell whether distances are known, which takes a model and embeddings."""
        return self.embedded.model is not None

    @property
    def has_runs(self) -> bool:
        """Tell whether any of the datasets that may answer has runs."""
        has_runs = self.embedded.has_runs
        return bool(has_runs.all() or has_runs[self.among].any())

    @property
    def with_runs(self) -> "Location":
        """Return the location among the datasets with runs; see `EmbeddedHistory.with_runs`."""
        among = self.embedded.with_runs(self.among)
        return self if len(among) == len(self.among) else self.within(among)

    def within(self, among: NDArray[np.int64], k: int | None = None) -> "Location":
        """Return the location at the `k` nearest of some datasets, ascending; without distances at all of them."""
        k = n_nearest(len(among)) if k is None else k
        if not self.has_distances:
            return replace(self, among=among, rows=among, distances=np.full(len(among), np.nan))
        rows, distances = self.embedded.nearest(self.vector, among, k)
        return replace(self, among=among, rows=rows, distances=distances)

    def at(self, rows: NDArray[np.int64]) -> "Location":
        """Return the location at some datasets, ascending, near or not."""
        return replace(self, rows=rows, distances=self.embedded.distances_to(self.vector, rows))

    def neighbours(self, least: int, *, used: Collection[int] = ()) -> tuple[Neighbour, ...]:
        """Return the `least` nearest datasets, and all those whose rows are in `used`."""
        near = self
        if len(self.rows) < min(least, len(self.among)):
            near = self.within(self.among, least)
        order = np.argsort(near.distances, kind="stable") if self.has_distances else np.zeros(0, np.int64)
        rows, distances = near.rows[order], near.distances[order]
        listed = [*range(min(least, len(rows))), *(least + np.flatnonzero(np.isin(rows[least:], list(used)))).tolist()]
        errors = [least_error(row) for row in self.embedded.errors(rows[listed])]
        return tuple(
            Neighbour(
                self.embedded.names[rows[position]],
                distance := float(distances[position]),
                error,
                None if self.movement is None else (max(0.0, distance - self.movement), distance + self.movement),
            )
            for position, error in zip(listed, errors, strict=True)
        )

    @property
    def is_blind(self) -> bool:
        """Tell whether the distances are unreliable."""
        return not DISTANCES_UNRELIABLE.isdisjoint(self.confidence.reasons)


def locate_vector(
    vector: NDArray[np.float32],
    embedded: EmbeddedHistory,
    rows: NDArray[np.int64],
    *,
    query: Query | None,
    summary: DatasetSummary,
    sample: "SampleStatistics | None",
    notes: tuple[str, ...] = (),
) -> Location:
    """Locate a meta-feature among some rows of a history with a model, and judge its distances."""
    near, distances = embedded.nearest(vector, rows, n_nearest(len(rows)))
    # Only measured datasets count for the confidence.
    counted = embedded.with_runs(rows)
    measured_near, their_distances = near, distances
    if len(counted) < len(rows):
        measured_near, their_distances = embedded.nearest(vector, counted, n_nearest(len(counted)))
    confidence = judge_query(
        embedded,
        counted,
        measured_near,
        their_distances,
        sample=sample,
        class_names=() if query is None else query.source.class_names,
    )
    all_notes = (*embedded.notes, *notes, *(() if confidence.typical else (confidence.note,)))
    looked_at = min(SAMPLE, summary.n_images) if sample is None else sample.n_images
    movement = None if embedded.references is None else embedded.references.movement(looked_at)
    return Location(query, vector, rows, near, distances, confidence, all_notes, embedded, summary, movement)


def locate_without_distances(
    embedded: EmbeddedHistory, rows: NDArray[np.int64], *, query: Query | None, summary: DatasetSummary, why: str = ""
) -> Location:
    """Locate a dataset in a history that it cannot be compared with; `why` replaces the usual causes."""
    if not why:
        has_images = any(info.n_images for info in embedded.about.at(rows))
        why = "that takes a model, and none was used" if has_images else "it holds runs alone, no images"
    note = f"Nothing of the history could be compared with your images: {why}. Its configurations are those that do well on all of its datasets."
    confidence = Confidence(typical=False, distance_percentile=None, note=note, reasons=(Code.NOT_COMPARED.value,))
    distances, vector = np.full(len(rows), np.nan), np.zeros(0, np.float32)
    return Location(query, vector, rows, rows, distances, confidence, (*embedded.notes, note), embedded, summary)


def name_in_history(source: ImageSource, embedded: EmbeddedHistory) -> str | None:
    """Return the query's name in the history, if it is ``FILE.h5::name`` of that file."""
    if source.layout != "history":
        return None
    file, _, name = source.location.rpartition("::")
    try:
        same = Path(file).samefile(embedded.path)
    except OSError:
        return None
    return name if same else None


@dataclass(frozen=True, slots=True)
class TunedBefore:
    """The history's best configuration for the query's own images.

    Attributes:
        name: of the dataset in the history; of several with the same images, the one with the lowest error.
        n_measured: number of configurations measured on these images, failed ones included.
        best_error: lowest validation error, in [0, 1].
        config: the configuration that reached it.
        is_complete: every configuration of the history was measured on it.
        choice: the configuration as a strategy's choice; its neighbour is a position among the rows used.
        is_shipped: the shipped history measured it, not the user.
    """

    name: str
    n_measured: int
    best_error: float
    config: dict[str, Value]
    is_complete: bool
    choice: Choice
    is_shipped: bool = False

    @property
    def note(self) -> str:
        """Return a sentence on the earlier tuning."""
        of = f"the lowest of {self.n_measured} configurations" if self.n_measured > 1 else "of the only configuration"
        before = "The shipped history measured this dataset" if self.is_shipped else "You tuned this dataset before"
        return (
            f"{before}, as {self.name!r}: best known is error {self.best_error:.4g}, {of} measured on it; "
            "it comes first."
        )

    def first(self, choose: Callable[[int], Sequence[Choice]]) -> Callable[[int], Sequence[Choice]]:
        """Return a chooser that puts the best known configuration first."""
        return lambda k: [self.choice, *(choice for choice in choose(k) if choice.row != self.choice.row)][:k]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "name": self.name,
            "configurations_measured": self.n_measured,
            "best_error": self.best_error,
            "config": dict(self.config),
        }


def find_tuned_before(
    query: Query, embedded: EmbeddedHistory, rows: NDArray[np.int64], distances: NDArray[np.float64]
) -> TunedBefore | None:
    """Find the history's best result for the query's own images, by a fingerprint of all bytes.

    Bytes are read only where a dataset of the history has as many images as the query.

    Args:
        query: the dataset.
        embedded: the history.
        rows: `m` datasets used.
        distances: `m` from the query to them, NaN where unknown.

    Returns: the result; None if the dataset is not among them, or no run on it gave an error.
    """
    size = len(query.source)
    infos = embedded.about.at(rows)
    alike = [position for position, info in enumerate(infos) if info.fingerprint and info.n_of_source == size]
    if not alike:
        return None
    fingerprint = cached_fingerprint(query.source, "content")
    twins = [position for position in alike if infos[position].fingerprint == fingerprint]
    if not twins:
        return None
    errors, failed = embedded.outcomes(rows[twins])
    if np.isnan(errors).all():
        return None
    twin, best = (int(index) for index in np.unravel_index(np.nanargmin(errors), errors.shape))
    measured = (~np.isnan(errors) | failed).any(axis=0)
    position, error = twins[twin], float(errors[twin, best])
    distance = float(distances[position])
    return TunedBefore(
        embedded.names[int(rows[position])],
        int(measured.sum()),
        error,
        dict(embedded.configs[best]),
        bool(measured.all()),
        Choice(best, position, distance=None if np.isnan(distance) else distance, source_error=error),
        is_shipped(embedded.path),
    )
