"""The nearest datasets of a history to a query."""

from collections.abc import Collection

import numpy as np

from warmstart.history_store.error_tables import least_error
from warmstart.suggestions.location import Location
from warmstart.suggestions.records import Neighbour


def list_neighbours(location: Location, least: int, *, used: Collection[int] = ()) -> tuple[Neighbour, ...]:
    """Return the `least` nearest datasets, and all those whose rows are in `used`."""
    if len(location.rows) < min(least, len(location.among)):
        location = location.within(location.among, least)
    order = np.argsort(location.distances, kind="stable") if location.has_distances else np.zeros(0, np.int64)
    rows, distances = location.rows[order], location.distances[order]
    listed = [*range(min(least, len(rows))), *(least + np.flatnonzero(np.isin(rows[least:], list(used)))).tolist()]
    return tuple(
        Neighbour(
            location.embedded.names[rows[position]],
            distance := float(distances[position]),
            least_error(location.embedded.errors[rows[position]]),
            None
            if location.movement is None
            else (max(0.0, distance - location.movement), distance + location.movement),
        )
        for position in listed
    )
