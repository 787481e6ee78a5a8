"""Noise of a history by hand."""

import math
from pathlib import Path

import numpy as np
from collecting import tiny_history
from history_noise import history_noise

from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.records import Evaluation, Status
from warmstart.training.workloads.cnn.space import target_space


def test_noise_of_a_history_by_hand(tmp_path: Path) -> None:
    configs = list(sobol_configs(target_space(), 8))
    with tiny_history(tmp_path / "h.h5", ["alpha", "beta", "gamma"]) as history:
        runs = [("alpha", number, 0.1 * number, number) for number in range(8)]
        runs += [("alpha", 0, 0.02, 100), ("alpha", 1, 0.12, 101)]
        runs += [("beta", number, 0.1 * (7 - number), number) for number in range(8)]
        history.extend(
            Evaluation(dataset=name, config=configs[number], error=error, status=Status.OK, duration=1.0, seed=seed)
            for name, number, error, seed in runs
        )
        alpha, beta = history_noise(history)
        n_val = history.dataset("alpha").n_val
    assert (alpha.name, beta.name) == ("alpha", "beta"), "no errors, no noise"
    assert (alpha.runs, beta.runs) == (2.0, 1.0)
    assert math.isnan(beta.median)
    width, spread = 0.7 - 0.01, 0.02 / math.sqrt(2)
    np.testing.assert_allclose([alpha.median, alpha.rms], spread / math.sqrt(2) / width)
    best = np.array([0.01, 0.11])
    np.testing.assert_allclose(alpha.sampling, np.median(np.sqrt(best * (1 - best) / n_val)) / width)
