"""How far a study is: the time left, as long as the trials before tell it."""

import math
import time

import pytest

from warmstart.studies.execution.worker import Limits
from warmstart.studies.results.progress import Watch
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.study_group import StudyGroup
from warmstart.studies.tune import tune

pytestmark = pytest.mark.timeout(60)


def quick(config):
    return {"error": config["x"], "duration": 0.5}


def test_the_time_left_is_unknown_once_a_trial_outlives_all_before(tmp_path):
    tune(objective=quick, space={"x": (0.0, 1.0)}, storage=tmp_path / "s.db", study="s", trials=2)
    told = []
    with StudyGroup.open(open_store(tmp_path / "s.db"), ["s"]) as group:
        watch = Watch(group, Limits(3), told.append, pytest.fail)
        watch.look()
        _, run = group.next(3)
        watch.look()
        assert told[-1].left_s == pytest.approx(0.5, abs=0.05)
        time.sleep(0.25)
        group.queues[0].report(run, 1, 0.5)
        group.queues[0].flush()
        watch.look()
        assert 0.1 < told[-1].left_s < 0.5
        time.sleep(0.4)
        group.queues[0].report(run, 2, 0.5)
        group.queues[0].flush()
        watch.look()
        assert math.isnan(told[-1].left_s)
