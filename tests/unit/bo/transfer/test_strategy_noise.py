"""Noise of measured errors: opposite pairs, what stays as it was, and choices that do not follow luck."""

import numpy as np
import pytest

from warmstart.bo.transfer.designs import designs, initial_designs
from warmstart.bo.transfer.strategies import scenarios as module
from warmstart.bo.transfer.strategies.scenarios import make_scenarios, with_noise
from warmstart.history_store.errors import UsageError


def table(seed, m=6, c=12):
    return np.random.default_rng(seed).random((m, c))


def test_without_noise_or_room_nothing_changes(monkeypatch):
    worlds = make_scenarios(table(0))
    assert with_noise(worlds, 0.0) is worlds
    monkeypatch.setattr(module, "MOST_CELLS", 2 * table(0).size - 1)
    assert with_noise(worlds, 0.1) is worlds


def test_scenarios_of_a_dataset_share_its_weight_and_have_a_best():
    errors = table(1)
    errors[0, 3:] = np.nan
    worlds = make_scenarios(errors)
    noisy = with_noise(worlds, 0.1)
    before = np.bincount(worlds.dataset, worlds.share, minlength=6)
    np.testing.assert_allclose(np.bincount(noisy.dataset, noisy.share, minlength=6), before)
    np.testing.assert_allclose(noisy.regrets.min(axis=1), 0.0, atol=1e-12)
    assert len(noisy.errors) == len(noisy.regrets) == len(noisy.dataset)


def test_the_noise_has_the_size_that_is_asked_for_and_no_mean():
    worlds = make_scenarios(table(2))
    moved = with_noise(worlds, 0.07).regrets.reshape(-1, *worlds.regrets.shape) - worlds.regrets
    apart = moved - moved.mean(axis=2, keepdims=True)  # without what a scenario's best moves all
    assert apart.std() == pytest.approx(0.07 * np.sqrt(11 / 12), rel=0.01)
    np.testing.assert_allclose(apart.mean(axis=0), 0.0, atol=1e-12)


def test_a_lead_by_luck_does_not_decide():
    """0 comes first. Then 1 wins a little on one dataset, and 2 is nearly as good as 0 on all others, so it wins half of them by luck."""
    errors = np.tile([0.10, 0.90, 0.11, 0.95], (10, 1))
    errors[0, :3] = 0.14, 0.10, 0.60
    assert initial_designs(errors, k=2) == [0, 1]
    assert initial_designs(errors, k=2, noise=0.05) == [0, 2]


@pytest.mark.parametrize("wrong", [-0.1, np.nan])
def test_a_noise_that_is_none_is_refused(wrong):
    with pytest.raises(UsageError, match="expected a noise of 0 or more, got"):
        designs(table(0), k=2, noise=wrong)
