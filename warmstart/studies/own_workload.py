"""A user's script or function as a workload, so that a collection can measure it on datasets."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from ConfigSpace import ConfigurationSpace

from warmstart.history_store.errors import ModelError, UsageError
from warmstart.history_store.file.content import unit_rows
from warmstart.history_store.records import Config, Status
from warmstart.history_store.space import load_space
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.history.record import STATUS
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.base import Report as ReportTrial
from warmstart.studies.objectives.command import ENVIRONMENT, placeholders
from warmstart.studies.objectives.function import FunctionObjective
from warmstart.studies.objectives.load import load_objective
from warmstart.studies.objectives.measured import with_metric
from warmstart.studies.objectives.metric import PLAIN, Metric
from warmstart.training.workloads import Budget, Classifier, Dataset, Member, Prepared, Report, TrainingResult, Workload

ALL = "all"
"""The budget of a script that has no budget."""
_DATASET = re.compile(r"\{(warmstart\.)?dataset\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnScript:
    """A user's function or command to measure.

    Attributes:
        objective: a function, ``module:name`` or ``folder/file.py:name``; None with a command. Stored as it is sent to
            the runs.
        command: with placeholders; see `CommandObjective`.
        metric: that it returns or prints.
        budget: of each run, in its own unit; None = no budget.
        log: file to which the output of the runs is appended.
    """

    objective: str | Callable[..., object] | FunctionObjective | None = None
    command: str | None = None
    metric: Metric = PLAIN
    budget: float | None = None
    log: Path | None = None

    def __post_init__(self) -> None:
        """Check that a history can store the results.

        Raises:
            UsageError: both an objective and a command, or neither; a metric without bounds; a budget of 0 or less.
        """
        if self.objective is not None and self.command is not None:
            msg = "cannot be used with `objective`."
            raise UsageError(msg, param="command")
        if self.objective is None and self.command is None:
            msg = "expected a command, or `objective`, got neither. Give one of them."
            raise UsageError(msg, param="command")
        if self.objective is not None and not isinstance(self.objective, FunctionObjective):
            object.__setattr__(self, "objective", FunctionObjective(self.objective))
        if self.metric.scale == "any":
            msg = "expected fraction or percent, got 'any': a history holds errors in [0, 1], so that datasets can be compared. Print a share, or use `warmstart history import`, which can rescale."
            raise UsageError(msg, param="scale")
        if self.budget is not None and not 0 < self.budget < math.inf:
            msg = f"expected a number above 0 in your script's own unit, got {self.budget}. Leave it out if your script takes none."
            raise UsageError(msg, param="target_budget")

    @property
    def label(self) -> str:
        """Return the name of the file or function, for people and for the origin of evaluations."""
        if self.command is not None:
            words = [word for word in _words(self.command) if not word.startswith("-") and "{" not in word]
            is_python = len(words) > 1 and Path(words[0]).name.startswith("python")
            name = Path(words[is_python]).name if words else "command"
        else:
            assert isinstance(self.objective, FunctionObjective)  # noqa: S101  made so
            folder, _, name = self.objective.name.rpartition(":")
            name = f"{Path(folder).name}:{name}" if folder else name
        return re.sub(r"[^\w.:-]+", "-", name).strip("-") or "script"

    def objective_for(self, dataset: str | None, space_json: str) -> Objective:
        """Return the objective on one dataset.

        Raises:
            UsageError: it does not fit the space, or its program does not exist.
        """
        if isinstance(self.objective, FunctionObjective):
            return with_metric(self.objective.for_dataset(dataset), self.metric)
        objective = load_objective(names=list(load_space(space_json)), command=self.command, dataset=dataset)
        return with_metric(objective, self.metric)

    def check(self, space_json: str, datasets: Sequence[str]) -> None:
        """Check the script against a space and the number of datasets, before anything runs.

        Raises:
            UsageError: it does not fit, or cannot be loaded.
        """
        if self.command is not None and (names := sorted(set(placeholders(self.command)) & ENVIRONMENT.keys())):
            msg = (
                f"{{{names[0]}}} is of a trial of `warmstart tune`. Write a path with {{warmstart.seed}} in it instead."
            )
            raise UsageError(msg, param="command")
        objective = self.objective_for(datasets[0], space_json)
        if self.command is None:
            with TrialRunner(_DatasetObjective(objective) if len(datasets) > 1 else objective, log=self.log):
                pass  # it is imported, and its signature read, where it will run
        elif len(datasets) > 1 and not _DATASET.search(self.command):
            msg = f"expected {{warmstart.dataset}} in a command that is measured on {len(datasets)} datasets, got none. Add it where your script takes the path of its images."
            raise UsageError(msg, param="command")


@dataclass(slots=True)
class _DatasetObjective:
    """An objective that must take the dataset as an argument."""

    objective: Objective

    def prepare(self) -> None:
        """Load the function, and check that it takes the dataset."""
        inner = getattr(self.objective, "objective", self.objective)
        assert isinstance(inner, FunctionObjective)  # noqa: S101  no command
        inner.prepare()
        if not inner.takes_dataset:
            msg = f"expected a function that takes the dataset, since it is measured on several, got {inner.name} without. Write def {inner.name.rpartition(':')[2]}(config, dataset)."
            raise UsageError(msg, param="objective")

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: ReportTrial) -> object:
        """Evaluate a configuration by the objective."""
        return self.objective(config, seed=seed, budget=budget, report=report)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # told where the command is read
        return command.split()


@dataclass(frozen=True, slots=True)
class OwnBudget:
    """An amount in a script's unit; see `warmstart.training.workloads.Budget`."""

    amount: float | None = None
    label: str = ""
    metric: str = ""

    name: ClassVar[str] = ALL
    unit: ClassVar[str] = "the script's own"

    @property
    def origin(self) -> str:
        """Return the script, amount and metric as text, for the origin of evaluations."""
        amount = ALL if self.amount is None else f"{self.amount:g}"
        return "/".join(filter(None, (f"own:{self.label}", amount, self.metric)))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that identify a run, for JSON."""
        return {"name": self.name, "script": self.label, "amount": self.amount, "metric": self.metric or None}


@dataclass(frozen=True)
class OwnWorkload(Workload):
    """A user's script over a user's space; each run is a separate process.

    Attributes:
        script: to run.
        space_json: of its hyperparameters.
        paths: of the datasets, by their names in the history; others are passed by their location.
    """

    script: OwnScript
    space_json: str
    paths: Mapping[str, str] = field(default_factory=dict)

    name: ClassVar[str] = "own"
    spaces: ClassVar[tuple[str, ...]] = ("own",)
    budgets: ClassVar[tuple[str, ...]] = (ALL,)
    is_own: ClassVar[bool] = True

    def space(self, name: str | None = None) -> ConfigurationSpace:
        """Return the space of the script."""
        if name not in (None, *self.spaces):
            msg = f"expected the space {self.spaces[0]!r}, got {name!r}. Leave it out."
            raise UsageError(msg, param="space")
        return load_space(self.space_json)

    def budget(self, name: str | None = None, *, amount: float | None = None) -> OwnBudget:
        """Return the budget of a run; the script's when left out."""
        if name not in (None, *self.budgets):
            msg = f"expected the budget {self.budgets[0]!r}, got {name!r}. Give an amount instead."
            raise UsageError(msg, param="target_budget")
        metric = self.script.metric
        return OwnBudget(
            self.script.budget if amount is None else amount,
            self.script.label,
            "" if metric.is_plain else metric.name,
        )

    def check(self, config: Config) -> None:
        """Check a configuration against the space."""
        unit_rows(self.space_json, [config], f"configuration of {self.script.label}")

    def cost(self, config: Config, budget: Budget, *, n_train: int) -> float:  # noqa: ARG002  nothing is known of it
        """Return the same cost for every configuration."""
        return _script_budget(budget).amount or 1.0

    def prepare(self, dataset: Dataset, *, device: str | None = None) -> PreparedScript:  # noqa: ARG002  the script chooses
        """Return the script with the dataset's path, which it reads itself."""
        path = self.paths.get(dataset.location, dataset.location)
        return PreparedScript(self, self.script.objective_for(path, self.space_json), dataset)

    def load(self, path: Path) -> Classifier:
        """Raise `ModelError`: a script keeps its own networks."""
        msg = f"{path}: expected a network of a workload that keeps some, got one of a script, which keeps its own. Load it as your script does."
        raise ModelError(msg)

    def origin(self, budget: Budget) -> str:
        """Return the script, its budget and its metric as text: evaluations of others are never mixed with these."""
        return f"collect/{_script_budget(budget).origin}"


