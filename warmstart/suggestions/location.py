"""The location of a dataset: its distances to the datasets of a history."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.images import ImageSource
from warmstart.metafeat.sample import SAMPLE
from warmstart.suggestions.confidence import judge_query
from warmstart.suggestions.doubts import DISTANCES_UNRELIABLE, Code
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.norms import MANY
from warmstart.suggestions.query import Query
from warmstart.suggestions.records import Confidence, DatasetSummary

if TYPE_CHECKING:
    from warmstart.metafeat.sample_statistics import SampleStatistics

EXACT = 256
"""Of more than `MANY` datasets, this many nearest distances are computed in double precision."""
AT_ONCE = 1024
"""Vectors per block of distances."""


@dataclass(frozen=True, slots=True)
class Location:
    """A dataset with its distances to the datasets of a history.

    Attributes:
        query: the opened dataset; None for a descriptor.
        vector: its meta-feature, `d` float32; empty where the embedded has no model.
        rows: `m` rows of the history to answer from.
        distances: `m` from the dataset to them; NaN where the embedded has no model.
        confidence: how typical the dataset is for the history.
        notes: for people.
        embedded: the history.
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
    def with_runs(self) -> "Location":
        """Return the location among the datasets with runs; see `EmbeddedHistory.with_runs`."""
        rows = self.embedded.with_runs(self.rows)
        return replace(self, rows=rows, distances=self.distances[np.isin(self.rows, rows)])

    def at(self, positions: NDArray[np.int64]) -> "Location":
        """Return the location among the datasets at some positions."""
        return replace(self, rows=self.rows[positions], distances=self.distances[positions])

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
    """Locate a meta-feature in a history with a model: compute and judge its distances."""
    distances = distances_to(vector, embedded, rows)
    # Only measured datasets count for the confidence.
    has_runs = embedded.has_runs[rows]
    counted = has_runs if has_runs.any() else slice(None)
    confidence = judge_query(
        embedded,
        rows[counted],
        distances[counted],
        sample=sample,
        class_names=() if query is None else query.source.class_names,
    )
    all_notes = (*embedded.notes, *notes, *(() if confidence.typical else (confidence.note,)))
    looked_at = min(SAMPLE, summary.n_images) if sample is None else sample.n_images
    movement = None if embedded.references is None else embedded.references.movement(looked_at)
    return Location(query, vector, rows, distances, confidence, all_notes, embedded, summary, movement)


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
    return Location(query, vector, rows, distances, confidence, (*embedded.notes, note), embedded, summary)


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


def distances_to(
    vector: NDArray[np.float32], embedded: EmbeddedHistory, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute the Euclidean distances from a meta-feature to rows of a history with a model.

    Of more than `MANY` rows, the nearest are as exact as of fewer; the others are rounded to seven digits.
    """
    squares, nearest = np.empty(len(rows)), np.arange(len(rows))
    if len(rows) > MANY:
        is_whole = len(rows) == len(embedded.vectors) and np.array_equal(rows, nearest)
        # In blocks and single precision first, to bound time and memory.
        for start in range(0, len(rows), AT_ONCE):
            block = slice(start, start + AT_ONCE)
            differences = embedded.vectors[block if is_whole else rows[block]] - vector
            squares[block] = np.einsum("ij,ij->i", differences, differences)
        nearest = np.argpartition(squares, EXACT)[:EXACT]
    exact = embedded.vectors[rows[nearest]].astype(np.float64) - vector
    squares[nearest] = np.square(exact).sum(axis=1)
    return np.sqrt(squares)
