"""The objectives of the archived studies; with `slow` in the folder a trial takes long enough to be killed in it."""

import time
from pathlib import Path


def wait():
    """Be slow where that is wanted, and say that a trial began."""
    if Path("slow").exists():
        with Path("slow").open("a") as file:
            file.write("began\n")
        time.sleep(1)


def of_images(config, seed):
    """Give an error over the target network's space."""
    wait()
    print("trained", seed, flush=True)  # noqa: T201  for the log
    return abs(config["log10_learning_rate"] + 3) / 10 + config["dropout_rate"] / 10 + seed % 7 / 1000


def of_curves(config, seed, report):
    """Give an error over the target network's space, and errors along the way."""
    wait()
    error = of_images(config, seed)
    for step in range(50, 401, 50):
        report(step, min(1.0, error + 0.5 - step / 800))
    return error


def of_all_kinds(config, seed, report):
    """Give errors along the way, constraints and metrics over the space of every kind; one seed in five fails."""
    for step in (1, 2, 4):
        report(step, config["layers"] / step)
    wait()
    if seed % 5 == 0:
        raise RuntimeError("unlucky")
    error = abs(config["rate"] - 0.1) + config["layers"] / 10 + config.get("momentum", 0) + seed % 7 / 1000
    return {"error": error, "constraints": {"small": config["layers"] - 5}, "weights": 10.0 * config["layers"]}


def of_path(config, dataset):
    """Give an error that depends on the path."""
    wait()
    best = {"near": -3.0, "far": -1.0}[dataset]
    return min(abs(config["log10_learning_rate"] - best) / 5, 1.0)


def always_fails(config):
    """Fail."""
    raise RuntimeError("never")


def shifted(by):
    """Return an objective that is a closure."""

    def objective(config):
        wait()
        return (config["x"] - by) ** 2 + 0.1

    return objective
