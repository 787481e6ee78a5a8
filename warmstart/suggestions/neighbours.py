"""The datasets of a history that a query resembles."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from warmstart.suggestions.answer import Neighbour
from warmstart.suggestions.location import Location


def list_neighbours(place: Location, least: int, *, used: Collection[int | None] = ()) -> tuple[Neighbour, ...]:
    """List the nearest datasets, at least so many and all those used."""
    order = np.argsort(place.distances, kind="stable").tolist() if place.has_distances else []
    listed = [row for rank, row in enumerate(order) if rank < least or row in used]
    names, errors = place.names, place.embedded.errors[place.rows]
    return tuple(
        Neighbour(
            names[row],
            distance := float(place.distances[row]),
            _least_error(errors[row]),
            None if place.movement is None else (max(0.0, distance - place.movement), distance + place.movement),
        )
        for row in listed
    )


def _least_error(errors: NDArray[np.float64]) -> float | None:
    return None if np.isnan(errors).all() else float(np.nanmin(errors))
