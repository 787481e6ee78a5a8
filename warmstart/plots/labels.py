"""Placement of labels so that they overlap neither each other nor what they name."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_AIR = 1.5
"""Points between a label and its neighbours."""
_ANGLES = np.deg2rad([0, 180, 60, 120, 240, 300, 30, 150, 210, 330, 90, 270, 15, 165, 195, 345])


def place_labels(
    anchors: ArrayLike,
    sizes: ArrayLike,
    *,
    area: tuple[float, float, float, float],
    marks: ArrayLike = (),
    mark_size: float = 5.0,
    reach: float = 260.0,
) -> NDArray[np.float64]:
    """Push labels away from each other and from the marks, no further than needed.

    Labels in the thick of it choose first. Each takes the nearest free place around its anchor from which a line to the
    anchor crosses nothing; where there is none, the place that hides least. Nothing is random: the same input gives the same places.

    Args:
        anchors: `n x 2`, what the labels name, in points.
        sizes: `n x 2`, widths and heights of the labels.
        area: left, bottom, right, top; labels stay inside.
        marks: `k x 2` centres of what must stay visible besides the anchors.
        mark_size: half the side of an anchor or mark.
        reach: how far a label may stray.

    Returns: `n x 2` centres of the labels.
    """
    points = np.asarray(anchors, dtype=np.float64).reshape(-1, 2)
    half = np.asarray(sizes, dtype=np.float64).reshape(-1, 2) / 2
    others = np.concatenate([points, np.asarray(marks, dtype=np.float64).reshape(-1, 2)])
    taken, taken_half = others, np.full_like(others, mark_size)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    crowd = np.exp(-gaps / 40.0).sum(axis=1)
    centres = points.copy()
    low, high = np.array(area[:2]), np.array(area[2:])
    for i in np.argsort(-crowd, kind="stable").tolist():
        places = np.clip(_candidates(points[i], half[i], mark_size, reach), low + half[i], high - half[i])
        apart = np.abs(places[:, None] - taken[None]) - (half[i] + taken_half)[None]
        hidden = np.prod(np.minimum(apart - _AIR, 0.0), axis=2).sum(axis=1)
        strayed = np.linalg.norm(places - points[i], axis=1)
        crossed = _crossed(points[i], places, half[i], np.delete(taken, i, axis=0), np.delete(taken_half, i, axis=0))
        best = int(np.argmin(hidden * 100.0 + crossed * 25.0 + strayed))
        centres[i] = places[best]
        taken = np.concatenate([taken, places[best : best + 1]])
        taken_half = np.concatenate([taken_half, half[i : i + 1]])
    return centres


def spread(wanted: ArrayLike, gap: float, *, low: float = -np.inf, high: float = np.inf) -> NDArray[np.float64]:
    """Move numbers apart until no two are nearer than `gap`, in their order and with the least sum of squared moves.

    Pools of labels that touch move as one (isotonic regression of `wanted` less the gaps).

    Args:
        wanted: `n` places.
        gap: least difference.
        low: least place; kept where `n` places fit between the two.
        high: greatest place.

    Returns: `n` places, in the order of `wanted`.
    """
    values = np.asarray(wanted, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    pools: list[list[float]] = []  # mean, count
    for rank, value in enumerate(values[order].tolist()):
        pools.append([value - rank * gap, 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, count = pools.pop()
            before = pools[-1]
            before[0] = (before[0] * before[1] + mean * count) / (before[1] + count)
            before[1] += count
    flat = np.concatenate([np.full(int(count), mean) for mean, count in pools]) if pools else values
    placed = np.empty_like(values)
    ranks = gap * np.arange(len(values))
    placed[order] = np.maximum(np.minimum(flat + ranks, high - ranks[::-1]), low + ranks)
    return placed


def _candidates(
    point: NDArray[np.float64], half: NDArray[np.float64], mark_size: float, reach: float
) -> NDArray[np.float64]:
    """List places around a point, nearest rings first: `c x 2`."""
    rings = np.arange(0.0, reach, 6.0)
    directions = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
    radii = half + mark_size + 0.5 + _AIR
    ring = point + (radii + rings[:, None, None]) * directions[None]
    return np.asarray(ring.reshape(-1, 2))


def _crossed(
    point: NDArray[np.float64],
    places: NDArray[np.float64],
    half: NDArray[np.float64],
    taken: NDArray[np.float64],
    taken_half: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Count what the line from a point to the edge of a label at each place would cross: `c`."""
    edges = np.clip(point, places - half, places + half)
    steps = np.linspace(0.15, 1.0, 8)[None, :, None]
    along = point + (edges - point)[:, None] * steps
    inside = np.all(np.abs(along[:, :, None] - taken[None, None]) < taken_half[None, None], axis=3)
    return np.asarray(inside.any(axis=1).sum(axis=1), dtype=np.float64)
