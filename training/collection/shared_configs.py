"""Configurations that all datasets of a collection share."""

from collections.abc import Sequence

from warmstart.history_store.errors import UsageError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.file.content import unit_rows
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.records import Config
from warmstart.history_store.space import load_space, space_names, with_logarithms
from warmstart.training.workloads import Workload, get_workload


def shared_configs(
    space_json: str, n: int, *, seed: int = 0, first: Sequence[Config] = (), workload: Workload | None = None
) -> list[Config]:
    """Return the configurations of a collection: the first ones, then n of a Sobol sequence, without repeats.

    Raises:
        UsageError: when there is no configuration.
        DataError: when the space is not the workload's, or a first configuration does not fit it.
    """
    if n < 0 or not (n or first):
        msg = f"collect: expected at least one configuration, got configs={n}. Ask for 16, 32 or 64."
        raise UsageError(msg)
    workload = workload or get_workload()
    by_key = {config_key(config): config for config in in_names(space_json, first)}
    drawn: list[Config] = list(sobol_configs(load_space(space_json), n, seed=seed)) if n else []
    for config in (*by_key.values(), *drawn):
        workload.check(config)
    return [*by_key.values(), *(config for config in drawn if config_key(config) not in by_key)]


def in_names(
    space_json: str, configs: Sequence[Config], *, where: str = "collect: configurations to measure first"
) -> list[Config]:
    """Return configurations with the names of a space, checked against it; `where` opens error messages."""
    names = space_names(space_json)
    renamed: list[Config] = [with_logarithms(config, names, location=where) for config in configs]
    unit_rows(space_json, renamed, where)
    return renamed
