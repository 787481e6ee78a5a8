"""The data of `plot map`: the datasets of a history in a plane, with a query."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSource
from warmstart.plots.map import DatasetMap, QueryPoint
from warmstart.plots.plane import fit_plane
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.embedded_history import EmbeddedHistory

THUMBNAILS = 4
_NEAREST = 3


def map_history(
    dataset: str | None = None, *, advisor: Advisor | None = None
) -> tuple[DatasetMap, EmbeddedHistory, tuple[str, ...]]:
    """Compute the map of an advisor's history, with a query; raises as `Advisor.neighbours`.

    The plane is fitted to the history alone, so that a query does not move it.

    Returns: the map, its history, and notes.
    """
    advisor = advisor or Advisor()
    location = None if dataset is None else advisor.locate(dataset)
    embedded = advisor.embedded if location is None else location.embedded
    if embedded.model is None:
        msg = f"{embedded.path}: expected a history with images to draw a map of, got runs alone. `warmstart history add` gives its datasets their images."
        raise DataError(msg)
    vectors = np.asarray(embedded.vectors)
    plane = fit_plane(vectors)
    query, notes = None, embedded.notes
    if dataset is not None and location is not None:
        order = np.argsort(location.distances, kind="stable")[:_NEAREST].tolist()
        nearest = [(location.names[i], float(location.distances[i])) for i in order]
        pictures_of = None if location.query is None else _query_pictures(location.query.source)
        query, notes = (
            QueryPoint(_display_name(dataset), plane.project(location.vector), nearest, pictures_of),
            location.notes,
        )
    lowest = np.min(np.nan_to_num(embedded.errors(), nan=np.inf), axis=1, initial=np.inf)
    parts, pictures = _parts_and_pictures(embedded.path)
    dataset_map = DatasetMap(
        names=embedded.names,
        groups=embedded.groups,
        positions=plane.project(vectors),
        lowest=np.where(np.isfinite(lowest), lowest, np.nan),
        share=plane.share,
        title=f"{embedded.path.name}: {len(embedded.names)} datasets of {len(set(embedded.groups))} groups",
        parts=parts,
        images=pictures,
        query=query,
    )
    return dataset_map, embedded, notes


def choose_pictures(labels: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose up to four pictures of different classes, spread over all classes."""
    classes, first = np.unique(labels[rows], return_index=True)
    if len(classes) >= THUMBNAILS:
        chosen = first[np.linspace(0, len(classes) - 1, THUMBNAILS).round().astype(np.int64)]
    else:
        chosen = np.unique(np.concatenate([first, np.arange(min(THUMBNAILS, len(rows)))]))[:THUMBNAILS]
    return rows[np.sort(chosen)]


def _parts_and_pictures(path: Path) -> tuple[frozenset[str], dict[str, NDArray[np.uint8]]]:
    """Return the names of datasets that are parts of others, and thumbnails of the rest with stored images."""
    pictures = {}
    with History.open(path) as history:
        names = set(history.names)
        parts = frozenset(info.name for info in history.datasets if info.parent in names)
        for name in history.names:
            if name not in parts and history.has_images(name):
                stored = history.images(name)
                rows = stored.rows("train")
                if len(rows):
                    pictures[name] = np.array(stored.array[choose_pictures(np.asarray(stored.labels), rows)])
    return parts, pictures


def _query_pictures(source: "ImageSource") -> NDArray[np.uint8] | None:
    """Decode thumbnails of the query; None if the chosen pictures are broken."""
    rows = np.asarray(source.splits.get("train", np.arange(len(source))))
    try:
        return source.read(choose_pictures(source.labels, rows), size=32).images
    except DataError:
        return None


def _display_name(dataset: str) -> str:
    """Return the last part of a path as a name."""
    return dataset.rpartition("::")[2] if "::" in dataset else Path(dataset).name or dataset
