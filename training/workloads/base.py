"""What a workload is: a training job with a space of its own, which a history measures and a study tunes.

A new workload is a subclass of `Workload`, named in `warmstart.training.workloads.WORKLOADS` or by an entry point of the group
``warmstart.workloads``, and passes `warmstart.testing.WorkloadContract`. Nothing here imports torch.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.records import Config, Status, Value
from warmstart.training.workloads.dataset import Dataset

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

SPREAD = 32
"""Configurations of a space by which it is judged."""

Report = Callable[[int, float], None]
"""Called with (step, validation error so far); whatever it raises ends the run."""


class Budget(Protocol):
    """How long one training run is; a workload has some by name, and makes others of them by an amount.

    Attributes:
        name: goes into the origin of each evaluation.
        unit: what an amount counts: ``updates``, ``steps``, ``seconds``.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def unit(self) -> str: ...  # noqa: D102

    def to_dict(self) -> dict[str, Any]:
        """Return what decides the length, as JSON has it; shards keep it and refuse another."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What one training run gave.

    Attributes:
        error: validation error at the end, in [0, 1]; of a constant prediction when it diverged; NaN when timed out.
        status: ok, diverged or timeout.
        duration: seconds of work; CPU seconds on a CPU, so that a busy machine does not count, else wall seconds.
        curve: pairs (step, validation error) in rising steps, the last one at the end of a run that was ok.
        metrics: other numbers by name.
        model: what was trained, where it was asked for; see `Prepared.combine`.
        note: one line on what went wrong, empty where nothing did.
    """

    error: float
    status: Status
    duration: float
    curve: tuple[tuple[int, float], ...]
    metrics: Mapping[str, float] = field(default_factory=dict)
    model: object = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """One trained model of a classifier: the trial that it repeats, and the validation error that it reached."""

    trial: int
    config: Mapping[str, Value]
    seed: int
    error: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them; `Member(**fields)` reads them."""
        return {"trial": self.trial, "config": dict(self.config), "seed": self.seed, "error": self.error}


class Classifier(ABC):
    """Trained models whose probabilities are averaged, often one alone, kept in one file.

    Attributes:
        members: best first.
        classes: their names, in the order of the probabilities.
        size: pixels a side of the images.
        channels: 1 or 3.
        error: validation error of the average.
        validated: `v x classes`, what it says of the validation images of its dataset, in the order of their rows; None = not known.
        first_error: validation error of the first of several models alone; None = not known.
        dataset: fingerprint of the images that it was tuned on; None = not known.
    """

    members: tuple[Member, ...]
    classes: tuple[str, ...]
    size: int
    channels: int
    error: float
    validated: NDArray[np.float64] | None = None
    first_error: float | None = None
    dataset: str | None = None

    @property
    def models(self) -> Sequence[object]:
        """Return what `Prepared.combine` joined, best first; nothing where a workload does not tell."""
        return ()

    @abstractmethod
    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Compute the probabilities of the classes.

        Args:
            images: `n x size x size x channels` uint8, as `warmstart.history_store.readers.open_images(path).read(rows, size=size)` gives; ours
                take grey and coloured ones alike (`warmstart.training.workloads.classifier_images`).

        Returns: `n x classes`, rows that sum to 1.

        Raises:
            DataError: when the images are of another shape or type.
        """

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write one safetensors file, whole or not at all; its metadata are those of `warmstart.training.workloads.classifier_file`, with `dataset` in the header.

        Raises:
            StorageError: the place cannot be written, or is full.
        """


class Prepared(ABC):
    """A dataset made ready for a workload: read, and whatever all its configurations share, computed once."""

    @abstractmethod
    def train(
        self,
        config: Config,
        *,
        seed: int,
        budget: Budget,
        report: Report | None = None,
        timeout_s: float = math.inf,
        keep: bool = False,
    ) -> TrainingResult:
        """Train a configuration and measure its validation error.

        Args:
            config: hyperparameter values by name; an inactive one is absent.
            seed: of everything random; same seed, device and budget, same result, but for budgets of time.
            budget: of this workload.
            report: called with each point of the curve as it is measured.
            timeout_s: seconds of duration after which the run is given up.
            keep: put the trained model into the result.

        Raises:
            DataError: when the configuration is not one of the workload's.
            UsageError: when the budget is not one of the workload's.
        """

    @abstractmethod
    def constant_error(self) -> float:
        """Compute the validation error of always predicting the most frequent training class."""

    @abstractmethod
    def combine(self, members: Sequence[Member], models: Sequence[object], *, error: float | None = None) -> Classifier:
        """Join trained models, best first, to one classifier.

        Args:
            members: what each model is.
            models: of results that kept them, on this dataset.
            error: validation error of their average, where it need not be computed.

        A workload that has `steps_again` takes ``leading`` too: the place of a model that is trained for longer than the others in the
        end, and has as many votes as these together. It is given where there is one.
        """

    def refit(self, member: Member, model: object, *, budget: Budget, seconds: float = math.inf) -> object:  # noqa: ARG002  the interface
        """Return a model trained again on all images that nobody keeps for later; as it is where the workload does not do that.

        Args:
            member: what the model is.
            model: as it was trained.
            budget: of its trial.
            seconds: of wall time that it may take. A budget of time grows to it, and what does not fit is not done.
        """
        return model


class Workload(ABC):
    """A training job: its spaces, the lengths of its runs, and how a configuration is trained on a dataset.

    Cheap to make and picklable: worker processes are sent one. What is heavy is imported where it is used, so that
    naming a workload and checking a space load no torch.

    Attributes:
        name: in the registry, in studies and in saved files: a lower-case word.
        spaces: names of its spaces, the usual one first.
        budgets: names of its budgets, the usual one first.
        recipes: programs for which it writes a configuration; see `recipe`.
        is_own: whether a run is a person's own program: it needs no torch here, nothing is shared by the runs on a dataset,
            and it may be wrong, so that failures count only once a run has succeeded.
        network: what is trained, in words for people; empty = its name says it.
        chooses_image_size: its configurations say how large images are; else they are as large as the history's.
        optimiser: of its weights, likewise; empty = it is a hyperparameter, or there is none.
    """

    name: ClassVar[str]
    spaces: ClassVar[tuple[str, ...]]
    budgets: ClassVar[tuple[str, ...]]
    recipes: ClassVar[tuple[str, ...]] = ()
    is_own: ClassVar[bool] = False
    network: ClassVar[str] = ""
    chooses_image_size: ClassVar[bool] = False
    optimiser: ClassVar[str] = ""

    @abstractmethod
    def space(self, name: str | None = None) -> ConfigurationSpace:
        """Build a space by name; None = the usual one.

        Raises:
            UsageError: when there is none of that name.
        """

    @abstractmethod
    def budget(self, name: str | None = None, *, amount: float | None = None) -> Budget:
        """Return a budget by name, or so much of it.

        Args:
            name: one of `budgets`; None = the usual one.
            amount: in the budget's unit, > 0; None = all of it.

        Raises:
            UsageError: when there is none of that name.
        """

    def usual_configs(self) -> tuple[Config, ...]:
        """List configurations of the usual space to begin with where no history knows of the workload; best first."""
        return ()

    def seconds_again(self, config: Config, duration: float) -> float:  # noqa: ARG002  the interface
        """Estimate the seconds of training a configuration once more, of a trial that took so long; `Prepared.refit` takes as many again."""
        return duration

    def steps_again(self, config: Config, budget: Budget) -> int:  # noqa: ARG002  the interface
        """Tell for how many steps a network is trained once more before it is saved, where there is time; 0 = it is not."""
        return 0

    def error_again(self, config: Config, error: float, *, budget: Budget, steps: float, longer: float) -> float:  # noqa: ARG002  the interface
        """Estimate the error that a network comes to where it is trained once more before it is saved.

        Args:
            config: of the network.
            error: that it came to.
            budget: of its trial.
            steps: after so many.
            longer: how many times as long it may then take.
        """
        return error

    def recipe(
        self,
        config: Config,  # noqa: ARG002  the interface
        program: str,
        *,
        dataset: str,  # noqa: ARG002
        n_train: int,  # noqa: ARG002
        n_classes: int,  # noqa: ARG002
        skip_broken: bool = False,  # noqa: ARG002
    ) -> str:
        """Write a configuration for another program.

        Args:
            config: hyperparameter values by name.
            program: one of `recipes`.
            dataset: path of the images.
            n_train: training images.
            n_classes: number of classes.
            skip_broken: whether what is written leaves out images that cannot be decoded; given only where it shall.

        Raises:
            UsageError: when the workload writes nothing for this program.
        """
        known, step = ", ".join(self.recipes), "Use json."
        if not known:
            known, step = "none", "Use json, or the workload that does: `--workload transfer`."
        msg = f"workload {self.name!r}: expected a program that it writes for ({known}), got {program!r}. {step}"
        raise UsageError(msg, param="format")

    def largest_image(self, space: ConfigurationSpace) -> int | None:  # noqa: ARG002  the interface
        """Return the pixels a side of the largest images that configurations of a space ask for; None where they ask for none."""
        return None

    def space_for_larger(self, side: int, measured: int) -> tuple[str, int] | None:  # noqa: ARG002  the interface
        """Name a space with larger images, and the pixels a side of its largest; None where there is none to gain from.

        Args:
            side: of the pictures, in pixels.
            measured: pixels a side of the largest images that the history measured.
        """
        return None

    def canonical(self, config: Config) -> Config:
        """Return a configuration without what means nothing in it: two that train alike are equal then."""
        return config

    @abstractmethod
    def check(self, config: Config) -> None:
        """Check that a configuration can be trained, before anything is.

        Raises:
            DataError: when a hyperparameter is missing or out of range.
        """

    @abstractmethod
    def cost(self, config: Config, budget: Budget, *, n_train: int) -> float:
        """Estimate what a run costs: > 0, in any unit that is in proportion to its seconds on one machine.

        Args:
            config: hyperparameter values by name.
            budget: of this workload.
            n_train: training images.
        """

    def steps(self, budget: Budget, *, config: Config | None = None, n_train: int | None = None) -> int | None:  # noqa: ARG002  the interface
        """Tell the step of the curve at which a run ends, so that its progress can be shown.

        Args:
            budget: of this workload.
            config: hyperparameter values by name, where they are known.
            n_train: training images, where their number is known.

        Returns: the last step; None where it is not known: by what was given, or before the end of a run.
        """
        return None

    def check_installed(self) -> None:
        """Check that the packages are there that training needs beside warmstart's own.

        Raises:
            UsageError: when one is not; it names the command that installs it.
        """
        return

    @abstractmethod
    def prepare(self, dataset: Dataset, *, device: str | None = None) -> Prepared:
        """Read a dataset and compute what all configurations share.

        Args:
            dataset: labelled images in parts.
            device: of torch, e.g. ``cpu``, ``cuda:0``; None = the first GPU if there is one, else the CPU.

        Raises:
            LabelError: when the training part has fewer than two images or the validation part none.
            DataError: when images cannot be decoded.
            UsageError: when there is no such device.
        """

    @abstractmethod
    def load(self, path: Path) -> Classifier:
        """Read what `Classifier.save` wrote; `warmstart.training.workloads.load_classifier` finds the workload of a file.

        Raises:
            ModelError: when it is something else, damaged or of a newer version.
        """

    def length(self, budget: Budget) -> str:
        """Say a budget in words: its amount in its unit where it tells, else its name."""
        amount = budget.to_dict().get("amount")
        return f"{amount:g} {budget.unit}" if isinstance(amount, int | float) else budget.name

    def origin(self, budget: Budget) -> str:
        """Name who measured an evaluation: evaluations of two origins are never mixed in one collection."""
        return f"collect/{self.name}/{budget.name}"

    def usual_names(self) -> Sequence[str]:
        """List the hyperparameters of the usual space; where they are known without building it, that is faster."""
        return list(self.space())

    def check_space(self, space: ConfigurationSpace) -> None:
        """Check that a space has configurations that can be trained: that not all of some that are spread over it are refused.

        Raises:
            DataError: as `check` of the first of them.
        """
        first = None
        for config in deepcopy(space).sample_configuration(SPREAD):
            try:
                self.check(dict(config))
            except DataError as error:
                first = first or error
            else:
                return
        if first is not None:
            raise first

    def needed_names(self, names: Collection[str]) -> Sequence[str]:  # noqa: ARG002  for workloads that can do with fewer
        """List the hyperparameters that a space must have which has these."""
        return self.usual_names()

    def missing_names(self, names: Collection[str]) -> list[str]:
        """List the hyperparameters that a space with these lacks; no space is built for it."""
        return [name for name in self.needed_names(names) if name not in names]

    def check_names(self, names: Collection[str]) -> None:
        """Check that a space has the hyperparameters that the workload needs.

        Raises:
            UsageError: when one is missing.
        """
        missing = self.missing_names(names)
        if missing:
            usual = json.dumps(self.space()[missing[0]].default_value, default=str)
            msg = f"expected the hyperparameters of the workload {self.name!r}, got none named {', '.join(missing)}. Add them (`{missing[0]}: {{value: {usual}}}` keeps the usual value), or give `objective` or `command` with a space of your own."
            raise UsageError(msg, param="space")
