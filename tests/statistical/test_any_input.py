"""Whatever is told, every surrogate gives a finite suggestion inside the bounds; and one seed is one stream, wherever it goes on."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Float

from warmstart.bo import Optimizer, RelatedTask
from warmstart.bo.surrogates import SURROGATES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def space_of(d):
    space = ConfigurationSpace()
    space.add(*(Float(f"x{i}", (-2.0, 3.0)) for i in range(d)))
    return space


def told(n, d, seed=0):
    rng = np.random.default_rng(seed)
    configs = [{f"x{i}": float(x) for i, x in enumerate(row)} for row in rng.uniform(-2, 3, (n, d))]
    return configs, [sum(x**2 for x in config.values()) for config in configs]


def optimizer_of(surrogate, d=2):
    related = []
    if surrogate.startswith("mt-"):
        related = [RelatedTask(*told(5, d, seed)) for seed in (1, 2)]
    return Optimizer(space_of(d), surrogate=surrogate, related=related, n_startup_trials=1, seed=4)


def cases():
    configs, errors = told(8, 2)
    beside = [{"x0": 1.0 + 1e-9 * i, "x1": 1.0} for i in range(6)]
    yield "constant errors", configs, [1.0] * 8
    yield "one evaluation", configs[:1], errors[:1]
    yield "a column that is constant", [{**config, "x0": 1.0} for config in configs], errors
    yield "NaN and inf", configs, [*errors[:5], float("nan"), float("inf"), -float("inf")]
    yield "errors of 1e300", configs, (np.array(errors) * 1e299).tolist()
    yield "failures alone", configs, [float("nan")] * 8
    yield "points side by side that contradict each other", beside, [1.0, -1.0] * 3
    single = [{name: np.float32(x) for name, x in config.items()} for config in configs]
    yield "float32", single, np.array(errors, dtype=np.float32)
    yield "one dimension", *told(8, 1)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize(("configs", "errors"), [case[1:] for case in cases()], ids=[case[0] for case in cases()])
def test_a_finite_suggestion_inside_the_bounds(surrogate, configs, errors):
    d = len(configs[0])
    optimizer = optimizer_of(surrogate, d)
    optimizer.ask()
    for config, error in zip(configs, errors, strict=True):
        optimizer.tell(config, error)
    assert len(optimizer.history()) == len(configs)
    suggestion = optimizer.ask()[0]
    assert list(suggestion) == [f"x{i}" for i in range(d)]
    assert all(-2.0 <= value <= 3.0 for value in suggestion.values())


def stream(optimizer, n=2):
    """Evaluate n suggestions after four evaluations that are given."""
    found = []
    if not optimizer.history():
        for config, error in zip(*told(4, 2), strict=True):
            optimizer.tell(config, error)
    for _ in range(n):
        config = optimizer.ask()[0]
        optimizer.tell(config, sum(x**2 for x in config.values()))
        found.append(config)
    return found


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_seed_is_one_stream_also_across_a_resume_and_in_another_process(surrogate):
    whole = optimizer_of(surrogate)
    first, second = stream(whole), stream(whole)
    parts = optimizer_of(surrogate)
    assert stream(parts) == first
    record = json.dumps(parts.to_dict())
    assert stream(Optimizer.from_dict(json.loads(record))) == second
    code = "import sys, json; from test_any_input import *; print(json.dumps(stream(Optimizer.from_dict(json.load(sys.stdin)))))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=record,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7"},  # also which kernels BLAS has
    )
    assert json.loads(done.stdout) == second
