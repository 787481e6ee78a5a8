"""A lower confidence bound of three standard deviations, which explores more than `lcb`."""

import numpy as np

from warmstart.bo.acquisition.registry import Acquisition


def score(mean, var, best):  # noqa: ARG001
    """Compute -μ + 3σ."""
    return -mean + 3.0 * np.sqrt(var)


def slopes(mean, var, best):  # noqa: ARG001
    """Compute the derivatives by μ and by σ²."""
    return np.full_like(mean, -1.0), 1.5 / np.sqrt(var)


BRAVE = Acquisition(score, slopes, "−LCB, κ = 3", is_log=False)
