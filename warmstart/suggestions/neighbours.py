"""The nearest datasets of a history to a query."""

from collections.abc import Collection

import numpy as np

from warmstart.history_store.error_tables import least_error
from warmstart.suggestions.location import Location
from warmstart.suggestions.records import Neighbour


def list_neighbours(location: Location, least: int, *, used: Collection[int | None] = ()) -> tuple[Neighbour, ...]:
    """Return the `least` nearest datasets, and all those in `used`."""
    order = np.argsort(location.distances, kind="stable") if location.has_distances else np.zeros(0, np.int64)
    more = [row for row in order[least:].tolist() if row in used] if used else []
    return tuple(
        Neighbour(
            location.embedded.names[location.rows[row]],
            distance := float(location.distances[row]),
            least_error(location.embedded.errors[location.rows[row]]),
            None
            if location.movement is None
            else (max(0.0, distance - location.movement), distance + location.movement),
        )
        for row in [*order[:least].tolist(), *more]
    )
