"""Conditional problems with known minima: an algorithm with hyperparameters of its own, layers, parts that are switched on."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, GreaterThanCondition, Integer
from functions import Problem

Config = Mapping[str, Any]


def algorithms(instance: int) -> Problem:
    """Build an error of three algorithms, each with hyperparameters of its own, and a preprocessing that all share."""
    rng = np.random.default_rng([instance, 1])
    names, floors = ["svm", "forest", "network"], [0.10, 0.14, 0.06]
    rng.shuffle(floors)
    space, goods = ConfigurationSpace(name="algorithms"), rng.uniform(0.15, 0.85, (3, 3))
    algorithm, scaling = Categorical("algorithm", names), Categorical("scaling", ["none", "unit", "robust"])
    space.add(algorithm, scaling)
    own = {name: [f"{name}_{i}" for i in range(d)] for name, d in zip(names, (2, 2, 3), strict=True)}
    for name in names:
        space.add(*(Float(each, (0.0, 1.0)) for each in own[name]))
        space.add(*(EqualsCondition(space[each], space["algorithm"], name) for each in own[name]))
    penalties = dict(zip(("none", "unit", "robust"), rng.permutation([0.0, 0.02, 0.05]).tolist(), strict=True))

    def value(config: Config) -> float:
        k = names.index(config["algorithm"])
        z = np.array([config[each] for each in own[names[k]]]) - goods[k, : len(own[names[k]])]
        off = float(np.square(z / 0.25).sum()) + 0.3 * (1.0 - math.cos(9.0 * float(z[0])))
        return floors[k] + penalties[config["scaling"]] + 0.4 * (1.0 - math.exp(-0.5 * off))

    k = int(np.argmin(floors))
    best = {"algorithm": names[k], "scaling": min(penalties, key=lambda each: penalties[each])}
    best |= dict(zip(own[names[k]], goods[k].tolist(), strict=False))
    return Problem("algorithms", space, value, value(best), (best,))


def layers(instance: int) -> Problem:
    """Build an error of networks of one to four layers, each with a width and an activation; one number of layers is best."""
    rng = np.random.default_rng([instance, 2])
    number, kinds = int(rng.integers(2, 5)), ["relu", "tanh", "gelu"]
    widths, right = rng.uniform(4.0, 9.0, 4), [kinds[k] for k in rng.integers(3, size=4)]
    rate, space = float(rng.uniform(-4.0, -1.5)), ConfigurationSpace(name="layers")
    layers, log_rate = Integer("layers", (1, 4)), Float("log10_learning_rate", (-5.0, 0.0))
    space.add(layers, log_rate)
    for i in range(4):
        own = [Float(f"log2_width_{i}", (3.0, 10.0)), Categorical(f"activation_{i}", kinds)]
        space.add(*own)
        if i:
            space.add(*(GreaterThanCondition(each, layers, i) for each in own))

    def value(config: Config) -> float:
        error = 0.2 * abs(config["layers"] - number) / 3.0 + 0.05 * (config["log10_learning_rate"] - rate) ** 2
        for i in range(config["layers"]):
            error += 0.02 * (config[f"log2_width_{i}"] - widths[i]) ** 2 + 0.05 * (
                config[f"activation_{i}"] != right[i]
            )
        return float(error)

    best: dict[str, Any] = {"layers": number, "log10_learning_rate": rate}
    best |= {f"log2_width_{i}": float(widths[i]) for i in range(number)}
    best |= {f"activation_{i}": right[i] for i in range(number)}
    return Problem("layers", space, value, value(best), (best,))


def switches(instance: int) -> Problem:
    """Build an error of three parts that can be switched on; each helps, or harms, by how well its hyperparameter is set."""
    rng = np.random.default_rng([instance, 3])
    goods, gains = rng.uniform(0.1, 0.9, 3), rng.uniform(0.05, 0.3, 3)
    harmful, centre = int(rng.integers(3)), float(rng.uniform(0.2, 0.8))
    space = ConfigurationSpace(name="switches")
    space.add(Float("base", (0.0, 1.0)))
    for i in range(3):
        switch, strength = Categorical(f"part_{i}", ["off", "on"]), Float(f"strength_{i}", (0.0, 1.0))
        space.add(switch, strength)
        space.add(EqualsCondition(strength, switch, "on"))

    def value(config: Config) -> float:
        error = 1.0 + 0.5 * (config["base"] - centre) ** 2
        for i in range(3):
            if config[f"part_{i}"] == "on":
                gain = gains[i] * math.exp(-(((config[f"strength_{i}"] - goods[i]) / 0.2) ** 2))
                error += 0.05 + 0.2 * abs(config[f"strength_{i}"] - goods[i]) if i == harmful else 0.05 - gain
        return float(error)

    worth = [i for i in range(3) if i != harmful and gains[i] > 0.05]
    best: dict[str, Any] = {"base": centre}
    best |= {f"part_{i}": "on" if i in worth else "off" for i in range(3)}
    best |= {f"strength_{i}": float(goods[i]) for i in worth}
    return Problem("switches", space, value, value(best), (best,))


CONDITIONAL: Mapping[str, Callable[[int], Problem]] = {"algorithms": algorithms, "layers": layers, "switches": switches}
"""Problems by name; an instance draws where what is best lies."""
