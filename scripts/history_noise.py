"""Noise of a history's errors, between seeds and from the finite validation part."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.training.collection.race import cell_noise


@dataclass(frozen=True, slots=True)
class DatasetNoise:
    """Noise of the best quarter of a dataset's configurations, relative to the range of its errors.

    Attributes:
        name: of the dataset.
        runs: median number of seeds of those configurations.
        median: median standard error of a mean over seeds ÷ range; NaN without repeats.
        rms: root mean square of the same.
        sampling: median standard error of an error from the finite validation part ÷ range. Configurations of a dataset
            share it in part, so differences between them are less uncertain.
    """

    name: str
    runs: float
    median: float
    rms: float
    sampling: float


def history_noise(history: History) -> tuple[DatasetNoise, ...]:
    """Estimate the noise of every dataset of a history whose errors differ."""
    cells: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    index = {config_key(config): number for number, config in enumerate(history.configs)}
    for run in history.evaluations():
        if run.status.has_error:
            cells[run.dataset][index[config_key(run.config)]].append(run.error)
    noises = []
    for info in history.datasets:
        noise = cell_noise(cells[info.name])
        if not noise.contenders:
            continue
        means = {number: float(np.mean(runs)) for number, runs in cells[info.name].items()}
        best = np.array([means[number] for number in noise.contenders])
        sampling = np.sqrt(best * (1 - best) / max(info.n_val, 1)) / np.ptp(list(means.values()))
        noises.append(
            DatasetNoise(info.name, float(np.median(noise.seeds)), noise.median, noise.rms, float(np.median(sampling)))
        )
    return tuple(noises)
