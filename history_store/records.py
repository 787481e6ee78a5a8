"""Records of a history: datasets and evaluations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from warmstart.history_store.errors import DataError

Value = int | float | str | bool
Config = Mapping[str, Value]
LEFT_OUT = "left_out"
"""Key of `DatasetInfo.extra`: pictures of the source that could not be decoded when it was added."""


def same_config(first: Config, second: Config) -> bool:
    """Tell whether two configurations are equal, up to Optuna's rounding of floats."""
    return first.keys() == second.keys() and all(_same_value(first[name], second[name]) for name in first)


def _same_value(first: Value, second: Value) -> bool:
    if isinstance(first, float) or isinstance(second, float):
        are_numbers = isinstance(first, int | float) and isinstance(second, int | float)
        return are_numbers and math.isclose(float(first), float(second), rel_tol=1e-9, abs_tol=1e-12)
    return first == second


class Status(StrEnum):
    """Outcome of an evaluation."""

    OK = "ok"
    DIVERGED = "diverged"
    """The loss left the finite numbers: its error is that of a constant prediction."""
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OOM = "oom"

    @property
    def has_error(self) -> bool:
        """Return whether an evaluation with this status carries a validation error."""
        return self in (Status.OK, Status.DIVERGED)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One training run of one configuration on one dataset.

    Attributes:
        dataset: name of the dataset in the history.
        config: hyperparameter values by name; an inactive hyperparameter is absent.
        error: validation error in [0, 1]; NaN exactly if the status has none.
        status: how the run ended.
        duration: seconds; NaN = unknown.
        seed: of the run, in 0 .. 2^63 - 1; None = unknown.
        curve: pairs (update, validation error), updates increasing from 0 on, errors in [0, 1].
        origin: source of the measurement, e.g. ``collect/compact-400``.
    """

    dataset: str
    config: Config
    error: float
    status: Status = Status.OK
    duration: float = math.nan
    seed: int | None = None
    curve: tuple[tuple[int, float], ...] = ()
    origin: str = "unknown"

    def __post_init__(self) -> None:
        location = f"evaluation of {self.dataset!r}"
        for name, value in (("error", self.error), ("duration", self.duration)):
            if not hasattr(value, "__float__"):
                msg = f"{location}: expected a number as {name}, got {value!r}. Use NaN where it is unknown."
                raise DataError(msg)
        if self.status.has_error:
            if not 0.0 <= self.error <= 1.0:
                msg = f"{location}: expected an error in [0, 1], got error={self.error}. Record a run without one under its status: crashed, timeout or oom."
                raise DataError(msg)
        elif not math.isnan(self.error):
            msg = f"{location}: expected error NaN for status {self.status.value!r}, got error={self.error}. Leave the error out."
            raise DataError(msg)
        if math.isinf(self.duration) or self.duration < 0:
            msg = f"{location}: expected a duration of 0 or more seconds, got duration={self.duration}. Use NaN where it is unknown."
            raise DataError(msg)
        if self.seed is not None and not 0 <= self.seed < 2**63:
            msg = f"{location}: expected a seed in 0 .. 2^63 - 1, got seed={self.seed}. Use None where it is unknown."
            raise DataError(msg)
        if not self.origin.isascii() and self.origin != self.origin.encode("utf-8", "replace").decode():
            msg = f"{location}: expected an origin in Unicode, got {self.origin!a}. Write it in UTF-8."
            raise DataError(msg)
        last = -1
        for step, error in self.curve:
            if not last < step < 2**63 or not 0.0 <= error <= 1.0:
                msg = f"{location}: expected a curve of increasing updates from 0 on with errors in [0, 1], got ({step}, {error}) after update {last}. Sort the points, and leave out those without an error."
                raise DataError(msg)
            last = step


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """Description of a dataset in a history, without its images.

    Attributes:
        name: unique in the history.
        group: sibling group; datasets of one group share images, drawers or a source.
        n_train: images in the training part; `n_val` and `n_test` likewise.
        n_classes: number of classes.
        class_counts: images a class in the training part.
        channels: 1 (grey) or 3.
        fingerprint: ``content:...`` of the source.
        source: of the images.
        licence: as the source states it.
        what: content of the images, in one line.
        fraction: share of the parent's training part, in (0, 1].
        parent: name of the dataset of which this is a part, or None.
        split_seed: seed of the train/val/test split; None = the source has its own.
        decoding: of the stored images, e.g. ``centre square, antialiased, 32``.
        manifest: name of the manifest that tells how to obtain the images, or None.
    """

    name: str
    group: str
    n_train: int
    n_val: int
    n_test: int
    n_classes: int
    channels: int = 3
    class_counts: tuple[int, ...] = ()
    fingerprint: str = ""
    source: str = ""
    licence: str = "not stated"
    what: str = ""
    fraction: float = 1.0
    parent: str | None = None
    split_seed: int | None = None
    decoding: str = ""
    manifest: str | None = None
    extra: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def n_images(self) -> int:
        """Return the number of images of all three parts."""
        return self.n_train + self.n_val + self.n_test

    @property
    def n_of_source(self) -> int | None:
        """Return the number of images in the source of a whole dataset; None for a part."""
        if self.parent is not None or self.fraction != 1.0:
            return None
        left_out = self.extra.get(LEFT_OUT, "0")
        return self.n_images + (int(left_out) if left_out.isdecimal() else 0)
