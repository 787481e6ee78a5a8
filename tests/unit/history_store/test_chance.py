import itertools

import numpy as np
import pytest

from warmstart.history_store.error_tables import ccov, ccov_by_chance


def dealt(configs, errors):
    """CCoV of every order in which the errors can be dealt to the configurations."""
    return np.concatenate([ccov(configs, [list(order)]) for order in itertools.permutations(errors)])


def test_mean_and_deviation_are_those_over_all_orders():
    configs = np.array([[0.1, -3.0], [0.4, 0.0], [0.2, 5.0], [0.9, 1.0], [0.3, 2.0]])
    errors = [0.9, 0.2, 0.05, 0.4, 0.0]
    every = dealt(configs, errors)
    mean, std = ccov_by_chance(configs, [errors])
    assert mean[0] == pytest.approx(every.mean(axis=0))
    assert std[0] == pytest.approx(every.std(axis=0))


def test_missing_errors_and_inactive_values_are_left_out_of_their_own_cells():
    configs = np.array([[0.0, np.nan], [0.5, 0.2], [1.0, 0.4], [0.25, 1.0], [0.6, 0.0]])
    errors = np.array([[0.3, np.nan, 0.1, 0.8, 0.2]])
    mean, std = ccov_by_chance(configs, errors)
    rows = [0, 2, 3, 4]
    first, first_std = ccov_by_chance(configs[rows][:, :1], errors[:, rows])
    second, second_std = ccov_by_chance(configs[[2, 3, 4]][:, 1:], errors[:, [2, 3, 4]])
    assert mean[0] == pytest.approx([first[0, 0], second[0, 0]])
    assert std[0] == pytest.approx([first_std[0, 0], second_std[0, 0]])


def test_undefined_where_ccov_is():
    mean, std = ccov_by_chance([[0.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.5, 0.1], [np.nan, 0.3]])
    assert np.isnan(mean[0]).all()
    assert np.isfinite(mean[1, 0])
    assert np.isnan(mean[:, 1]).all()
    assert np.isnan(std[2]).all()
