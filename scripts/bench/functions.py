"""Functions with known minima to compare optimisers on: Branin on two domains, Hartmann-6, a function of 0 to 2 layers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace, Float, GreaterThanCondition, Integer

Config = Mapping[str, Any]

ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
A = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)
P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A function of configurations, its space, and its minimum."""

    name: str
    space: ConfigurationSpace
    value: Callable[[Config], float]
    minimum: float
    minimisers: tuple[Config, ...]


def branin() -> Problem:
    """Build Branin on its standard domain, x1 in [-5, 10] and x2 in [0, 15]: three minima."""
    optima = ((-math.pi, 12.275), (math.pi, 2.275), (3 * math.pi, 2.475))
    return _branin("branin", (-5.0, 10.0), (0.0, 15.0), optima)


def branin_practical() -> Problem:
    """Build Branin on the domain that [Snoek2012practical] prints, x1 in [0, 15] and x2 in [-5, 15]: two minima."""
    return _branin("branin-practical", (0.0, 15.0), (-5.0, 15.0), ((math.pi, 2.275), (3 * math.pi, 2.475)))


def hartmann6() -> Problem:
    """Build Hartmann-6 on the unit cube: least value -3.32237, and a local minimum of -3.20 that holds many searches."""
    space = ConfigurationSpace(name="hartmann6")
    space.add(*(Float(f"x{i + 1}", (0.0, 1.0)) for i in range(6)))
    best = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
    minimiser = {f"x{i + 1}": x for i, x in enumerate(best)}
    return Problem("hartmann6", space, hartmann6_value, -3.322368, (minimiser,))


def layers() -> Problem:
    """Build an error of networks with 0 to 2 hidden layers, each with its own width and decay, and one learning rate.

    A layer takes a share of the error away, the more the nearer its width and decay are to good ones; the first layer's
    good ones are the same with a second layer and without: what one architecture teaches serves the other.
    """
    space = ConfigurationSpace(name="layers")
    number = Integer("layers", (0, 2))
    space.add(number, Float("log10_learning_rate", (-5.0, 0.0)))
    for i in (1, 2):
        own = [Float(f"width_{i}", (0.0, 1.0)), Float(f"log10_decay_{i}", (-6.0, 0.0))]
        space.add(*own)
        space.add(*(GreaterThanCondition(child, number, i - 1) for child in own))
    best = {"layers": 2, "log10_learning_rate": -2.0}
    best |= {"width_1": 0.7, "log10_decay_1": -4.0, "width_2": 0.4, "log10_decay_2": -3.0}
    return Problem("layers", space, layers_value, 0.125, (best,))


def branin_value(x1: float, x2: float) -> float:
    """Compute Branin's function; its minima are 5 / (4π) = 0.397887."""
    bend = x2 - 5.1 / (4 * math.pi**2) * x1**2 + 5.0 / math.pi * x1 - 6.0
    return bend**2 + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * math.cos(x1) + 10.0


def hartmann6_value(config: Config) -> float:
    """Compute Hartmann's function of x1 to x6 in [0, 1]."""
    x = np.array([config[f"x{i + 1}"] for i in range(6)])
    return -float(ALPHA @ np.exp(-np.sum(A * (x - P) ** 2, axis=1)))


def layers_value(config: Config) -> float:
    """Compute the error of a network: 1/8 at best, 1 at worst."""
    error = 1.0 - 0.5 * math.exp(-((config["log10_learning_rate"] + 2.0) ** 2) / 4.0)
    for i, width, decay in ((1, 0.7, -4.0), (2, 0.4, -3.0))[: config["layers"]]:
        off = ((config[f"width_{i}"] - width) / 0.4) ** 2 + ((config[f"log10_decay_{i}"] - decay) / 2.0) ** 2
        error *= 1.0 - 0.5 * math.exp(-off / 2.0)
    return error


def _branin(
    name: str, first: tuple[float, float], second: tuple[float, float], optima: tuple[tuple[float, float], ...]
) -> Problem:
    space = ConfigurationSpace(name=name)
    space.add(Float("x1", first), Float("x2", second))
    minimisers = tuple({"x1": x1, "x2": x2} for x1, x2 in optima)
    return Problem(name, space, lambda c: branin_value(c["x1"], c["x2"]), 5.0 / (4.0 * math.pi), minimisers)
