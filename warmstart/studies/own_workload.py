"""A person's own script or function as a workload, so that a collection measures it on datasets like any other."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from warmstart.history_store.errors import ModelError, UsageError
from warmstart.history_store.file.content import unit_rows
from warmstart.history_store.records import Config, Status
from warmstart.history_store.space import load_space
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.history.record import STATUS
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.base import Report as ReportTrial
from warmstart.studies.objectives.function import FunctionObjective
from warmstart.studies.objectives.load import load_objective
from warmstart.studies.objectives.measured import measured
from warmstart.studies.objectives.metric import PLAIN, Metric
from warmstart.training.workloads import Budget, Classifier, Dataset, Member, Prepared, Report, TrainingResult, Workload

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

ALL = "all"
"""The budget of a script that is given none."""
_DATASET = re.compile(r"\{(warmstart\.)?dataset\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnScript:
    """What a person measures.

    Attributes:
        objective: a function, ``module:name`` or ``folder/file.py:name``; None with a command. Kept as it is sent to the runs.
        command: with placeholders; see `CommandObjective`.
        metric: what it gives.
        budget: of each run, in its own unit; None = it is given none.
        log: file to which all that the runs print is appended.
    """

    objective: str | Callable[..., object] | FunctionObjective | None = None
    command: str | None = None
    metric: Metric = PLAIN
    budget: float | None = None
    log: Path | None = None

    def __post_init__(self) -> None:
        """Check what a history could not hold.

        Raises:
            UsageError: both an objective and a command; a metric without bounds, a budget that is none.
        """
        if (self.objective is None) == (self.command is None):
            msg = "expected either `objective` or `command`, got both or none of them. Give one of them."
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
        """Name it for people and in the origin of what it measured: its file, or its function."""
        if self.command is not None:
            words = [word for word in _words(self.command) if not word.startswith("-") and "{" not in word]
            is_python = len(words) > 1 and Path(words[0]).name.startswith("python")
            name = Path(words[is_python]).name if words else "command"
        else:
            assert isinstance(self.objective, FunctionObjective)  # noqa: S101  made so
            folder, _, name = self.objective.name.rpartition(":")
            name = f"{Path(folder).name}:{name}" if folder else name
        return re.sub(r"[^\w.:-]+", "-", name).strip("-") or "script"

    def on(self, dataset: str | None, space_json: str) -> Objective:
        """Make the objective of one dataset.

        Raises:
            UsageError: when it does not fit the space, or its program is not there.
        """
        if isinstance(self.objective, FunctionObjective):
            return measured(self.objective.on(dataset), self.metric)
        made = load_objective(names=list(load_space(space_json)), command=self.command, dataset=dataset)
        return measured(made, self.metric)

    def check(self, space_json: str, datasets: Sequence[str]) -> None:
        """Check it against a space and the datasets that it is to tell apart, before anything runs.

        Raises:
            UsageError: when it does not fit, or cannot be loaded.
        """
        made = self.on(datasets[0], space_json)
        if self.command is None:
            with TrialRunner(_Telling(made) if len(datasets) > 1 else made, log=self.log):
                pass  # it is imported, and its signature read, where it will run
        elif len(datasets) > 1 and not _DATASET.search(self.command):
            msg = f"expected {{warmstart.dataset}} in a command that is measured on {len(datasets)} datasets, got none. Add it where your script takes the path of its images."
            raise UsageError(msg, param="command")


@dataclass(slots=True)
class _Telling:
    """An objective that is to tell datasets apart."""

    objective: Objective

    def prepare(self) -> None:
        """Load it, and look whether it takes the dataset."""
        inner = getattr(self.objective, "objective", self.objective)
        assert isinstance(inner, FunctionObjective)  # noqa: S101  no command
        inner.prepare()
        if not inner.takes_dataset:
            msg = f"expected a function that takes the dataset, since it is measured on several, got {inner.name} without. Write def {inner.name.rpartition(':')[2]}(config, dataset)."
            raise UsageError(msg, param="objective")

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: ReportTrial) -> object:
        """Evaluate as it does."""
        return self.objective(config, seed=seed, budget=budget, report=report)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # told where the command is read
        return command.split()


@dataclass(frozen=True, slots=True)
class OwnBudget:
    """An amount in a script's own unit; see `warmstart.training.workloads.Budget`."""

    amount: float | None = None
    label: str = ""
    metric: str = ""

    name: ClassVar[str] = ALL
    unit: ClassVar[str] = "the script's own"

    @property
    def origin(self) -> str:
        """Name what was measured, and for how long."""
        amount = ALL if self.amount is None else f"{self.amount:g}"
        return "/".join(filter(None, (f"own:{self.label}", amount, self.metric)))

    def to_dict(self) -> dict[str, Any]:
        """Return what decides a run, as JSON has it."""
        return {"name": self.name, "script": self.label, "amount": self.amount, "metric": self.metric or None}


