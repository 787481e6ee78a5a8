"""Interface of a workload: a training job with a search space, which a history measures and a study tunes.

A new workload is a subclass of `Workload`, named in `warmstart.training.workloads.WORKLOADS` or by an entry point of
the group ``warmstart.workloads``, and passes `warmstart.testing.WorkloadContract`. Nothing here imports torch.
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
from warmstart.history_store.space import shown
from warmstart.history_store.wording import in_short
from warmstart.training.workloads.dataset import Dataset

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.metafeat.pretrained.logistic import CurvePoint
    from warmstart.training.workloads.familiar import Familiar
    from warmstart.training.workloads.run_plan import PictureFacts, RunPlan

SPREAD = 32
"""Random configurations of a space in `Workload.check_space`."""

Report = Callable[[int, float], None]
"""Function of (step, validation error so far); its exceptions end the run."""


class Budget(Protocol):
    """Length of one training run; a workload has some by name, and builds others from an amount.

    Attributes:
        name: part of the origin of each evaluation.
        unit: of an amount: ``updates``, ``steps``, ``seconds``.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def unit(self) -> str: ...  # noqa: D102

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that determine the length, in JSON types; shards store them and refuse others."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of one training run.

    Attributes:
        error: validation error at the end, in [0, 1]; of a constant prediction when it diverged; NaN when timed out.
        status: ok, diverged or timeout.
        duration: CPU seconds on a CPU, independent of other load, else wall seconds.
        curve: pairs (step, validation error) in rising steps; of an ok run, the last is at its end.
        metrics: further numbers by name.
        model: trained model, with `keep`; see `Prepared.combine`.
        note: reason of a failure in one line, else empty.
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
    """One trained model of a classifier: its trial, configuration, seed and validation error."""

    trial: int
    config: Mapping[str, Value]
    seed: int
    error: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types; `Member(**fields)` reads them."""
        return {"trial": self.trial, "config": dict(self.config), "seed": self.seed, "error": self.error}


@dataclass(frozen=True, slots=True)
class Examination:
    """What a report tells of a classifier beyond its error.

    Attributes:
        rows: `n` rows of the dataset.
        answers: `n x classes` probabilities of these images by models that have not seen them, the classifier's own
            where possible; NaN = all models have seen the image.
        growth: errors of a simple classifier with fewer images; empty = unknown.
        counts: images by class of the dataset.
        familiar: for the comparison of other images with these; None = unknown.
    """

    rows: NDArray[np.int64]
    answers: NDArray[np.float64]
    growth: Sequence[CurvePoint]
    counts: Mapping[str, int]
    familiar: Familiar | None = None


class Classifier(ABC):
    """Trained models with averaged probabilities, often a single one, saved in one file.

    Attributes:
        members: best first.
        classes: names in the order of the probabilities.
        size: pixels of a side of the images.
        channels: 1 or 3.
        error: of the average, on images that no model has seen.
        interval: of the error, 80 %; None = unknown.
        validated: `v x classes` probabilities of these images by models that have not seen them; None = unknown.
        validated_rows: `v` rows of the dataset; None = its validation part.
        first_error: error of the first model alone; None = unknown.
        dataset: fingerprint of the images of the tuning; None = unknown.
        examination: of a new classifier; None = unknown.
        familiar: for the comparison of other images with those it learned; None = unknown.
    """

    members: tuple[Member, ...]
    classes: tuple[str, ...]
    size: int
    channels: int
    error: float
    interval: tuple[float, float] | None = None
    validated: NDArray[np.float64] | None = None
    validated_rows: NDArray[np.int64] | None = None
    first_error: float | None = None
    dataset: str | None = None
    examination: Examination | None = None
    familiar: Familiar | None = None

    @property
    def models(self) -> Sequence[object]:
        """Return the models of `Prepared.combine`, best first; empty if a workload hides them."""
        return ()

    @abstractmethod
    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Compute the probabilities of the classes.

        Args:
            images: `n x size x size x channels` uint8, as read by
                `warmstart.history_store.readers.open_images(path).read(rows, size=size)`. The classifiers of warmstart
                convert between grey and colour (`warmstart.training.workloads.classifier_images`).

        Returns: `n x classes`, rows that sum to 1.

        Raises:
            DataError: when the images are of another shape or type.
        """

    def answer(self, images: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """Compute the probabilities of `predict`, and whether each image is unlike those learned; None = unknown."""
        return self.predict(images), None

    def write_onnx(self, path: Path) -> None:
        """Write an ONNX file, and the preparation of its pictures beside it as JSON.

        Raises:
            UsageError: the kind of classifier has no such form, or the extra `onnx` is not installed.
        """
        msg = f"expected a classifier of pretrained networks, got one of {type(self).__name__}. Train one with `warmstart classify`; {path.name} was not written."
        raise UsageError(msg)

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write one safetensors file, atomically.

        Its metadata are those of `warmstart.training.workloads.classifier_file`, with `dataset` in the header.

        Raises:
            StorageError: when the file cannot be written, or the disk is full.
        """


class Prepared(ABC):
    """Dataset prepared for a workload: images, and results that all configurations share."""

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
            seed: of everything random; with device and budget it determines the result, except for budgets of time.
            budget: of this workload.
            report: called with each new point of the curve.
            timeout_s: largest duration of the run, in seconds.
            keep: return the trained model in the result.

        Raises:
            DataError: when the configuration does not fit the workload.
            UsageError: when the budget belongs to another workload.
        """

    @abstractmethod
    def constant_error(self) -> float:
        """Compute the validation error of always predicting the most frequent training class."""

    @abstractmethod
    def combine(self, members: Sequence[Member], models: Sequence[object], *, error: float | None = None) -> Classifier:
        """Join trained models, best first, to one classifier.

        Args:
            members: of the models.
            models: of results with `keep`, on this dataset.
            error: validation error of their average; None = computed.
        """

    def select(self, models: Sequence[object], most: int) -> list[int]:
        """Choose the models to join to one classifier; by default the first ones.

        Args:
            models: of results with `keep`, on this dataset, the least errors first.
            most: models to choose.

        Returns: their indices, best first.
        """
        return list(range(min(most, len(models))))

    def examine(
        self,
        models: Sequence[object],  # noqa: ARG002  the interface
        members: Sequence[Member],  # noqa: ARG002
        n: int,  # noqa: ARG002
        *,
        seconds: float,  # noqa: ARG002
    ) -> Examination | None:
        """Return what a report tells of a classifier beyond its error; None = nothing more is known.

        Args:
            models: the classifier's models, best first, and then others of the same images.
            members: of these models.
            n: models of the classifier.
            seconds: that it may take.
        """
        return None


class Workload(ABC):
    """Training job: its spaces, its budgets, and the training of a configuration on a dataset.

    Workloads are cheap to build and picklable, as worker processes receive one. Heavy packages are imported on use, so
    that listing workloads and checking a space load no torch.

    Attributes:
        name: in the registry, in studies and in saved files: a lower-case word.
        spaces: names of its spaces, the default first.
        budgets: names of its budgets, the default first.
        recipes: programs for which it writes a configuration; see `recipe`.
        is_own: whether a run is a user's program: it needs no torch here, runs on a dataset share nothing, and failures
            count only after a first success, since it may be wrong.
        network: description of the model for display; empty = the name suffices.
        chooses_image_size: whether configurations set the image size; else it is that of the history.
        plan_space: name of the space that has all configurations of its plans; None = the first, or no plans.
        optimiser: of the weights, for display; empty = a hyperparameter, or none.
    """

    name: ClassVar[str]
    spaces: ClassVar[tuple[str, ...]]
    budgets: ClassVar[tuple[str, ...]]
    recipes: ClassVar[tuple[str, ...]] = ()
    is_own: ClassVar[bool] = False
    network: ClassVar[str] = ""
    chooses_image_size: ClassVar[bool] = False
    plan_space: ClassVar[str | None] = None
    optimiser: ClassVar[str] = ""

    @abstractmethod
    def space(self, name: str | None = None) -> ConfigurationSpace:
        """Build a space by name; None = the default.

        Raises:
            UsageError: when the name is unknown.
        """

    @abstractmethod
    def budget(self, name: str | None = None, *, amount: float | None = None) -> Budget:
        """Return a budget by name, with its full amount or another.

        Args:
            name: one of `budgets`; None = the default.
            amount: in the budget's unit, > 0; None = all of it.

        Raises:
            UsageError: when the name is unknown.
        """

    def usual_configs(self) -> tuple[Config, ...]:
        """Return first configurations of the default space for searches without a history, best first."""
        return ()

    def seconds_again(self, config: Config, duration: float) -> float:  # noqa: ARG002  the interface
        """Estimate the seconds of a second training from the duration of the trial."""
        return duration

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
            skip_broken: whether the program shall skip images that cannot be decoded; passed only if true.

        Raises:
            UsageError: when the workload does not write for the program.
        """
        programs, step = ", ".join(self.recipes), "Use json."
        if not programs:
            programs, step = "none", "Use json, or the workload that does: `--workload transfer`."
        msg = f"workload {self.name!r}: expected a program that it writes for ({programs}), got {program!r}. {step}"
        raise UsageError(msg, param="format")

    def run_plan(self, pictures: PictureFacts, *, seconds: float, core_share: float = 1.0) -> RunPlan | None:  # noqa: ARG002  the interface
        """Plan the runs of a limited time; None = the history's configurations and the search fill it.

        A workload with a plan takes a keyword ``until`` in `Prepared.train`: the `time.monotonic` at which a run whose
        length is a time ends.

        Args:
            pictures: of the dataset.
            seconds: for all runs.
            core_share: share of a core that a process has on the busy machine, in (0, 1].
        """
        return None

    def largest_image(self, space: ConfigurationSpace) -> int | None:  # noqa: ARG002  the interface
        """Return the largest image size of a space, pixels of a side; None if configurations set none."""
        return None

    def space_for_larger(self, side: int, measured: int) -> tuple[str, int] | None:  # noqa: ARG002  the interface
        """Return the name and the largest image size of a space with larger images; None if it would not help.

        Args:
            side: of the pictures, in pixels.
            measured: largest image size in the history, pixels of a side.
        """
        return None

    def canonical(self, config: Config) -> Config:
        """Return a configuration without meaningless values, so that equal trainings have equal configurations."""
        return config

    @abstractmethod
    def check(self, config: Config) -> None:
        """Check that a configuration can be trained.

        Raises:
            DataError: when a hyperparameter is missing or out of range.
        """

    @abstractmethod
    def cost(self, config: Config, budget: Budget, *, n_train: int) -> float:
        """Estimate the cost of a run, > 0, in a unit in proportion to its seconds on one machine.

        Args:
            config: hyperparameter values by name.
            budget: of this workload.
            n_train: training images.
        """

    def steps(self, budget: Budget, *, config: Config | None = None, n_train: int | None = None) -> int | None:  # noqa: ARG002  the interface
        """Return the last step of a run's curve, for its progress.

        Args:
            budget: of this workload.
            config: hyperparameter values by name; None = unknown.
            n_train: training images; None = unknown.

        Returns: the last step, or None if it is unknown before the end or with these arguments.
        """
        return None

    def check_installed(self) -> None:
        """Check that optional packages for training are installed.

        Raises:
            UsageError: when one is missing; the message has the command that installs it.
        """
        return

    @abstractmethod
    def prepare(self, dataset: Dataset, *, device: str | None = None) -> Prepared:
        """Read a dataset and compute the results that all configurations share.

        Args:
            dataset: labelled images in parts.
            device: of torch, e.g. ``cpu``, ``cuda:0``; None = the first GPU if there is one, else the CPU.

        Raises:
            LabelError: when the training part has fewer than two images or the validation part none.
            DataError: when images cannot be decoded.
            UsageError: when the device is missing.
        """

    @abstractmethod
    def load(self, path: Path) -> Classifier:
        """Read a file of `Classifier.save`; see `warmstart.training.workloads.load_classifier`.

        Raises:
            ModelError: when the file is of another kind, damaged or of a newer version.
        """

    def length(self, budget: Budget) -> str:
        """Describe a budget: amount and unit, or its name."""
        amount = budget.to_dict().get("amount")
        return f"{amount:g} {budget.unit}" if isinstance(amount, int | float) else budget.name

    def origin(self, budget: Budget) -> str:
        """Return the origin of evaluations of this workload and budget; a collection never mixes two origins."""
        return f"collect/{self.name}/{budget.name}"

    def in_words(self, config: Config) -> Mapping[str, str | None]:
        """Describe a configuration as somebody who trains networks says it: values in natural units by heading.

        None stands for what a configuration does not have.
        """
        return {name: in_short(value) for name, value in shown(config).items()}

    def usual_names(self) -> Sequence[str]:
        """Return the hyperparameters of the default space; faster if a workload knows them without building it."""
        return list(self.space())

    def check_space(self, space: ConfigurationSpace) -> None:
        """Check that some of a few random configurations of a space can be trained.

        Raises:
            DataError: when none can: as `check` of the first.
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

    def needed_names(self, names: Collection[str]) -> Sequence[str]:  # noqa: ARG002  for workloads with optional hyperparameters
        """Return the hyperparameters that a space needs, by those that it has."""
        return self.usual_names()

    def missing_names(self, names: Collection[str]) -> list[str]:
        """Return the hyperparameters that a space lacks, without building a space."""
        return [name for name in self.needed_names(names) if name not in names]

    def check_names(self, names: Collection[str]) -> None:
        """Check that a space has the hyperparameters of the workload.

        Raises:
            UsageError: when one is missing.
        """
        missing = self.missing_names(names)
        if missing:
            usual = json.dumps(self.space()[missing[0]].default_value, default=str)
            msg = f"expected the hyperparameters of the workload {self.name!r}, got none named {', '.join(missing)}. Add them (`{missing[0]}: {{value: {usual}}}` keeps the usual value), or give `objective` or `command` with a space of your own."
            raise UsageError(msg, param="space")
