"""The Siamese network on landmark features: trained so that distances of its outputs match those of errors [Kim et al., 2017]."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]
STEPS, RATE, DECAY, WIDTH = 400, 3e-3, 3.0, 256
"""Those of `warmstart fit-similarity` for handcrafted features (preset modern)."""


def siamese_distances(features: Array, target: Array, asked: Array, *, seed: int = 0) -> Array:
    """Train on `m` datasets, every pair in every step, and compute the distances from one dataset to them.

    Args:
        features: `m x p`.
        target: `m x m` wanted distances.
        asked: `p` of the dataset that asks.
        seed: of the weights.

    Returns: `m`.
    """
    spread = features.std(0)
    ready = [(each - features.mean(0)) / np.where(spread > 0, spread, 1) for each in (features, asked)]
    rows, query = (torch.tensor(each, dtype=torch.float32) for each in ready)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = torch.nn.Sequential(
            torch.nn.Linear(rows.shape[1], WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, WIDTH),
        )
    fit_distances(network.parameters(), lambda: network(rows), target)
    with torch.inference_mode():
        return torch.linalg.vector_norm(network(rows) - network(query), dim=1).numpy().astype(float)


def fit_distances(parameters: Iterable[torch.nn.Parameter], embed: Callable[[], torch.Tensor], target: Array) -> None:
    """Train parameters so that distances of `m` points, embedded anew in every step, match `m x m` wanted ones."""
    wanted = torch.tensor(target, dtype=torch.float32)
    i, j = torch.triu_indices(len(target), len(target), 1)
    optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        points = embed()
        found = ((points[i] - points[j]).square().sum(1) + 1e-12).sqrt()
        loss = (wanted[i, j] - found).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
