"""Objectives that behave and objectives that do not; imported in the children, so without pytest."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warmstart.history_store.errors import BrokenImagesError, DataError

calls = 0
next_one, was_late = threading.Event(), threading.Event()
MB = 2**20


def remember(config, *, seed, budget, report):
    global calls
    calls += 1
    return {"error": config["x"], "pid": os.getpid(), "calls": calls, "seed": seed, "budget": budget or 0}


def give(config, *, seed, budget, report):
    return {
        "nothing": None,
        "text": "0.5",
        "two": (0.1, 0.2),
        "two in an array": np.array([0.1, 0.2]),
        "nan": float("nan"),
        "inf": float("inf"),
        "truth": True,
        "complex": 1j,
        "huge": 10**400,
        "no error": {"loss": 0.1},
        "text in a mapping": {"error": "low"},
        "negative duration": {"error": 0.1, "duration": -1.0},
        "constraint of text": {"error": 0.1, "constraints": {"fits": "yes"}},
        "constraints of another kind": {"error": 0.1, "constraints": [0.1]},
        "status": {"error": 0.1, "status": "great"},
        "its own class": Unprintable(),
    }[config["what"]]


class Unprintable:
    def __repr__(self):
        raise ZeroDivisionError


def end(config, *, seed, budget, report):
    """End in the way that the configuration says."""
    sys.stdout.write("the last words\n")
    WAYS[config["way"]]()
    return 0.5


def _raise():
    raise ValueError("a loss\nof \x1b[31m many lines")


def _fork_and_die():
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def _hold_the_gil():
    ctypes.PyDLL(None).sleep(60)


def _ignore_terms():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def _out_of_memory():
    np.empty(2**60, dtype=np.uint8)


WAYS = {
    "returns": lambda: None,
    "raises": _raise,
    "sys.exit": lambda: sys.exit(3),
    "interrupt": lambda: signal.raise_signal(signal.SIGINT),  # blocked: nothing happens
    "os._exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "real-time signal": lambda: os.kill(os.getpid(), signal.SIGRTMIN + 1),
    "fork and die": _fork_and_die,
    "memory error": _out_of_memory,
    "input": input,
    "sleep": lambda: time.sleep(60),
    "hold the gil": _hold_the_gil,
    "ignore terms": _ignore_terms,
    "closes its files": lambda: (os.closerange(3, 256), time.sleep(60)),
}


def clean_up(config, *, seed, budget, report):
    """Leave a note when it is asked to go, half a second later."""

    def leave(*_):
        time.sleep(0.5)
        Path(config["file"]).write_text("clean")
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    Path(config["file"] + ".ready").touch()
    time.sleep(60)


def start_another(config, *, seed, budget, report):
    """Start a process that ignores SIGTERM, write its number, then sleep or hold the interpreter."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        path = Path(config["file"])
        path.with_suffix(".part").write_text(f"{os.getpid()} {process.pid}")
        path.with_suffix(".part").replace(path)
        WAYS[config["way"]]()


def grow(config, *, seed, budget, report):
    """Hold so many megabytes, here or in a child."""
    if config.get("child"):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            return pool.apply(_hold, (config["mb"],))
    return _hold(config["mb"])


def _hold(mb):
    held = []
    for _ in range(mb // 10):
        held.append(np.ones(10 * MB, dtype=np.uint8))
        time.sleep(0.002)
    time.sleep(0.3 if mb < 500 else 60)  # too much is held until somebody looks
    return len(held)


def go_down(config, *, seed, budget, report):
    """Report 1/1, 1/2, 1/3 ...; note in the file how it ended."""
    try:
        for step in range(config["steps"]):
            report(step, 1 / (step + 1))
            time.sleep(config.get("pause", 0.0))
    finally:
        if "file" in config:
            Path(config["file"]).write_text(f"{step}")
    return 1 / (step + 1)


@dataclass
class Prepared:
    """Prepares in the way given."""

    how: str

    def prepare(self):
        if self.how == "bad data":
            raise DataError("photos: expected two classes, got one. Add one.")
        if self.how == "bug":
            raise ZeroDivisionError("by zero")
        if self.how == "exit":
            sys.exit("no licence")
        if self.how == "dies":
            sys.stderr.write("no room\n")
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how.startswith("dies once:") and not Path(self.how[10:]).exists():
            Path(self.how[10:]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "hangs":
            time.sleep(60)
        if self.how == "works":
            until = time.process_time() + 4
            while time.process_time() < until:
                pass
        self.how = "prepared"

    def __call__(self, config, *, seed, budget, report):
        return {"error": 0.0, "prepared": float(self.how == "prepared")}


def fork_and_return(config, *, seed, budget, report):
    """Fork; both processes report and return, the child first."""
    pid = os.fork()
    if pid == 0:
        report(1, 0.9)
        if config["child"] == "raises":
            raise SystemExit(3)
        return 0.9
    os.waitpid(pid, 0)
    report(2, config["x"])
    return config["x"]


def report_late(config, *, seed, budget, report):
    """Report from a thread that goes on after the trial, in the middle of the next one."""

    def late():
        next_one.wait(60)
        try:
            report(7, 0.9)
        finally:
            was_late.set()

    if config["x"] == 0.0:
        threading.Thread(target=late, daemon=True).start()
        return 0.0
    report(1, config["x"])
    next_one.set()
    was_late.wait(60)
    report(2, config["x"])
    return config["x"]


def report_impossible(config, *, seed, budget, report):
    try:
        report(config["step"], 0.5)
    except ValueError:
        if not config["caught"]:
            raise
    return 0.25


def broken_picture(config, *, seed=0, budget=None, report=None):
    msg = "photos: expected pictures that can be decoded, got 1 broken of 9: a.png"
    raise BrokenImagesError(msg, ["a.png"])