@dataclass(frozen=True)
class OwnWorkload(Workload):
    """A person's script over a space of theirs; each run is a process of its own.

    Attributes:
        script: what is run.
        space_json: of its hyperparameters.
        paths: of the datasets by their names in the history; what has none there is called by its location.
    """

    script: OwnScript
    space_json: str
    paths: Mapping[str, str] = field(default_factory=dict)

    name: ClassVar[str] = "own"
    spaces: ClassVar[tuple[str, ...]] = ("own",)
    budgets: ClassVar[tuple[str, ...]] = (ALL,)
    is_own: ClassVar[bool] = True

    def space(self, name: str | None = None) -> ConfigurationSpace:
        """Return the space that was given."""
        if name not in (None, *self.spaces):
            msg = f"expected the space {self.spaces[0]!r}, got {name!r}. Leave it out."
            raise UsageError(msg, param="space")
        return load_space(self.space_json)

    def budget(self, name: str | None = None, *, amount: float | None = None) -> OwnBudget:
        """Return the amount that the script is given; the one it was told when left out."""
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
        """Take all configurations as equally long."""
        return _own(budget).amount or 1.0

    def prepare(self, dataset: Dataset, *, device: str | None = None) -> PreparedScript:  # noqa: ARG002  the script chooses
        """Find the dataset's path; the script reads it."""
        path = self.paths.get(dataset.location, dataset.location)
        return PreparedScript(self, self.script.on(path, self.space_json), dataset)

    def load(self, path: Path) -> Classifier:
        """Refuse: a script keeps its own networks."""
        msg = f"{path}: expected a network of a workload that keeps some, got one of a script, which keeps its own. Load it as your script does."
        raise ModelError(msg)

    def origin(self, budget: Budget) -> str:
        """Name the script, its budget and its metric: what they gave is never mixed with another's."""
        return f"collect/{_own(budget).origin}"


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
        """Run once, in a process of its own; whatever becomes of it is a result."""
        amount = _own(budget).amount
        self.workload.check(config)
        if keep:
            msg = "expected no `keep` for a script, which keeps its own networks, got it. Leave it out."
            raise UsageError(msg)
        if not timeout_s > 0:
            return TrainingResult(math.nan, Status.TIMEOUT, 0.0, ())
        curve: list[tuple[int, float]] = []

        def told(step: float, error: float) -> bool:
            whole = int(step)
            if whole == step and whole > (curve[-1][0] if curve else -1) and 0 <= error <= 1:
                curve.append((whole, error))
                if report is not None:
                    report(whole, error)
            return False

        with TrialRunner(self.objective, log=self.workload.script.log) as runner:
            title = f"{self.dataset.location}, seed {seed}, {dict(config)}"
            found = runner.run(config, seed=seed, budget=amount, report=told, timeout=timeout_s, title=title)
        status, note = STATUS.get(found.status, Status.CRASHED), found.note
        error = math.nan if found.error is None else found.error
        if status.has_error and not 0 <= error <= 1:
            note = f"expected an error in [0, 1], got {error:g}: print a share of mistakes, or say with `metric`, `maximize` and `scale` what the number is"
            status, error = Status.CRASHED, math.nan
        return TrainingResult(error, status, found.duration, tuple(curve), dict(found.metrics), note=note)

    def constant_error(self) -> float:
        """Count what always naming the most frequent training class gets wrong of the validation part."""
        labels = self.dataset.labels
        most = np.bincount(labels[self.dataset.rows("train")]).argmax()
        return float(np.mean(labels[self.dataset.rows("val")] != most))

    def combine(self, members: Sequence[Member], models: Sequence[object], **_: float | None) -> Classifier:  # noqa: ARG002  there are none
        """Refuse: a script keeps its own networks."""
        msg = "expected a workload whose networks are kept, got a script, which keeps its own. Load them as your script does."
        raise UsageError(msg)


def _own(budget: Budget) -> OwnBudget:
    if not isinstance(budget, OwnBudget):
        msg = f"expected a budget of the workload 'own', got {budget!r}. Make one with `OwnWorkload.budget`."
        raise UsageError(msg, param="target_budget")
    return budget


def parse_amount(text: str | None) -> float | None:
    """Read the budget of a script's runs.

    Raises:
        UsageError: when it is no number.
    """
    try:
        return None if text is None else float(text)
    except ValueError as problem:
        msg = f"expected a number in your script's own unit, got {text!r}. Leave it out if your script takes none."
        raise UsageError(msg, param="target_budget") from problem
