"""Folder of text shards that receives every cell of a collection."""

from pathlib import Path

from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation
from warmstart.history_store.shards import append_shard, create_shards, merge_shards, read_shards, write_shards
from warmstart.training.workloads import Budget


class ShardFolder:
    """Folder of shards that receives every finished cell."""

    def __init__(self, history: "History", folder: Path, budget: Budget, seed: int) -> None:
        """Open the folder, and write the cells of the history that it lacks."""
        self.history, self.folder, self.budget, self.seed = history, folder, budget, seed
        self.complete()
        self._number()

    def complete(self) -> None:
        """Write the cells of the history that the folder lacks."""
        write_shards(self.history, self.folder, budget=self.budget.to_dict(), seed=self.seed)

    def append(self, evaluation: Evaluation) -> None:
        """Write one cell, durably."""
        key = config_key(evaluation.config)
        if key not in self.index:
            create_shards(
                self.folder,
                self.history.space_json,
                configs=self.history.configs,
                budget=self.budget.to_dict(),
                seed=self.seed,
                stored_size=self.history.stored_size,
            )
            self._number()
        append_shard(self.folder, self.index[key], evaluation)

    def _number(self) -> None:
        self.index = {config_key(config): number for number, config in enumerate(read_shards(self.folder).configs)}


def take_shards(history: "History", folder: Path, budget: Budget, seed: int) -> None:
    """Create a folder of shards, or add its cells to the history; a folder of another collection is refused."""
    create_shards(
        folder, history.space_json, configs=(), budget=budget.to_dict(), seed=seed, stored_size=history.stored_size
    )
    history.add_configs(read_shards(folder).configs)
    merge_shards(history, folder)
