"""The functions of the benchmarks: minima where they are said to be, and nowhere lower."""

import numpy as np
import pytest
from functions import branin, branin_practical, hartmann6, layers
from landscapes import LANDSCAPES

from warmstart.bo.space.encoding import Encoding

HAND = {
    "rosenbrock4": 3.0,
    "ackley4": 0.0,
    "styblinski-tang4": 0.0,
    "rastrigin3": 0.0,
    "dixon-price4": 1.0,
    "michalewicz3": 0.0,
}
"""At zeros."""


@pytest.mark.parametrize("build", [branin_practical, layers, *LANDSCAPES.values()])
def test_minima(build):
    problem, encoding = build(), Encoding(build().space)
    assert encoding.decode(encoding.encode(problem.minimisers)) == list(problem.minimisers)
    for config in problem.minimisers:
        assert problem.value(config) == pytest.approx(problem.minimum, abs=1e-6)
    rng = np.random.default_rng(0)
    near = np.clip(encoding.encode(problem.minimisers[:1]) + rng.normal(0, 0.05, (300, encoding.p)), 0, 1)
    points = np.concatenate([encoding.sample(512, rng=rng), near])
    assert min(problem.value(config) for config in encoding.decode(points)) >= problem.minimum - 1e-6


def test_values_by_hand():
    values = {name: LANDSCAPES[name]().value(dict.fromkeys(LANDSCAPES[name]().space, 0.0)) for name in HAND}
    assert values == pytest.approx(HAND, abs=1e-4)
    assert branin().value({"x1": 0.0, "x2": 0.0}) == pytest.approx(55.602113)
    assert hartmann6().value({f"x{i}": 0.5 for i in range(1, 7)}) == pytest.approx(-0.505317, abs=1e-5)
    assert layers().value({"layers": 0, "log10_learning_rate": -2.0}) == pytest.approx(0.5)


def test_layers_share_what_the_first_one_likes():
    value, one = layers().value, {"layers": 1, "log10_learning_rate": -2.0, "width_1": 0.7, "log10_decay_1": -4.0}
    assert value(one) == pytest.approx(0.25)
    assert value(one | {"width_1": 0.1}) > value(one)
