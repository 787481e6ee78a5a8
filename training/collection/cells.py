"""Cells: one configuration on one dataset, with a seed derived from both."""

import hashlib
import json

from warmstart.history_store.records import Config


def cell_seed(dataset: str, config: Config, replicate: int = 0, *, base: int = 0) -> int:
    """Return the seed of a cell, in 0 .. 2^32 - 1, equal on every machine and in every order of work.

    Args:
        dataset: its name.
        config: hyperparameter values by name; their order does not matter.
        replicate: number of the repetition.
        base: seed of the collection.
    """
    key = json.dumps([base, dataset, dict(config), replicate], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big")
