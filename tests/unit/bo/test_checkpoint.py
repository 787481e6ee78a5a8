"""A checkpoint carries a run to another process that knows what was told and what is pending from elsewhere."""

import json

import pytest
from problems import mixed, plane

from warmstart.bo import Optimizer
from warmstart.history_store.errors import DataError

NAN = float("nan")
SETTINGS = {"initial": [{"rate": 0.5, "layers": 5, "kind": "adam"}], "seed": 3}


def error(config):
    return NAN if config["rate"] > 0.3 else config["rate"] + abs(config["layers"] - 4)


def tell(optimizer, config):
    optimizer.tell(config, error(config), duration=1.0 + config["rate"], constraints={"small": config["layers"] < 5})


def elsewhere(optimizer, told, pending, **settings):
    """Set up what another process has: the tells and a checkpoint through JSON, nothing else."""
    checkpoint = json.loads(json.dumps(optimizer.checkpoint(), allow_nan=False))
    other = Optimizer(mixed(), **settings)
    for config in told:
        tell(other, config)
    other.resume(checkpoint, pending=pending)
    return other


def test_the_next_suggestions_are_those_of_the_process_that_went_on():
    settings = SETTINGS | {"surrogate": "gp"}
    whole, told = Optimizer(mixed(), **settings), []
    for _ in range(2):
        configs = whole.ask(2)
        asked = elsewhere(whole, told, configs, **settings)  # between ask and tell, nothing new told
        tell(whole, configs[0])
        tell(asked, configs[0])  # told after the resumption
        told.append(configs[0])
        tell(whole, configs[1])
        tell(asked, configs[1])
        told.append(configs[1])
        between = elsewhere(whole, told, [], **settings)
        assert asked.history() == between.history() == whole.history()
        expected = whole.ask()
        assert asked.ask() == between.ask() == expected
        assert elsewhere(whole, told, expected, **settings).checkpoint() == whole.checkpoint()
        tell(whole, expected[0])
        told += expected


def test_pending_configurations_are_taken_and_those_told_are_passed_over():
    optimizer = Optimizer(plane(), seed=0)
    optimizer.tell({"x": 1.0, "y": 1.0}, 0.5)
    optimizer.resume(pending=[{"x": 1.0, "y": 1.0}, {"x": 2.0, "y": 1.0}, {"x": 2.0, "y": 1.0}])
    assert optimizer.pending == [{"x": 2.0, "y": 1.0}]
    with pytest.raises(DataError, match="unknown name 'z'"):
        optimizer.resume(pending=[{"x": 1.0, "y": 1.0, "z": 1.0}])


@pytest.mark.parametrize("damaged", [[], {"asked": 1, "revision": 1, "told": 0, "models": {"errors": {}}}])
def test_a_damaged_checkpoint_is_refused(damaged):
    with pytest.raises(DataError, match=r"expected the output of checkpoint.*Leave it out"):
        Optimizer(plane()).resume(damaged)
