"""Distances between all pairs: what the search in blocks is tested on."""

import numpy as np


def nearest_other_group(distances, groups):
    """Return each dataset's distance to the nearest of another group, of `m x m`; NaN where there is none."""
    matrix = np.asarray(distances, dtype=np.float64)
    codes = np.unique(groups, return_inverse=True)[1]
    others = np.where(codes[:, None] != codes[None, :], matrix, np.inf)
    nearest = others.min(axis=1, initial=np.inf)
    return np.where(np.isfinite(nearest), nearest, np.nan)
