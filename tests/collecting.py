"""What the tests of collecting share: tiny histories, an executor in this process, stand-ins for training."""

import math
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np

from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.records import DatasetInfo, Evaluation, Status
from warmstart.history_store.space import dump_space
from warmstart.history_store.splits import split_codes
from warmstart.training.collection.measure import Measured
from warmstart.training.collection.plan import Cell
from warmstart.training.processes.executor import Done, Lost
from warmstart.training.workloads.cnn.budget import Budget
from warmstart.training.workloads.cnn.space import target_space

T = TypeVar("T")
R = TypeVar("R")

TINY = Budget("tiny", updates=2, decay_updates=100, curve_points=1)


def pictures(seed: int, n: int = 24, size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (np.arange(n) % 2).astype(np.int64)
    images = rng.integers(0, 100, (n, size, size, 1)).astype(np.uint8)
    images[labels == 1] += 100
    return images, labels


def tiny_history(path: Path, names: Iterable[str] = ("alpha", "beta")) -> History:
    history = History.create(path, dump_space(target_space()), stored_size=8)
    for number, name in enumerate(names):
        images, labels = pictures(number)
        split, seed = split_codes(labels)
        counts = [int((split == code).sum()) for code in range(3)]
        info = DatasetInfo(
            name=name,
            group=name,
            n_train=counts[0],
            n_val=counts[1],
            n_test=counts[2],
            n_classes=2,
            channels=1,
            class_counts=tuple(np.bincount(labels[split == 0]).tolist()),
            split_seed=seed,
        )
        history.add_dataset(info, ImageSet(images, labels, ("dark", "bright")), split)
    return history


class Here:
    """Runs tasks one by one in this process; `lose` says which are lost, and how."""

    def __init__(
        self, work: Callable[[Cell], Measured] | None = None, lose: Callable[[Cell], Lost | None] = lambda cell: None
    ) -> None:
        self.work, self.lose = work, lose
        self.cells: list[Cell] = []

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Done[T, R]]:
        for task in tasks:
            self.cells.append(task)
            lost = self.lose(task)
            yield Done(task, None if lost else (self.work or work)(task), lost, "lost" if lost else "")


def pretend(cell: Cell) -> Measured:
    """Measure nothing, in no time: an error that follows from the cell."""
    return Measured(
        Evaluation(
            dataset=cell.dataset,
            config=cell.config,
            error=cell.seed % 1000 / 1000,
            status=Status.OK,
            duration=1.0 + cell.index,
            seed=cell.seed,
            curve=((1, 0.5),),
            origin="collect/tiny",
        )
    )


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))
