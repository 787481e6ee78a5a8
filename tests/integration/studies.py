"""An objective and its space for tests of studies; every call of it is noted in a file."""

import os
import time
from pathlib import Path


def write_space(folder):
    """Write a space of every kind."""
    from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer  # trials need not load it

    space = ConfigurationSpace()
    space.add(
        Float("rate", (1e-4, 1.0), log=True),
        Integer("layers", (1, 6)),
        Categorical("kind", ["sgd", "adam"]),
        Float("momentum", (0.0, 0.99)),
    )
    space.add(EqualsCondition(space["momentum"], space["kind"], "sgd"))
    space.to_json(folder / "space.json")


def objective(config, seed):
    """Return an error of the configuration and the seed, slowly enough to be killed."""
    note = os.open("calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(note, f"{seed}\n".encode())
    os.close(note)
    time.sleep(seed % 5 / 50)
    if seed % 11 == 0:
        raise RuntimeError("unlucky")
    return abs(config["rate"] - 0.1) + config["layers"] / 10 + config.get("momentum", 0) + seed % 7 / 1000


def fail(config):
    """Fail whatever the configuration is."""
    raise RuntimeError("never works")


def sleep(config):
    """Take long, and say that it began."""
    Path("began").touch()
    time.sleep(60)
