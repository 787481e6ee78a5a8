"""The simulated workers: what is recorded stays as it is, and none works on two trials at a time."""

import numpy as np
import pytest
from runs import search
from workers import DATASETS, recorded, uniform

from warmstart.history_store.history import History


@pytest.fixture(scope="module")
def table():
    return recorded(DATASETS[0])


def test_recorded_configurations_have_their_errors_and_durations(table):
    from workers import HISTORY

    with History.open(HISTORY) as history:
        known = [each for each in history.evaluations() if each.dataset == DATASETS[0] and each.status.has_error]
    assert len(known) >= 64
    for each in known[:64]:
        assert table.error(each.config) == pytest.approx(table.errors[table.unit.tolist().index(place(table, each))])
        assert table.duration(each.config) in table.seconds
    assert table.regret(table.errors.min()) == 0
    assert table.regret(table.errors.max()) == 1


def place(table, evaluation):
    return table.encoding.columns(table.encoding.encode([evaluation.config]))[0].tolist()


def test_between_them_errors_stay_between_theirs(table):
    errors = np.array([table.error(dict(config)) for config in table.space.sample_configuration(50)])
    assert table.errors.min() < errors.min() <= errors.max() < table.errors.max()
    assert len(set(errors)) == 50


def test_workers_share_the_time(table):
    alone, _ = uniform(table, 1, 24, 0)[::-1]
    many, errors = uniform(table, 8, 24, 0)[::-1]
    assert len(many) == len(errors) == 24
    assert alone[-1] / 8 <= many[-1] < alone[-1]
    assert (np.diff(many) >= 0).all()


def test_every_ask_is_clocked(table):
    trace = search(table.space, table.error, 5, workers=2, seconds=table.duration, n_startup_trials=5)
    assert len(trace.asks) == len(trace.errors) == 5
    assert trace.cpu == sum(trace.asks) > 0
