"""Maximise a function: Sobol points, random points around the incumbents, then local search from the best.

Real coordinates follow the gradient, all starts in one batch. Integers and choices move to the best neighbour
[Snoek2012practical]. A space of few configurations is searched exhaustively. Where each sample of hyperparameters costs
a linear solve, most steps use some of the samples only.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.acquisition.improvement_validity_cost import AcquisitionFunction
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.space.sampling import unit_points
from warmstart.history_store.axes import MAX_UNIT

Floats = NDArray[np.float64]

CLOUD = 4096
"""Sobol points; spaces with no more configurations are enumerated."""
SPRAY, SPRAY_SDS = 64, (0.05, 0.005)
"""Points around each incumbent at each standard deviation."""
STARTS = 10
"""Best points of the cloud, and as many of the spray, from which a climb starts."""
RANKED = 256
"""Points of the cloud and of the spray that a rough function ranks; a yet rougher one chooses them."""
FINALS = 3
"""Ends of climbs by a rough function that go on by the exact one."""
STEPS = 50
"""Steps of a climb along the gradient, refused ones included."""
ROUGH_STEPS = 12
"""Steps of a climb by a rough function. Only the best ends go on; a start that lags by then is none of them."""
ROUNDS = 8
"""Rounds in which a climb changes integers and choices."""
SUFFICIENT = 1e-4
"""Share of the rise that the slope promises which a step must bring."""
LONGEST, FIRST = 0.3, 0.1
"""Largest move of a coordinate in one step, and in the first step."""
SHORTER = 0.25
"""Factor by which a refused step is shortened."""
FLATTEST = 1e-100
"""Smaller changes of the slope give no curvature: their squares underflow."""
GRID = 2.0**26
"""Reals are proposed at multiples of 1/GRID: finer than a model resolves, coarser than rounding differs between
processes."""
SMALLEST_RISE, ROUGH_RISE, SMALLEST_MOVE = 1e-4, 1e-2, 1e-9
"""Least rise of a step, least rise by a rough function, least move; a climb ends below them."""


def optimize_acquisition(
    function: AcquisitionFunction,
    encoding: Encoding,
    *,
    around: Floats,
    taken: Collection[str],
    rng: np.random.Generator,
) -> Floats | None:
    """Return the allowed point with the highest value whose configuration is not taken.

    Args:
        function: of model columns.
        encoding: of the space.
        around: `k x p` incumbents.
        taken: keys of configurations that were proposed already.
        rng: the only source of randomness.

    Returns: `p`, or None when every point of the search is taken.
    """
    if encoding.size <= CLOUD:
        points = encoding.sample(CLOUD, design="uniform", rng=rng, exclude=taken)
        return best_free(function.value(encoding.columns(points)), points, encoding, taken)
    rough = function.rough
    clouds = [next(unit_points("sobol", encoding.p, n=CLOUD, rng=rng)), _spray(around, rng)]
    clouds = [cloud[encoding.valid(cloud)] for cloud in clouds]
    if not any(map(len, clouds)):  # clauses forbid nearly everything
        clouds[1] = encoding.beside(around, CLOUD, rng=rng)
    if rough is not function:
        clouds = [_best(rough.rough, encoding, cloud, n=RANKED)[0] for cloud in clouds]
    tops, values = zip(*(_best(rough, encoding, cloud, n=len(cloud)) for cloud in clouds), strict=True)
    starts = np.concatenate([top[:STARTS] for top in tops])
    if rough is not function:
        ends, heights = climb(rough, encoding, starts, rng=rng, rise=ROUGH_RISE, steps=ROUGH_STEPS)
        starts = ends[np.argsort(-heights, kind="stable")[:FINALS]]
    ends, heights = climb(function, encoding, starts, rng=rng)
    if rough is function:
        ends, heights = np.concatenate([ends, *tops]), np.concatenate([heights, *values])
    ends = _coarse(ends, encoding)
    best = best_free(heights, ends, encoding, taken)
    return best_free(np.concatenate(values), np.concatenate(tops), encoding, taken) if best is None else best


def best_free(values: Floats, points: Floats, encoding: Encoding, taken: Collection[str]) -> Floats | None:
    """Return the free point `p` with the highest value, or None; a point is free when its key is not taken."""
    # The best point is nearly always free, and keys are slow: the first batch has one point.
    order, size = np.argsort(-values, kind="stable"), 1
    while len(order):
        head, order = order[:size], order[size:]
        free = [row for row, key in zip(head, encoding.keys(points[head]), strict=True) if key not in taken]
        if free:
            best: Floats = points[free[0]]
            return best
        size = 512
    return None


def climb(
    function: AcquisitionFunction,
    encoding: Encoding,
    points: Floats,
    *,
    rng: np.random.Generator,
    rise: float = SMALLEST_RISE,
    steps: int = STEPS,
) -> tuple[Floats, Floats]:
    """Run a local search from `b x p` allowed points.

    It ends when a step gains less than `rise`, or after `steps` steps along the gradient.

    Returns: the points of the search, ends and neighbours, `m x p`, and their values `m`.
    """
    points, values = ascend(function, encoding, points, rise=rise, steps=steps)
    visited = [(points, values)]
    for _ in range(ROUNDS):
        if encoding.real.all() or not len(points):
            break
        neighbours = [encoding.neighbours(point, rng=rng) for point in points]
        owner = np.repeat(np.arange(len(points)), [len(batch) for batch in neighbours])
        near = np.concatenate(neighbours)
        heights = function.value(encoding.columns(near))
        visited.append((near, heights))
        best = np.full(len(points), -np.inf)
        np.maximum.at(best, owner, heights)
        better = best > values + rise
        rows = [np.flatnonzero((owner == i) & (heights == best[i]))[0] for i in np.flatnonzero(better)]
        if not rows:
            break
        points, values = ascend(function, encoding, near[rows], rise=rise, steps=steps)
        visited.append((points, values))
    return np.concatenate([p for p, _ in visited]), np.concatenate([v for _, v in visited])


def ascend(
    function: AcquisitionFunction,
    encoding: Encoding,
    points: Floats,
    *,
    rise: float = SMALLEST_RISE,
    steps: int = STEPS,
) -> tuple[Floats, Floats]:
    """Follow the gradient of the real coordinates by projected BFGS, all starts in one batch.

    Each start keeps its own inverse Hessian and step length; every step calls the function once, for all
    starts that still move. A step that rises too little, or to a forbidden point, is shortened.

    Args:
        function: of model columns.
        encoding: of the space.
        points: `b x p` allowed points.
        rise: a start stops when a step gains less.
        steps: at most.

    Returns: `b x p` points, none lower than its start, and their values `b`.
    """
    real = np.flatnonzero(encoding.real)
    if not len(real) or not len(points):
        return points, function.value(encoding.columns(points))
    points = points.copy()
    values, slopes = _slopes(function, encoding, points, real)
    hessians = np.zeros((len(points), len(real), len(real)))
    lengths = np.ones(len(points))
    moving = np.arange(len(points))
    for _ in range(steps):
        here = points[moving][:, real]
        there = np.clip(here + lengths[moving, None] * _directions(here, slopes[moving], hessians[moving]), 0, MAX_UNIT)
        moves = there - here
        alive = np.abs(moves).max(axis=1) > SMALLEST_MOVE
        moving, there, moves = moving[alive], there[alive], moves[alive]
        if not len(moving):
            break
        trial = points[moving]
        trial[:, real] = there
        heights, gradients = _slopes(function, encoding, trial, real)
        rises = heights - values[moving]
        good = rises >= SUFFICIENT * np.maximum((slopes[moving] * moves).sum(axis=1), 0.0)
        lengths[moving[~good]] *= SHORTER
        rows = moving[good]
        hessians[rows] = _updated(hessians[rows], moves[good], slopes[rows] - gradients[good])
        points[rows], values[rows], slopes[rows], lengths[rows] = trial[good], heights[good], gradients[good], 1.0
        moving = moving[~good | (rises > rise)]
    return points, values


def _best(function: AcquisitionFunction, encoding: Encoding, points: Floats, *, n: int) -> tuple[Floats, Floats]:
    """Return the n best points, best first, and their values."""
    values = function.value(encoding.columns(points))
    order = np.argsort(-values, kind="stable")[:n]
    return points[order], values[order]


def _coarse(points: Floats, encoding: Encoding) -> Floats:
    """Round the reals of allowed points to `GRID`; a point that would become forbidden stays as it is."""
    rounded = np.where(encoding.real, np.minimum(np.rint(points * GRID) / GRID, MAX_UNIT), points)
    return np.where(encoding.valid(rounded)[:, None], rounded, points)


def _spray(around: Floats, rng: np.random.Generator) -> Floats:
    """Scatter points around incumbents: `m x p` in the cube."""
    scattered = [around + sd * rng.standard_normal((SPRAY, *around.shape)) for sd in SPRAY_SDS]
    return np.clip(np.concatenate(scattered).reshape(-1, around.shape[1]), 0.0, MAX_UNIT)


def _slopes(
    function: AcquisitionFunction, encoding: Encoding, points: Floats, real: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Compute values of points, -inf for forbidden ones, and gradients by their real coordinates."""
    values, gradients = np.full(len(points), -np.inf), np.zeros((len(points), len(real)))
    allowed = encoding.valid(points)
    if allowed.any():
        values[allowed], slopes = function.value_gradient(encoding.columns(points[allowed]))
        gradients[allowed] = slopes[:, encoding.column[real]]
    return values, gradients


