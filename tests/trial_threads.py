"""Trials and cells of the built-in networks in this process: each process of their own would load torch anew, for ten seconds."""

import multiprocessing
import os
import pickle
import threading

from warmstart.studies.execution import child, trial_process
from warmstart.studies.objectives.command import CommandObjective
from warmstart.studies.objectives.workload import WorkloadObjective
from warmstart.training.collection.measure import Measure
from warmstart.training.processes import executor
from warmstart.training.processes.supervisor import SupervisedProcess


class TrialThread:
    """What a `SupervisedProcess` is to its parent, but a thread."""

    def __init__(self, target, *args):
        self.pid, self.code = os.getpid(), None
        self.pipe, theirs = multiprocessing.Pipe()
        self.thread = threading.Thread(target=target, args=(theirs, *args), daemon=True)
        self.thread.start()

    def kill(self):
        """Leave it to `end`."""

    def end(self, wait_s=0.0):
        """Close the pipe, on which it leaves: at once, or with the next report of a trial."""
        self.pipe.close()
        self.thread.join(200)
        assert not self.thread.is_alive()


def begin_trials(target, pickled, **settings):
    """Begin a thread where the objective is one of the built-in ones, else a process."""
    if isinstance(pickle.loads(pickled), WorkloadObjective):
        return TrialThread(target, pickled)
    return SupervisedProcess(target, pickled, **settings)


def begin_functions(target, pickled, **settings):
    """Begin a thread for any function, a process for a command."""
    if isinstance(pickle.loads(pickled), CommandObjective):
        return SupervisedProcess(target, pickled, **settings)
    return TrialThread(target, pickled)


def begin_cells(target, work, tells):
    """Begin a thread where a built-in network is measured, else a process."""
    if isinstance(work, Measure) and not work.workload.is_own:
        return TrialThread(target, pickle.loads(pickle.dumps(work)), tells)
    return SupervisedProcess(target, work, tells)


def use_threads(monkeypatch, begin=begin_trials):
    """Let trials and cells of the built-in networks run in this process; with `begin_functions`, any function."""
    monkeypatch.setattr(trial_process, "SupervisedProcess", begin)
    monkeypatch.setattr(executor, "SupervisedProcess", begin_cells)
    monkeypatch.setattr(child, "_set_up_process", lambda: None)  # it is for a process of one's own
