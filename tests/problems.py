"""Spaces and an error that tests of optimisers share."""

from ConfigSpace import (
    Categorical,
    ConfigurationSpace,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    Integer,
)


def plane():
    """Build the two reals that `bowl` is defined on."""
    space = ConfigurationSpace()
    space.add(Float("x", (-5.0, 10.0)), Float("y", (0.0, 15.0)))
    return space


def mixed(*, layers=6):
    """Build a space of every kind: a log scale, steps up to `layers`, choices, a condition and a forbidden pair."""
    space = ConfigurationSpace()
    space.add(
        Float("rate", (1e-4, 1.0), log=True),
        Integer("layers", (1, layers)),
        Categorical("kind", ["sgd", "adam", "lamb"]),
        Float("momentum", (0.0, 0.99)),
    )
    space.add(EqualsCondition(space["momentum"], space["kind"], "sgd"))
    space.add(
        ForbiddenAndConjunction(
            ForbiddenEqualsClause(space["kind"], "lamb"), ForbiddenEqualsClause(space["layers"], layers)
        )
    )
    return space


def bowl(config):
    """Square distance from (3, 5), least 0."""
    return ((config["x"] - 3.0) / 5) ** 2 + ((config["y"] - 5.0) / 5) ** 2
