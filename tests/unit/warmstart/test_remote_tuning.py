"""What `tune --server` reads of the trials of a study that a server keeps."""

from types import SimpleNamespace

from warmstart.remote_tuning import _Queue, _Worker

TRIAL = {"config": {}, "state": "ok", "duration": 1.0, "seed": 0, "note": "", "constraints": {}, "curve": []}


def test_results_that_came_too_late_are_no_trials_of_those_asked_for():
    trials = [
        TRIAL | {"number": 0, "error": 0.5, "extra_of": None},
        TRIAL | {"number": 1, "error": 0.25, "extra_of": 0},
    ]
    running = TRIAL | {"number": 2, "state": "running", "error": None, "extra_of": None}
    queue = _Queue(SimpleNamespace(name="s", trials=lambda: [*trials, running]), plan=None, on_message=print)
    told = []
    options = SimpleNamespace(progress=told.append, on_message=print)
    worker = _Worker([queue], options, SimpleNamespace(trials=3))
    worker.look()
    trials.append(TRIAL | {"number": 3, "error": 0.75, "extra_of": None})
    worker.look()
    assert queue.n_extra == 1
    assert [(each.done, each.total, each.best.error) for each in told] == [(1, 3, 0.25), (2, 3, 0.25)]
