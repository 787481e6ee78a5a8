"""The plane that preserves most of the distances between points of many dimensions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """The two principal directions of points.

    For Euclidean distances its coordinates are those of classical multidimensional scaling.

    Attributes:
        origin: `d`, the mean of the points.
        axes: `2 x d`, orthonormal; a row of zeros where the points span less than a plane.
        share: of the summed squared distances between the points that the plane shows, in [0, 1].
    """

    origin: NDArray[np.float64]
    axes: NDArray[np.float64]
    share: float

    def project(self, points: ArrayLike) -> NDArray[np.float64]:
        """Project points `n x d` to the plane: `n x 2`."""
        return (np.asarray(points, dtype=np.float64) - self.origin) @ self.axes.T


def fit_plane(points: ArrayLike) -> Plane:
    """Fit the plane to points `m x d`, m ≥ 1; the largest loading of an axis is positive."""
    wide = np.asarray(points, dtype=np.float64)
    origin = wide.mean(axis=0)
    # Of many points the triangle of a QR decomposition has the same singular values and directions.
    central = np.linalg.qr(wide - origin, mode="r") if len(wide) > wide.shape[1] else wide - origin
    _, scales, directions = np.linalg.svd(central, full_matrices=False)
    axes = np.zeros((2, wide.shape[1]))
    for row, (scale, direction) in enumerate(zip(scales[:2], directions[:2], strict=True)):
        if scale > 1e-9 * scales[0]:
            axes[row] = direction * np.sign(direction[np.abs(direction).argmax()])
    total = float(np.sum(scales**2))
    return Plane(origin, axes, float(np.sum(scales[:2] ** 2)) / total if total > 0 else 1.0)
