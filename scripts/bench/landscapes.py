"""More functions with known minima: smooth, many-welled, narrow-valleyed and ill-conditioned ones, in boxes."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from ConfigSpace import ConfigurationSpace, Float
from functions import Problem, branin, hartmann6
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HARTMANN3_A = np.array([[3.0, 10.0, 30.0], [0.1, 10.0, 35.0], [3.0, 10.0, 30.0], [0.1, 10.0, 35.0]])
HARTMANN3_P = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
SHEKEL_B = 0.1 * np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5])
SHEKEL_C = np.array(
    [
        [4, 1, 8, 6, 3, 2, 5, 8, 6, 7],
        [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6],
        [4, 1, 8, 6, 3, 2, 5, 8, 6, 7],
        [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6],
    ]
).T


def hartmann3(x: Floats) -> float:
    """Compute Hartmann's function of three numbers in [0, 1]."""
    weights = np.array([1.0, 1.2, 3.0, 3.2])
    return -float(weights @ np.exp(-np.sum(HARTMANN3_A * (x - HARTMANN3_P) ** 2, axis=1)))


def levy(x: Floats) -> float:
    """Compute Levy's function: ripples on a bowl, least at ones."""
    w = 1.0 + (x - 1.0) / 4.0
    ripples = (w[:-1] - 1.0) ** 2 * (1.0 + 10.0 * np.sin(math.pi * w[:-1] + 1.0) ** 2)
    last = (w[-1] - 1.0) ** 2 * (1.0 + math.sin(2.0 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + ripples.sum() + last)


def rosenbrock(x: Floats) -> float:
    """Compute Rosenbrock's function: a bent valley, least at ones."""
    return float((100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum())


def shekel(x: Floats) -> float:
    """Compute Shekel's function of four numbers: ten wells."""
    return -float((1.0 / (np.square(x - SHEKEL_C).sum(axis=1) + SHEKEL_B)).sum())


def ellipsoid(x: Floats) -> float:
    """Compute a bowl a million times steeper along one axis than along another, least at 0.5."""
    weights = 10.0 ** (6.0 * np.arange(len(x)) / (len(x) - 1))
    return float(weights @ np.square(x - 0.5))


def ackley(x: Floats) -> float:
    """Compute Ackley's function: a funnel in a rippled plain, least at zeros."""
    waves = math.exp(float(np.cos(2.0 * math.pi * x).mean()))
    return 20.0 + math.e - 20.0 * math.exp(-0.2 * math.sqrt(float(np.square(x).mean()))) - waves


def griewank_rosenbrock(x: Floats) -> float:
    """Compute the ripples of Griewank over Rosenbrock's valley, least at ones."""
    s = 100.0 * (x[:-1] ** 2 - x[1:]) ** 2 + (x[:-1] - 1.0) ** 2
    return float(10.0 / len(s) * (s / 4000.0 - np.cos(s)).sum() + 10.0)


def styblinski_tang(x: Floats) -> float:
    """Compute the function of Styblinski and Tang: two wells an axis, one deeper."""
    return float(0.5 * (x**4 - 16.0 * x**2 + 5.0 * x).sum())


def rastrigin(x: Floats) -> float:
    """Compute Rastrigin's function: many wells on a bowl, least at zeros."""
    return float((10.0 + x**2 - 10.0 * np.cos(2.0 * math.pi * x)).sum())


def dixon_price(x: Floats) -> float:
    """Compute the function of Dixon and Price: a bent valley."""
    weights = np.arange(2, len(x) + 1)
    return float((x[0] - 1.0) ** 2 + (weights * (2.0 * x[1:] ** 2 - x[:-1]) ** 2).sum())


def michalewicz(x: Floats) -> float:
    """Compute Michalewicz's function: steep ridges, one best crossing."""
    steps = np.arange(1, len(x) + 1)
    return -float((np.sin(x) * np.sin(steps * x**2 / math.pi) ** 20).sum())


def boxed(name: str, value: Callable[[Floats], float], box: tuple[float, float], best: list[float]) -> Problem:
    """Make a problem of a function in a box, with its minimiser."""
    space = ConfigurationSpace(name=name)
    names = [f"x{i + 1}" for i in range(len(best))]
    space.add(*(Float(each, box) for each in names))

    def of_config(config: Mapping[str, float]) -> float:
        return value(np.array([config[each] for each in names]))

    minimiser = dict(zip(names, best, strict=True))
    return Problem(name, space, of_config, of_config(minimiser), (minimiser,))


DIXON_PRICE = [2.0 ** -(1.0 - 2.0 ** (1 - i)) for i in range(1, 5)]
LANDSCAPES: Mapping[str, Callable[[], Problem]] = {
    "branin": branin,
    "hartmann3": partial(boxed, "hartmann3", hartmann3, (0.0, 1.0), [0.114589, 0.555649, 0.852547]),
    "hartmann6": hartmann6,
    "levy5": partial(boxed, "levy5", levy, (-10.0, 10.0), [1.0] * 5),
    "rosenbrock4": partial(boxed, "rosenbrock4", rosenbrock, (-5.0, 10.0), [1.0] * 4),
    "shekel4": partial(boxed, "shekel4", shekel, (0.0, 10.0), [4.000747, 3.99951, 4.00075, 3.99951]),
    "ellipsoid5": partial(boxed, "ellipsoid5", ellipsoid, (-1.0, 3.0), [0.5] * 5),
    "ackley4": partial(boxed, "ackley4", ackley, (-20.0, 32.0), [0.0] * 4),
    "griewank-rosenbrock4": partial(boxed, "griewank-rosenbrock4", griewank_rosenbrock, (-5.0, 5.0), [1.0] * 4),
    "styblinski-tang4": partial(boxed, "styblinski-tang4", styblinski_tang, (-5.0, 5.0), [-2.903534] * 4),
    "rastrigin3": partial(boxed, "rastrigin3", rastrigin, (-3.0, 5.0), [0.0] * 3),
    "dixon-price4": partial(boxed, "dixon-price4", dixon_price, (-10.0, 10.0), DIXON_PRICE),
    "michalewicz3": partial(boxed, "michalewicz3", michalewicz, (0.0, math.pi), [2.202906, 1.570796, 1.284992]),
}
"""Problems by name."""
