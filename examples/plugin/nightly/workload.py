"""Softmax regression on small grey pictures, by gradient descent: a workload without torch, in one file."""

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from warmstart.history_store.errors import DataError, LabelError, UsageError
from warmstart.history_store.records import Status
from warmstart.training.workloads import Classifier, Member, Prepared, TrainingResult, Workload
from warmstart.training.workloads.classifier_file import not_a_classifier, read_header, to_metadata

SIZE = 8
POINTS = 8


class Epochs(NamedTuple):
    """So many passes over the training part."""

    name: str
    epochs: int
    unit: str = "epochs"

    def to_dict(self) -> dict[str, Any]:
        """Return what decides the length."""
        return {"workload": "softmax", "name": self.name, "epochs": self.epochs}


class Softmax(Workload):
    """Learning rate, and whether the weights decay and how fast."""

    name = "softmax"
    spaces = ("usual",)
    budgets = ("long", "short")

    def space(self, name=None):
        """Build the one space; the decay is conditional."""
        if name not in (None, *self.spaces):
            msg = f"expected a space of softmax among usual, got {name!r}. Leave it out."
            raise UsageError(msg, param="space")
        space = ConfigurationSpace(name="softmax")
        decays, decay = Categorical("decays", ["no", "yes"]), Float("decay", (1e-5, 1e-1), log=True)
        space.add(Float("rate", (1e-2, 1e1), log=True), decays, decay)
        space.add(EqualsCondition(decay, decays, "yes"))
        return space

    def budget(self, name=None, *, amount=None):
        """Return 200 or 20 epochs, or so many."""
        name = name or "long"
        if name not in self.budgets:
            msg = f"expected a budget of softmax among long, short, got {name!r}. Leave it out."
            raise UsageError(msg, param="target_budget")
        return Epochs(name, {"long": 200, "short": 20}[name] if amount is None else max(int(amount), 1))

    def check(self, config):
        """Check that the rate is there."""
        if not isinstance(config.get("rate"), float):
            msg = f"softmax: expected rate and, where decays is yes, decay, got {dict(config)}. Take one of its space."
            raise DataError(msg)

    def cost(self, config, budget, *, n_train):  # noqa: ARG002  the interface
        """Count multiplications."""
        return float(budget.epochs * n_train * SIZE * SIZE)

    def steps(self, budget, *, config=None, n_train=None):  # noqa: ARG002  the interface
        """Count the epochs."""
        return budget.epochs

    def prepare(self, dataset, *, device=None):
        """Flatten the pictures; there is no device but the CPU."""
        if device not in (None, "cpu"):
            msg = f"expected the device cpu, got {device!r}. Leave it out."
            raise UsageError(msg, param="device")
        images = dataset.images(SIZE)
        parts = [dataset.rows(part) for part in ("train", "val")]
        if len(parts[0]) < 2 or not len(parts[1]):
            msg = f"{dataset.location}: expected 2 training images and 1 for validation, got {len(parts[0])} and {len(parts[1])}. Give more."
            raise LabelError(msg)
        X = flat(images)
        return PreparedSoftmax(
            [(X[rows], dataset.labels[rows]) for rows in parts], dataset.class_names, images.shape[3]
        )

    def load(self, path):
        """Read weights."""
        header = read_header(path)
        try:
            weights = [load_file(path)[f"{i}"] for i in range(len(header["members"]))]
        except (SafetensorError, KeyError, OSError) as error:
            raise not_a_classifier(path, error) from error
        members = [Member(**member) for member in header["members"]]
        return Weights(members, weights, header["classes"], header["channels"], header["error"])


class PreparedSoftmax(Prepared):
    """Flat pictures with a constant column."""

    def __init__(self, parts, classes, channels):
        self.train_part, self.val_part = parts
        self.classes, self.channels = tuple(classes), channels

    def train(self, config, *, seed, budget, report=None, timeout_s=math.inf, keep=False):
        """Go down the gradient of the cross-entropy, all pictures at a time."""
        Softmax().check(config)
        if not isinstance(budget, Epochs):
            msg = f"softmax: expected a budget of the workload 'softmax', got {budget!r}. Take one from Softmax().budget()."
            raise UsageError(msg)
        began, (X, y) = time.process_time(), self.train_part
        W = np.random.default_rng(seed).normal(0, 0.01, (X.shape[1], len(self.classes)))
        wanted, curve = np.eye(len(self.classes))[y], []
        marks = {math.ceil(budget.epochs * (i + 1) / POINTS) for i in range(POINTS)}
        for epoch in range(1, budget.epochs + 1):
            slope = X.T @ (softmax(X @ W) - wanted) / len(X) + config.get("decay", 0.0) * W
            W -= config["rate"] * slope
            if epoch in marks:
                curve.append((epoch, error_of([W], *self.val_part)))
                if report is not None:
                    report(*curve[-1])
            if epoch < budget.epochs and time.process_time() - began > timeout_s:
                return TrainingResult(math.nan, Status.TIMEOUT, time.process_time() - began, tuple(curve))
        seconds = max(time.process_time() - began, 1e-9)
        return TrainingResult(curve[-1][1], Status.OK, seconds, tuple(curve), model=W if keep else None)

    def constant_error(self):
        """Compute the error of the most frequent class."""
        return float(np.mean(self.val_part[1] != np.bincount(self.train_part[1]).argmax()))

    def combine(self, members, models, *, error=None):
        """Join weights."""
        found = error_of(models, *self.val_part) if error is None else error
        return Weights(members, models, self.classes, self.channels, found)


class Weights(Classifier):
    """Weights whose probabilities are averaged."""

    def __init__(self, members, weights, classes, channels, error):
        self.members, self.weights, self.classes = tuple(members), list(weights), tuple(classes)
        self.size, self.channels, self.error = SIZE, channels, error

    def predict(self, images):
        """Average the probabilities."""
        wanted = (SIZE, SIZE, self.channels)
        if images.dtype != np.uint8 or images.shape[1:] != wanted:
            msg = f"softmax: expected images n x {wanted} of uint8, got {images.dtype} of shape {images.shape}. Read them at size={SIZE}."
            raise DataError(msg)
        return np.mean([softmax(flat(images) @ W) for W in self.weights], axis=0)

    def save(self, path: Path):
        """Write the weights."""
        members = [member.to_dict() for member in self.members]
        header = {"members": members, "classes": self.classes, "channels": self.channels, "error": self.error}
        tensors = {f"{i}": W for i, W in enumerate(self.weights)}
        save_file(tensors, path, metadata=to_metadata("softmax", header))


def flat(images):
    """Turn `n x s x s x c` pictures into `n x (s² + 1)` numbers."""
    grey = images.mean(axis=3).reshape(len(images), -1) / 255 - 0.5
    return np.column_stack([grey, np.ones(len(images))])


def softmax(scores):
    """Turn scores into probabilities."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def error_of(weights, X, y):
    """Compute the share of pictures that the average of weights gets wrong."""
    return float(np.mean(np.mean([softmax(X @ W) for W in weights], axis=0).argmax(axis=1) != y))
