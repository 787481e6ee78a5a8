"""Problems of the board: COCO's bbob and bbob-mixint (`coco-experiment`), and conditional ones, each with its minimum."""

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from conditional import CONDITIONAL
from ConfigSpace import ConfigurationSpace, Float, Integer
from functions import Problem

CLASSES = {"separable": 5, "moderate": 9, "ill-conditioned": 14, "multimodal": 19, "weak structure": 24}
"""Classes of COCO's functions, and the last function of each."""
MOST = 100
"""Evaluations of a conditional problem, at most."""
PRINTED = "._bbob_problem_best_parameter.txt"
"""Where COCO writes a minimiser."""


def one_of_three(seed: int) -> list[int]:
    """Draw one of every three consecutive functions: 8 of 24."""
    return (3 * np.arange(8) + np.random.default_rng(seed).integers(3, size=8) + 1).tolist()


HELD_OUT, THIRD = one_of_three(1), one_of_three(2)
"""Functions that are run once, at the end; those of 10 dimensions, and those on which slow peers are run."""


def class_of(suite: str, function: int | str) -> str:
    """Name the class of a problem."""
    if suite != "bbob":
        return suite
    return next(name for name, last in CLASSES.items() if int(function) <= last)


@cache
def make(suite: str, function: int | str, d: int, instance: int) -> Problem:
    """Make a problem: `bbob`, `bbob-mixint`, or `conditional`, whose function is a name and whose d does not count."""
    if suite == "conditional":
        return CONDITIONAL[str(function)](instance)
    import cocoex

    # the suite is kept with the problem, which ends with it
    found = cocoex.Suite(suite, f"instances:{instance}", f"dimensions:{d}")
    problem = found.get_problem_by_function_dimension_instance(int(function), d, instance)
    space, whole = ConfigurationSpace(name=f"{suite}-{function}"), problem.number_of_integer_variables
    names = [f"x{i}" for i in range(d)]
    for i, (name, low, high) in enumerate(zip(names, problem.lower_bounds, problem.upper_bounds, strict=True)):
        space.add(Integer(name, (int(low), int(high))) if i < whole else Float(name, (float(low), float(high))))

    def value(config: Mapping[str, Any], _suite: Any = found) -> float:
        return float(problem([float(config[name]) for name in names]))

    best = dict(zip(names, _minimiser(problem), strict=True))
    return Problem(problem.id, space, value, value(best), (best,))


def evaluations(problem: Problem, suite: str) -> int:
    """Count the evaluations of a search: 20 a hyperparameter."""
    t = 20 * len(problem.space)
    return min(t, MOST) if suite == "conditional" else t


def _minimiser(problem: Any) -> list[float]:
    """Read where a problem is least, which COCO tells in a file of the current folder only."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            problem._best_parameter("print")  # noqa: SLF001  there is no other way
            text = Path(PRINTED).read_text(encoding="utf-8")
        finally:
            os.chdir(before)
    return [float(each) for each in text.split()]
