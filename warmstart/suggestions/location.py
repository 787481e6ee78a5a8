"""Where a dataset lies among those of a history."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.images import ImageSource
from warmstart.metafeat.sample import SAMPLE
from warmstart.suggestions.answer import Confidence, DatasetSummary
from warmstart.suggestions.confidence import judge_query
from warmstart.suggestions.doubts import DISTANCES_SAY_NOTHING, Code
from warmstart.suggestions.embedded_history import MANY, EmbeddedHistory
from warmstart.suggestions.query import Query

if TYPE_CHECKING:
    from warmstart.metafeat.sample_statistics import SampleStatistics

EXACT = 256
"""Of more than `MANY` datasets, the distances of so many nearest ones are computed in double precision."""
AT_ONCE = 1024
"""Vectors that are compared at a time."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a dataset lies among those of a history that may answer.

    Attributes:
        query: the dataset, opened; None where it is known by its descriptor alone.
        vector: its meta-feature, `d` float32; empty where the embedded has no model.
        rows: `m` rows of the history that may answer.
        distances: `m` from the dataset to them; NaN where the embedded has no model.
        confidence: how far the dataset is from what the history knows.
        notes: what a person should hear.
        embedded: what is known of the history.
        summary: of the dataset.
        movement: how far distances move from one draw of the images to another; None where the history does not know.
        features: handcrafted features of its sample; None where the embedded has no model.
    """

    query: Query | None
    vector: NDArray[np.float32] = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    distances: NDArray[np.float64] = field(repr=False)
    confidence: Confidence
    notes: tuple[str, ...]
    embedded: EmbeddedHistory = field(repr=False)
    summary: DatasetSummary
    movement: float | None = None
    features: NDArray[np.float64] | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Name the `m` datasets that may answer."""
        return tuple(self.embedded.names[row] for row in self.rows.tolist())

    @property
    def groups(self) -> NDArray[np.int64]:
        """Number their sibling groups: `m`."""
        return self.embedded.group_numbers[self.rows]

    @property
    def has_distances(self) -> bool:
        """Tell whether any distance is known: there are images to compare with, and a model."""
        return self.embedded.model is not None

    @property
    def with_runs(self) -> "Location":
        """The same among the datasets of which runs are known; see `EmbeddedHistory.with_runs`."""
        rows = self.embedded.with_runs(self.rows)
        return replace(self, rows=rows, distances=self.distances[np.isin(self.rows, rows)])

    def at(self, places: NDArray[np.int64]) -> "Location":
        """Return the same among some of the datasets that may answer."""
        return replace(self, rows=self.rows[places], distances=self.distances[places])

    @property
    def is_blind(self) -> bool:
        """Tell whether distances say nothing about the dataset."""
        return not DISTANCES_SAY_NOTHING.isdisjoint(self.confidence.reasons)


def place_vector(
    vector: NDArray[np.float32],
    embedded: EmbeddedHistory,
    rows: NDArray[np.int64],
    *,
    query: Query | None,
    summary: DatasetSummary,
    sample: "SampleStatistics | None",
    notes: tuple[str, ...] = (),
) -> Location:
    """Measure the distances from a meta-feature to rows of an embedded history that has a model, and judge them."""
    distances = distances_to(vector, embedded, rows)
    has_runs = embedded.has_runs[rows]  # a dataset without any says nothing of the history's experience
    known = has_runs if has_runs.any() else slice(None)
    confidence = judge_query(
        embedded,
        rows[known],
        distances[known],
        sample=sample,
        class_names=() if query is None else query.source.class_names,
    )
    said = (*embedded.notes, *notes, *(() if confidence.typical else (confidence.note,)))
    looked_at = min(SAMPLE, summary.n_images) if sample is None else sample.n_images
    movement = None if embedded.references is None else embedded.references.movement(looked_at)
    return Location(query, vector, rows, distances, confidence, said, embedded, summary, movement)


def place_without_distances(
    embedded: EmbeddedHistory, rows: NDArray[np.int64], *, query: Query | None, summary: DatasetSummary, why: str = ""
) -> Location:
    """Place a dataset beside a history with which it cannot be compared; `why` is the cause, where it is another than these."""
    if not why:
        known = any(embedded.about[row].n_images for row in rows)
        why = "that takes a model, and none was used" if known else "it holds runs alone, no images"
    note = f"Nothing of the history could be compared with your images: {why}. Its configurations are those that do well on all of its datasets."
    confidence = Confidence(typical=False, distance_percentile=None, note=note, reasons=(Code.NOT_COMPARED.value,))
    distances, vector = np.full(len(rows), np.nan), np.zeros(0, np.float32)
    return Location(query, vector, rows, distances, confidence, (*embedded.notes, note), embedded, summary)


def own_name(source: ImageSource, embedded: EmbeddedHistory) -> str | None:
    """Return the query's name in the history where it is one of its datasets."""
    if source.layout != "history":
        return None
    file, _, name = source.location.rpartition("::")
    try:
        same = Path(file).samefile(embedded.path)
    except OSError:
        return None
    return name if same else None


def distances_to(
    vector: NDArray[np.float32], embedded: EmbeddedHistory, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute the Euclidean distances from a meta-feature to rows of an embedded history that has a model, in their order.

    Of more than `MANY` rows, the nearest are as exact as of fewer; the others are rounded to seven digits.
    """
    found, close = np.empty(len(rows)), np.arange(len(rows))
    if len(rows) > MANY:
        is_whole = len(rows) == len(embedded.vectors) and np.array_equal(rows, close)
        for start in range(0, len(rows), AT_ONCE):
            block = slice(start, start + AT_ONCE)
            apart = embedded.vectors[block if is_whole else rows[block]] - vector
            found[block] = np.einsum("ij,ij->i", apart, apart)
        close = np.argpartition(found, EXACT)[:EXACT]
    exact = embedded.vectors[rows[close]].astype(np.float64) - vector
    found[close] = np.square(exact).sum(axis=1)
    return np.sqrt(found)
