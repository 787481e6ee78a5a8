"""The datasets of a history that a query resembles."""

from collections.abc import Collection

import numpy as np

from warmstart.history_store.error_tables import least_error
from warmstart.suggestions.answer import Neighbour
from warmstart.suggestions.location import Location


def list_neighbours(place: Location, least: int, *, used: Collection[int | None] = ()) -> tuple[Neighbour, ...]:
    """List the nearest datasets, at least so many and all those used."""
    order = np.argsort(place.distances, kind="stable") if place.has_distances else np.zeros(0, np.int64)
    more = [row for row in order[least:].tolist() if row in used] if used else []
    return tuple(
        Neighbour(
            place.embedded.names[place.rows[row]],
            distance := float(place.distances[row]),
            least_error(place.embedded.errors[place.rows[row]]),
            None if place.movement is None else (max(0.0, distance - place.movement), distance + place.movement),
        )
        for row in [*order[:least].tolist(), *more]
    )
