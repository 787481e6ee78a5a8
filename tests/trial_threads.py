"""Trials of the built-in networks in this process: each process of their own would load torch anew, for ten seconds."""

import multiprocessing
import os
import pickle
import threading

from training.processes.supervisor import SupervisedProcess
from warmstart.studies.execution import child, trial_process
from warmstart.studies.objectives.workload import WorkloadObjective


class TrialThread:
    """What a `SupervisedProcess` is to its parent, but a thread."""

    def __init__(self, target, *args):
        self.pid, self.code = os.getpid(), None
        self.pipe, theirs = multiprocessing.Pipe()
        self.thread = threading.Thread(target=target, args=(theirs, *args), daemon=True)
        self.thread.start()

    def end(self, wait_s=0.0):
        """Close the pipe, on which it leaves: at once, or with the next report of a trial."""
        self.pipe.close()
        self.thread.join(60)
        assert not self.thread.is_alive()


def begin(target, pickled, **settings):
    """Begin a thread where the objective is one of the built-in ones, else a process."""
    if isinstance(pickle.loads(pickled), WorkloadObjective):
        return TrialThread(target, pickled)
    return SupervisedProcess(target, pickled, **settings)


def use_threads(monkeypatch):
    """Let trials of the built-in networks run in this process."""
    monkeypatch.setattr(trial_process, "SupervisedProcess", begin)
    monkeypatch.setattr(child, "_settle_in", lambda: None)  # it is for a process of one's own
