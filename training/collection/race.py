"""Racing: choice of the cell that gets one more seed, to reduce the noise of the best cells with few runs.

The contenders of a dataset are the best quarter of its configurations by mean error. Each gets a second seed; then the
dataset that needs the fewest runs gets a third one, and so on, so that whenever the race stops the most datasets are
settled. A dataset is settled when the median standard error of its contenders' means, divided by the range of the
dataset's means, is at or below a target. A contender whose standard error is at the target gets no more seeds. Means
change with every run, so the contenders are computed anew before every cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.training.collection.plan import Cell, cell_seed

BEST_SHARE = 0.25
"""Share of a dataset's configurations that contend."""
POOLED_RUNS = 2.0
"""Runs by which a cell's variance is shrunk towards that of all contenders: two runs may be equal by chance."""
MOST_SEEDS = 30
"""Most seeds of a cell."""


@dataclass(frozen=True, slots=True)
class CellNoise:
    """Noise of the means of a dataset's best configurations.

    Attributes:
        contenders: indices of the best quarter of configurations, best first.
        seeds: number of runs with an error, of each contender.
        relative: standard error of each contender's mean ÷ the range of the dataset's means; NaN if no contender has
            two runs.
    """

    contenders: tuple[int, ...]
    seeds: tuple[int, ...]
    relative: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median relative standard error."""
        return float(np.median(self.relative)) if self.relative else 0.0

    @property
    def rms(self) -> float:
        """Return the root mean square of the relative standard errors."""
        return float(np.sqrt(np.mean(np.square(self.relative)))) if self.relative else 0.0


def cell_noise(errors: Mapping[int, Sequence[float]]) -> CellNoise:
    """Estimate the noise of a dataset's contenders from their runs.

    Args:
        errors: of a dataset's runs by index of the configuration, in [0, 1].

    Returns: the noise; without contenders if there is no error or all means are equal.
    """
    numbers = [number for number, runs in sorted(errors.items()) if len(runs)]
    runs = {number: np.asarray(errors[number], dtype=np.float64) for number in numbers}
    means = np.array([runs[number].mean() for number in numbers])
    if not numbers or not np.ptp(means) > 0:
        return CellNoise((), (), ())
    best = np.argsort(means, kind="stable")[: math.ceil(BEST_SHARE * len(numbers))]
    contenders = [numbers[row] for row in best.tolist()]
    seeds = np.array([len(errors[number]) for number in contenders])
    squares = np.array([np.sum(np.square(runs[number] - runs[number].mean())) for number in contenders])
    relative = np.sqrt(_variances(squares, seeds) / seeds) / np.ptp(means)
    return CellNoise(tuple(contenders), tuple(seeds.tolist()), tuple(relative.tolist()))


def _variances(squares: NDArray[np.float64], seeds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Estimate each contender's variance between seeds, shrunk towards the pooled one; NaN without repeats."""
    freedom = seeds - 1
    if not freedom.sum():
        return np.full(len(seeds), np.nan)
    pooled = squares.sum() / freedom.sum()
    shrunk: NDArray[np.float64] = (squares + POOLED_RUNS * pooled) / (freedom + POOLED_RUNS)
    return shrunk


