"""Placement of labels without overlap."""

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

    Labels in crowded regions choose first. Every label takes the nearest free position around its anchor whose leader line
    crosses nothing, else the position that hides least. The result is deterministic.

    Args:
        anchors: `n x 2`, positions of the labelled marks in points.
        sizes: `n x 2`, widths and heights of the labels.
        area: left, bottom, right, top; labels stay inside.
        marks: `k x 2` centres of further marks to keep visible.
        mark_size: half the side of an anchor or mark.
        reach: largest distance of a label.

    Returns: `n x 2` centres of the labels.
    """
    points = np.asarray(anchors, dtype=np.float64).reshape(-1, 2)
    half = np.asarray(sizes, dtype=np.float64).reshape(-1, 2) / 2
    obstacles = np.concatenate([points, np.asarray(marks, dtype=np.float64).reshape(-1, 2)])
    boxes, half_sizes = obstacles, np.full_like(obstacles, mark_size)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    crowd = np.exp(-gaps / 40.0).sum(axis=1)
    centres = points.copy()
    low, high = np.array(area[:2]), np.array(area[2:])
    for i in np.argsort(-crowd, kind="stable").tolist():
        candidates = np.clip(_candidates(points[i], half[i], mark_size, reach), low + half[i], high - half[i])
        gaps_to_boxes = np.abs(candidates[:, None] - boxes[None]) - (half[i] + half_sizes)[None]
        hidden = np.prod(np.minimum(gaps_to_boxes - _AIR, 0.0), axis=2).sum(axis=1)
        distances = np.linalg.norm(candidates - points[i], axis=1)
        crossed = _crossed(
            points[i], candidates, half[i], np.delete(boxes, i, axis=0), np.delete(half_sizes, i, axis=0)
        )
        # Hiding something is worst, then crossing it, then distance.
        best = int(np.argmin(hidden * 100.0 + crossed * 25.0 + distances))
        centres[i] = candidates[best]
        boxes = np.concatenate([boxes, candidates[best : best + 1]])
        half_sizes = np.concatenate([half_sizes, half[i : i + 1]])
    return centres


def spread(targets: ArrayLike, gap: float, *, low: float = -np.inf, high: float = np.inf) -> NDArray[np.float64]:
    """Move numbers apart until no two are nearer than `gap`, in their order and with the least sum of squared moves.

    Pools of labels that touch move as one (isotonic regression of `targets` less the gaps).

    Args:
        targets: `n` places.
        gap: least difference.
        low: least place; kept where `n` places fit between the two.
        high: greatest place.

    Returns: `n` places, in the order of `targets`.
    """
    values = np.asarray(targets, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    # Pools of [mean, count]: pool adjacent violators.
    pools: list[list[float]] = []
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
    """Return candidate positions around a point, nearest rings first: `c x 2`."""
    rings = np.arange(0.0, reach, 6.0)
    directions = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
    radii = half + mark_size + 0.5 + _AIR
    ring = point + (radii + rings[:, None, None]) * directions[None]
    return np.asarray(ring.reshape(-1, 2))


def _crossed(
    point: NDArray[np.float64],
    positions: NDArray[np.float64],
    half: NDArray[np.float64],
    boxes: NDArray[np.float64],
    half_sizes: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Count the crossings of the leader line from a point to a label at every position: `c`."""
    edges = np.clip(point, positions - half, positions + half)
    steps = np.linspace(0.15, 1.0, 8)[None, :, None]
    along = point + (edges - point)[:, None] * steps
    inside = np.all(np.abs(along[:, :, None] - boxes[None, None]) < half_sizes[None, None], axis=3)
    return np.asarray(inside.any(axis=1).sum(axis=1), dtype=np.float64)
