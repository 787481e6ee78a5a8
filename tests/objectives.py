"""Objectives for trials in processes of their own, which load this module: it imports next to nothing, so that they start at once."""

import sys
import time
from contextlib import suppress
from pathlib import Path


def bowl(config, seed, reporter, budget=1.0):
    reporter(1, 1.0)
    return (config["x"] - 0.3) ** 2 + (config["y"] + 0.2) ** 2 + (budget or 0)


def slow(config):
    time.sleep(0.5)
    return config["x"]


def speak(config):
    sys.stdout.write("spoken\n")
    return config["x"]


def remove_folder(config):
    Path("there").rmdir()
    return config["x"]


def fail(config):
    raise RuntimeError("never")


def none(config):
    return None


def fail_for_many_reasons(config, seed):
    return {"status": "failed", "note": "abcdefgh"[seed % 8]}


def fail_but_once(config):
    with suppress(FileExistsError):
        Path("once").touch(exist_ok=False)
        return 0.5
    return None


def total(config):
    return config["x"] + config["y"]


def rate(config):
    return min(abs(config["log10_learning_rate"] + 3) / 5, 1.0) if config["batch_size"] < 30 else 7.0


def own_names(config):
    return config["lr"] + len(config["model"]) + config["batch_size"] / 100


def rate_alone(config):
    return min(abs(config["log10_learning_rate"] + 3) / 5, 1.0)


def parabola(config):
    return (config["x"] - 0.3) ** 2


def value(config):
    return config["x"]


def quick(config):
    return {"error": config["x"], "duration": 0.5}


def letter(config):
    return {"a": 0.25, "b": 0.75}[config["x"]]


def by_model(config, dataset):
    return {"score": 90.0 if config["model"] == "small" else 60.0, "note": dataset}


def blind(config):
    return 0.5


class Model:
    """One whose method measures, and that measures itself."""

    def __init__(self, best):
        self.best = best

    def fit(self, config):
        return abs(config["x"] - self.best)

    __call__ = fit


def shifted(best, config):
    return abs(config["x"] - best)


def inner(best):
    return lambda config: abs(config["x"] - best)


CURVES = {True: (0.3, 0.1, 0.05, 0.03), False: (0.9, 0.9, 0.9, 0.9)}


def replay(config, *, seed, budget, report):
    """Stand in for a training run: rates above 0.02 learn nothing."""
    curve = CURVES[config["lr"] < 0.02]
    for step, error in zip((5, 10, 15, 20), curve, strict=True):
        report(step, error)
    return curve[-1]