def _directions(here: Floats, slopes: Floats, hessians: Floats) -> Floats:
    """Return uphill directions `b x q`, Newton's or else the slope, without coordinates that a bound stops."""
    free = ~(((here <= 0.0) & (slopes < 0.0)) | ((here >= MAX_UNIT) & (slopes > 0.0)))
    slopes = np.where(free, slopes, 0.0)
    newton = np.where(free, np.einsum("bij,bj->bi", hessians, slopes), 0.0)
    uphill = (newton * slopes).sum(axis=1) > 0.0
    longest = np.where(uphill, LONGEST, FIRST)[:, None]
    directions = np.where(uphill[:, None], newton, slopes)
    size = np.abs(directions).max(axis=1, keepdims=True)
    scale: Floats = longest / np.maximum(size, 1e-300)
    return directions * np.where(uphill[:, None], np.minimum(scale, 1.0), scale)


def _updated(hessians: Floats, moves: Floats, drops: Floats) -> Floats:
    """Update inverse Hessians `b x q x q` of the negative function by BFGS, if it curves upwards along the move."""
    curvature = (moves * drops).sum(axis=1)
    bend = np.linalg.norm(drops, axis=1)
    curved = (curvature > 1e-12 * np.linalg.norm(moves, axis=1) * bend) & (bend > FLATTEST)
    s, y, rho = moves[curved], drops[curved], 1.0 / curvature[curved]
    H = hessians[curved]
    eye = np.eye(s.shape[1])
    fresh = ~H.any(axis=(1, 2))
    # The first Hessian is the identity, scaled to the curvature along the first step.
    H[fresh] = (curvature[curved] / np.square(y).sum(axis=1))[fresh, None, None] * eye
    left = eye - rho[:, None, None] * s[:, :, None] * y[:, None, :]
    hessians[curved] = left @ H @ left.swapaxes(1, 2) + rho[:, None, None] * s[:, :, None] * s[:, None, :]
    return hessians