class PreparedScript(Prepared):
    """A script and the path of a dataset."""

    def __init__(self, workload: OwnWorkload, objective: Objective, dataset: Dataset) -> None:
        self.workload, self.objective, self.dataset = workload, objective, dataset

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
        """Run the script once in a separate process; a failure is a result, too."""
        amount = _script_budget(budget).amount
        self.workload.check(config)
        if keep:
            msg = "`keep` cannot be used with a script, which keeps its own networks."
            raise UsageError(msg)
        if not timeout_s > 0:
            return TrainingResult(math.nan, Status.TIMEOUT, 0.0, ())
        curve: list[tuple[int, float]] = []

        def record_step(step: float, error: float) -> bool:
            # A history stores curves at rising integer steps with errors in [0, 1].
            whole_step = int(step)
            if whole_step == step and whole_step > (curve[-1][0] if curve else -1) and 0 <= error <= 1:
                curve.append((whole_step, error))
                if report is not None:
                    report(whole_step, error)
            return False

        with TrialRunner(self.objective, log=self.workload.script.log) as runner:
            title = f"{self.dataset.location}, seed {seed}, {dict(config)}"
            outcome = runner.run(config, seed=seed, budget=amount, report=record_step, timeout=timeout_s, title=title)
        status, note = STATUS.get(outcome.status, Status.CRASHED), outcome.note
        error = math.nan if outcome.error is None else outcome.error
        if status.has_error and not 0 <= error <= 1:
            note = f"expected an error in [0, 1], got {error:g}: print a share of mistakes, or say with `metric`, `maximize` and `scale` what the number is"
            status, error = Status.CRASHED, math.nan
        return TrainingResult(error, status, outcome.duration, tuple(curve), dict(outcome.metrics), note=note)

    def constant_error(self) -> float:
        """Return the validation error of always predicting the most frequent training class."""
        labels = self.dataset.labels
        majority = np.bincount(labels[self.dataset.rows("train")]).argmax()
        return float(np.mean(labels[self.dataset.rows("val")] != majority))

    def combine(self, members: Sequence[Member], models: Sequence[object], **_: float | None) -> Classifier:  # noqa: ARG002  there are none
        """Raise `UsageError`: a script keeps its own networks."""
        msg = "expected a workload whose networks are kept, got a script, which keeps its own. Load them as your script does."
        raise UsageError(msg)


def _script_budget(budget: Budget) -> OwnBudget:
    if not isinstance(budget, OwnBudget):
        msg = f"expected a budget of the workload 'own', got {budget!r}. Make one with `OwnWorkload.budget`."
        raise UsageError(msg, param="target_budget")
    return budget


def parse_amount(text: str | None) -> float | None:
    """Parse the budget of a script's runs.

    Raises:
        UsageError: it is no number.
    """
    try:
        return None if text is None else float(text)
    except ValueError as problem:
        msg = f"expected a number in your script's own unit, got {text!r}. Leave it out if your script takes none."
        raise UsageError(msg, param="target_budget") from problem
