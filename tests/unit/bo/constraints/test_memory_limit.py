"""A lack of memory teaches which batch sizes are too large."""

import numpy as np
import pytest
from ConfigSpace import Categorical, ConfigurationSpace, Float, ForbiddenEqualsClause, Integer

from warmstart.bo import Optimizer
from warmstart.bo.acquisition.improvement_validity_cost import Product
from warmstart.bo.constraints import MEMORY
from warmstart.bo.constraints.memory import points_beyond
from warmstart.bo.models import _constraints
from warmstart.bo.observation import Observation
from warmstart.bo.space.encoding import Encoding

SIZES = {"bs": [16, 32, 64, 128, 256], "model.batch_size": (8, 512)}


def make_space(name):
    space = ConfigurationSpace()
    sizes = SIZES[name]
    size = Categorical(name, sizes) if isinstance(sizes, list) else Integer(name, sizes, log=True)
    space.add(Float("lr", (1e-4, 0.1), log=True), size)
    return space


@pytest.mark.parametrize("name", SIZES)
def test_larger_batches_than_one_without_memory_become_unlikely_at_any_learning_rate(name):
    told = [(1e-2, 16, 0.3), (3e-3, 32, 0.25), (1e-3, 16, 0.35), (2e-2, 64, None), (5e-3, 16, 0.28)]
    optimizer = Optimizer(make_space(name), seed=0)
    for lr, size, error in told:
        optimizer.tell({"lr": lr, name: size}, error, constraints=None if error else {MEMORY: False})
    data, sizes = optimizer._log.data(), (16, 32, 64, 128, 256)
    points = [{"lr": lr, name: size} for lr in (5e-4, 5e-3) for size in sizes]
    columns = optimizer._log.columns(optimizer._encoding.encode(points))
    chances = np.exp(Product(optimizer._fitted._validity(_constraints(data), data)).value(columns)).reshape(2, 5)
    assert chances[:, :2].min() > 0.8
    assert chances[:, 2:].max() < 0.15


def test_what_follows_from_one_evaluation_is_allowed_and_no_smaller():
    space = make_space("bs")
    space.add(ForbiddenEqualsClause(space["bs"], 256))
    encoding, config = Encoding(space), {"lr": 1e-2, "bs": 32}
    point = encoding.encode([config])[0]
    beyond = encoding.decode(points_beyond(encoding, Observation.of(config, None, constraints={MEMORY: False}), point))
    assert {row["bs"] for row in beyond} == {32, 64, 128}
    assert len({row["lr"] for row in beyond}) == 3
