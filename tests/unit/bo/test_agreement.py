"""What fits and what does not, on tables made here."""

import numpy as np
import pytest

from warmstart.bo.transfer.agreement import LEAST_GROUPS, agreement


def table(m: int = 20, c: int = 40, noise: float = 0.03, seed: int = 0) -> np.ndarray:
    """Datasets of other difficulty that agree on which configurations are good."""
    rng = np.random.default_rng(seed)
    quality, hard = rng.uniform(0, 0.5, c), rng.uniform(0.3, 1.0, (m, 1))
    return np.clip(hard * quality + noise * rng.standard_normal((m, c)), 0, 1)


@pytest.mark.parametrize("kind", ["inverted", "random", "constant"])
def test_a_dataset_that_contradicts_all_is_an_outlier(kind):
    errors = table()
    rng = np.random.default_rng(1)
    errors[3] = {"inverted": 1 - errors[3], "random": rng.permutation(errors[3]), "constant": 0.4}[kind]
    found = agreement(errors, range(20))
    assert found.outliers.tolist() == [row == 3 for row in range(20)]
    assert found.constant[3] == (kind == "constant")


def test_a_bad_configuration_that_looks_best_is_odd_and_nothing_else():
    errors = table()
    worst = int(errors.mean(0).argmax())
    errors[5, worst] = 0.0
    found = agreement(errors, range(20))
    assert np.argwhere(found.odd).tolist() == [[5, worst]]
    assert found.shifts[5, worst] < -0.6
    assert not found.outliers.any()


def test_one_group_counts_once_however_many_datasets_it_brings():
    errors = np.concatenate([table(12), 1 - table(30, seed=3)])
    found = agreement(errors, [*range(12), *["flood"] * 30])
    assert found.outliers.tolist() == [False] * 12 + [True] * 30


def test_nobody_is_judged_by_too_few():
    errors = table(LEAST_GROUPS)
    errors[0] = 1 - errors[0]
    found = agreement(errors, range(LEAST_GROUPS))
    assert not found.outliers.any()
    assert np.isnan(found.limit)
    few = table(20)
    few[0, 5:] = np.nan
    few[0, :5] = 1 - few[0, :5]
    assert np.isnan(agreement(few, range(20)).scores[0])


def test_nothing_at_all():
    assert agreement(np.zeros((0, 0)), []).outliers.shape == (0,)
    assert agreement(np.full((2, 3), np.nan), ["a", "b"]).odd.sum() == 0