class Race:
    """Race of the configurations of several datasets: chooses cells to repeat as results arrive.

    Args:
        datasets: their names, in the order of work.
        configs: shared by all datasets.
        target: median relative standard error to reach on every dataset.
        seed: of the collection.
        most_seeds: most runs of a cell.

    Raises:
        UsageError: when the target is not in (0, 1).
    """

    def __init__(
        self,
        datasets: Sequence[str],
        configs: Sequence[Config],
        target: float,
        *,
        seed: int = 0,
        most_seeds: int = MOST_SEEDS,
    ) -> None:
        if not 0 < target < 1:
            msg = f"race: expected a standard error in (0, 1), as a share of a dataset's range of errors, got {target}. Use 0.015."
            raise UsageError(msg)
        self.datasets, self.configs, self.target = tuple(datasets), list(configs), target
        self.seed, self.most_seeds = seed, most_seeds
        self._errors: dict[str, dict[int, list[float]]] = {name: {} for name in datasets}
        self._runs: dict[tuple[str, int], int] = {}  # with failed and running ones
        self._seeds: set[tuple[str, int]] = set()
        self._noise: dict[str, CellNoise] = {}

    def add(self, dataset: str, index: int, *, seed: int | None, error: float) -> None:
        """Add a finished run; its error is NaN after a failure."""
        if seed is None or (dataset, seed) not in self._seeds:
            self._begin(dataset, index, seed)
        if not math.isnan(error):
            self._errors[dataset].setdefault(index, []).append(error)
            self._noise.pop(dataset, None)

    def noise(self, dataset: str) -> CellNoise:
        """Return the estimated noise of a dataset."""
        if dataset not in self._noise:
            self._noise[dataset] = cell_noise(self._errors[dataset])
        return self._noise[dataset]

    def is_settled(self, dataset: str) -> bool:
        """Tell whether a dataset needs no further seed, or can get none."""
        return not self._waiting(dataset)

    def next_cell(self) -> Cell | None:
        """Return the next cell, which then counts as running; None when all datasets are settled.

        Contenders without a second run come first, then the dataset that needs the fewest runs, its contenders in turn.
        """
        waiting = []
        for position, name in enumerate(self.datasets):
            left = len(self._remaining_runs(name))
            waiting += [(0 if runs < 2 else left, position, runs, index) for runs, index in self._waiting(name)]
        if not waiting:
            return None
        _, position, _, index = min(waiting)
        dataset, config = self.datasets[position], self.configs[index]
        replicate = 0
        while (dataset, cell_seed(dataset, config, replicate, base=self.seed)) in self._seeds:
            replicate += 1
        cell = Cell(dataset, config, cell_seed(dataset, config, replicate, base=self.seed), index)
        self._begin(dataset, index, cell.seed)
        return cell

    def cells_left(self) -> list[int]:
        """Estimate the remaining runs: the index of a configuration for each."""
        return [index for name in self.datasets for index in self._remaining_runs(name)]

    def _begin(self, dataset: str, index: int, seed: int | None) -> None:
        self._runs[dataset, index] = self._runs.get((dataset, index), 0) + 1
        if seed is not None:
            self._seeds.add((dataset, seed))

    def _waiting(self, dataset: str) -> list[tuple[int, int]]:
        """Return (runs, configuration) of the contenders of a dataset that need another run."""
        noise = self.noise(dataset)
        if min(noise.seeds, default=2) > 1 and noise.median <= self.target:
            return []
        noisy = [
            (self._runs[dataset, index], index)
            for index, seeds, relative in zip(noise.contenders, noise.seeds, noise.relative, strict=True)
            if seeds < 2 or not relative <= self.target
        ]
        return [(runs, index) for runs, index in noisy if runs < self.most_seeds]

    def _remaining_runs(self, dataset: str) -> list[int]:
        """Return the configurations of the remaining runs of a dataset at its present variances."""
        noise = self.noise(dataset)
        if not self._waiting(dataset):
            return []
        seeds = np.array(noise.seeds)
        spread = np.array(noise.relative) * np.sqrt(seeds)
        spread = np.where(np.isnan(spread), 2 * self.target, spread)  # a guess before the first repeat
        enough = np.clip(np.ceil((spread / self.target) ** 2), 2, self.most_seeds)
        after = seeds.astype(np.float64)
        for level in range(2, self.most_seeds + 1):
            after = np.maximum(seeds, np.minimum(level, enough))
            if np.median(spread / np.sqrt(after)) <= self.target:
                break
        left: list[int] = np.repeat(noise.contenders, (after - seeds).astype(np.int64)).tolist()
        return left
