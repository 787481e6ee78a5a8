"""What a study was begun with: kept in the study itself, so that every worker and every later call has the same."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, get_args

from warmstart.history_store.errors import StorageError, UsageError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.records import Config, Value
from warmstart.history_store.space import same_space, space_difference
from warmstart.history_store.wording import in_words
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.options import Pruner, Search, Warm, WarmStart, identity, identity_of
from warmstart.studies.related_dataset import RelatedDataset, optional_tuple
from warmstart.studies.state.split import Split
from warmstart.training.workloads import DEFAULT, get_workload

if TYPE_CHECKING:
    from optuna.pruners import BasePruner

    from warmstart.bo.related import RelatedTask
    from warmstart.bo.transfer.expected_error import DatasetExpectation
    from warmstart.integrations.optuna.sampler import WarmStartSampler

SCHEMA = 1
PLAN = "warmstart:plan"
"""The study's system attribute under which its plan lies, and its user attribute with what people ask of it first.

Version 0.1 kept the whole plan in the user attribute. It refuses the short one as that of a newer version, so that its workers
stay away from studies that they cannot read.
"""
SHORT = 2
"""Version of the user attribute where the plan lies in the system attribute."""
_LATER = ("rename", "initial", "measured", "not_measured", "curves", "expected_error", "expectation", "skip_broken")
"""Fields that version 0.1 does not know..."""
_NOTHING: tuple[object, ...] = ((), {}, False)
"""...and what they hold where they say nothing."""
_STORED = {"n_startup_trials": "startup"}
"""Names that a field has in a stored plan, which stay."""


@dataclass(frozen=True, slots=True)
class WarmConfig:
    """A configuration that the history suggested; see `warmstart.suggestions.answer.InitialDesign`."""

    config: Mapping[str, Value]
    source: str | None = None
    distance: float | None = None
    source_error: float | None = None
    measured: bool = True
    not_measured: tuple[str, ...] = ()
    expected_error: Mapping[str, float] | None = None

    @property
    def origin(self) -> str:
        """Say where it comes from: a dataset, or what there is in place of one."""
        return self.source or ("all datasets" if self.measured or self.not_measured else "no dataset")

    @property
    def promised(self) -> float | None:
        """Return the error to expect here, else the one that it had where it came from; None where neither is known."""
        if self.expected_error is not None:
            return self.expected_error["value"]
        return self.source_error if self.measured else None

    def __post_init__(self) -> None:
        """Take a list, as JSON has it."""
        object.__setattr__(self, "not_measured", tuple(self.not_measured))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types; those that version 0.1 did not have only where they say something."""
        record = asdict(self) | {"not_measured": list(self.not_measured)}
        usual = {"measured": True, "not_measured": [], "expected_error": None}
        return {name: value for name, value in record.items() if name not in usual or value != usual[name]}


def warm_of(config: Mapping[str, Any], warm: Sequence[WarmConfig]) -> WarmConfig | None:
    """Return the warm configuration that a configuration is; None where it is none of them."""
    return next((each for each in warm if _same(each.config, config)), None)


def evaluated_of(objective: Mapping[str, str | None]) -> str:
    """Name what an objective evaluates; see `StudySpec.evaluated`."""
    own = objective.get("function") or objective.get("command")
    workload, budget = objective.get("workload") or DEFAULT, str(objective.get("target_budget"))
    return own or (budget if workload == DEFAULT else f"{workload}/{budget}")


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two configurations are one; bounds are rounded on the way through Optuna."""
    return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return isinstance(one, int | float) and isinstance(other, int | float) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)  # fmt: skip
    return bool(one == other)


@dataclass(frozen=True, kw_only=True)
class StudySpec(Search, WarmStart):
    """The problem and the search of one study; a study never changes its plan. What is not told here: see `warmstart.tune`.

    Attributes:
        space: ConfigSpace JSON.
        objective: what is evaluated: `function`, `command`, or `workload` (the first one, where a study of 0.1 names none) and its `target_budget`.
        dataset: path, as given; other machines may have it elsewhere.
        fingerprint: of the dataset, where it holds images.
        skip_broken: without those that cannot be decoded.
        configs: the warm configurations, best first.
        history: `path`, `id` and `revision` of the history they are from; empty where none was asked.
        folder: first on the path of a function's import.
        device: of the workload.
        tasks: what the history knows of the related datasets.
        meta_feature: of the dataset, where the tasks have theirs.
        members: names of the studies of all datasets that are tuned together, this one among them; none where it is alone.
        split: how these share their trials.
        curves: `warmstart.suggestions.run_forecasts.RunForecasts` of the dataset as JSON, where the pruner is ``history``; else empty.
        expectation: `warmstart.bo.transfer.expected_error.DatasetExpectation` of the first `configs`, those that the history measured, in their order, and
            of the best after a search, as JSON; empty where the history knows too little.
    """

    space: str
    objective: Mapping[str, str | None] = field(
        metadata=identity(
            ("`objective`", lambda plan: plan.objective.get("function")),
            ("`command`", lambda plan: plan.objective.get("command")),
            ("`workload`", lambda plan: plan.workload),
            ("`target_budget`", lambda plan: plan.objective.get("target_budget")),
        )
    )
    dataset: str | None
    fingerprint: str | None = field(metadata=identity(("`dataset`, of fingerprint", lambda plan: plan.fingerprint)))
    skip_broken: bool = field(default=False, metadata=identity())
    configs: tuple[WarmConfig, ...] = ()
    history: Mapping[str, str | int] | None = None
    folder: str = "."
    device: str = "auto"
    tasks: tuple[RelatedDataset, ...] = ()
    meta_feature: tuple[float, ...] | None = None
    members: tuple[str, ...] = field(
        default=(), metadata=identity(("set of datasets tuned together,", lambda plan: tuple(sorted(plan.members))))
    )
    split: Split = field(default="equal", metadata=identity())
    curves: Mapping[str, Any] = field(default_factory=dict)
    expectation: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        WarmStart.__post_init__(self)
        check_warm(self.warm)
        _check_known("pruner", self.pruner, Pruner)
        _check_known("split", self.split, Split)
        _ = self.measure  # raises where it says what cannot be
        if self.related or self.members:
            known = multitask_surrogates()
            if self.surrogate not in known:
                several = "" if self.related else " for several datasets"
                msg = f"expected `surrogate` {', '.join(known)}{several}, got {self.surrogate}. Leave `surrogate` out."
                raise UsageError(msg, param="related" if self.related else "dataset")

    @property
    def workload(self) -> str | None:
        """Name the workload that is tuned; None where the objective is a person's own."""
        if self.objective.get("target_budget") is None:
            return None
        return self.objective.get("workload") or DEFAULT

    @property
    def evaluated(self) -> str:
        """Name what is evaluated, as reports and origins of evaluations do; the first workload by its budget alone, as in 0.1."""
        return evaluated_of(self.objective)

    @property
    def measured(self) -> str:
        """Name what is evaluated and, where it was given, the budget of a trial."""
        return self.evaluated if self.budget is None else f"{self.evaluated}, budget {self.budget:g}"

    @property
    def origin(self) -> str:
        """Name who measures the trials, for a history."""
        return f"tune/{self.measured}"

    @property
    def measure(self) -> Metric:
        """Return what its trials are judged by."""
        return Metric(self.metric, self.maximize, self.scale)

    @property
    def has_images(self) -> bool:
        """Tell whether the dataset is known by its images, not by its path alone."""
        return self.dataset is not None and self.fingerprint != self.dataset

    def to_json(self) -> str:
        """Write the plan; what version 0.1 does not know is left out where it says nothing."""
        record = asdict(self) | {"configs": [each.to_dict() for each in self.configs]}
        record = {name: value for name, value in record.items() if value not in _NOTHING or name not in _LATER}
        if self.measure.is_plain:
            record = {name: value for name, value in record.items() if name not in ("metric", "maximize", "scale")}
        record = {_STORED.get(name, name): value for name, value in record.items()}
        return json.dumps({"schema_version": SCHEMA, **record}, allow_nan=False)

    def short_json(self) -> str:
        """Write what people ask of a study first; the whole plan is what `to_json` writes."""
        about = {
            "dataset": self.dataset,
            "objective": self.evaluated,
            "metric": None if self.measure.is_plain else self.measure.name,
            "surrogate": self.surrogate,
            "acquisition": self.acquisition,
            "warm": f"{len(self.configs)} configurations, {self.warm}" if self.configs else "none",
            "history": None if self.history is None else self.history.get("path"),
            "seed": self.seed,
        }
        known = {name: value for name, value in about.items() if value is not None}
        return json.dumps({"schema_version": SHORT, **known}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read a plan that `to_json` wrote.

        Raises:
            StorageError: when it is of a newer version or damaged.
        """
        try:
            record = parse_json(text)
            version = record.pop("schema_version")
            if version != SCHEMA:
                msg = f"{where}: expected a study of version {SCHEMA}, got {version!r}. Upgrade warmstart."
                raise StorageError(msg)
            configs = tuple(WarmConfig(**each) for each in record.pop("configs"))
            members = tuple(record.pop("members", ()))
            tasks = tuple(RelatedDataset.from_dict(each) for each in record.pop("tasks", ()))
            meta = optional_tuple(record.pop("meta_feature", None))
            named = {name: record.pop(stored) for name, stored in _STORED.items() if stored in record}
            return cls(**record, **named, configs=configs, tasks=tasks, meta_feature=meta, members=members)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = f"{where}: expected a study that warmstart made, got a damaged record ({in_words(error)}). Restore the storage, or begin another study with `study`."
            raise StorageError(msg) from error

    def check_same(self, other: StudySpec, where: str) -> None:
        """Check that a call means the study that this plan began.

        Raises:
            UsageError: when it differs in anything that the outcome depends on; the message names it.
        """
        before, after = identity_of(self), identity_of(other)
        differences = [
            f"{label} {_shown(after[label])} (the study has {_shown(old)})"
            for label, old in before.items()
            if old != after[label]
        ]
        if not same_space(self.space, other.space):
            differences.insert(0, f"`space`: {space_difference(self.space, other.space)}")
        if differences:
            msg = f"{where}: expected what this study was begun with, got another {'; '.join(differences)}. Give the same again, or another name with `study`."
            raise UsageError(msg)

    def with_warm(
        self,
        configs: tuple[WarmConfig, ...],
        history: Mapping[str, str | int],
        expectation: DatasetExpectation | None = None,
    ) -> StudySpec:
        """Return the plan with what the history suggested, and what it expects of that."""
        known = {} if expectation is None else expectation.to_dict()
        return replace(self, configs=configs, history=history, expectation=known)

    @property
    def design(self) -> int:
        """Count the trials before the surrogate decides."""
        return {
            "design": len(self.configs) or self.n_startup_trials,
            "initial": max(self.n_startup_trials, len(self.configs)),
            "extra": self.n_startup_trials + len(self.configs),
            "none": 0 if self.tasks else self.n_startup_trials,
        }[self.warm]

    def sampler(self, told: Sequence[RelatedTask] = (), *, acquisition: str | None = None) -> WarmStartSampler:
        """Make the sampler; it learns from the related datasets, and from what was told of others tuned together with this one.

        Args:
            told: of the others.
            acquisition: instead of the study's.
        """
        from warmstart.history_store.space import load_space
        from warmstart.integrations.optuna.sampler import WarmStartSampler

        related = [*(each.task() for each in self.tasks), *told]
        is_placed = self.meta_feature is not None and all(task.meta_feature is not None for task in related)
        return WarmStartSampler(
            space=load_space(self.space),
            surrogate=f"mt-{self.surrogate}" if related else self.surrogate,
            acquisition=acquisition or self.acquisition,
            initial=[warm.config for warm in self.configs],
            related=related if is_placed else [replace(task, meta_feature=None) for task in related],
            meta_feature=self.meta_feature if is_placed else None,
            n_startup_trials=self.design,
            seed=self.seed,
        )

    def make_pruner(self, *, least: int | None = None) -> BasePruner:
        """Make the pruner.

        Args:
            least: step from which on Hyperband and ASHA stop trials; None = as Optuna has it.
        """
        from optuna import pruners

        made: dict[str, Callable[[], BasePruner]] = {
            "none": pruners.NopPruner,
            "median": pruners.MedianPruner,
            "asha": lambda: pruners.SuccessiveHalvingPruner(min_resource=least or "auto"),
            "hyperband": lambda: pruners.HyperbandPruner(min_resource=least or 1),
            "history": self._history_pruner,
        }
        return made[self.pruner]()

    def _history_pruner(self) -> BasePruner:
        from warmstart.history_store.space import load_space
        from warmstart.integrations.optuna.pruner import HistoryPruner
        from warmstart.suggestions.run_forecasts import RunForecasts

        return HistoryPruner(RunForecasts.from_dict(self.curves), load_space(self.space), length=self.length)

    def length(self, config: Config) -> float | None:
        """Return the step at which a trial of a configuration ends, where the study or the workload tells."""
        if self.workload is None:
            return self.budget
        workload = get_workload(self.workload)
        budget = workload.budget(self.objective.get("target_budget"), amount=self.budget)
        return workload.steps(budget, config=config)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    return "none" if value in (None, "") else str(value)


def multitask_surrogates() -> list[str]:
    """List the surrogates that learn from related datasets: those with a relative `mt-NAME`."""
    from warmstart.bo.surrogates import SURROGATES

    return [name for name in SURROGATES if f"mt-{name}" in SURROGATES]


def check_warm(warm: str) -> None:
    """Check the name of a way in which warm configurations count.

    Raises:
        UsageError: when there is none of that name.
    """
    _check_known("warm", warm, Warm)


def _check_known(param: str, value: str, known: object) -> None:
    if not isinstance(value, str) or value not in get_args(known):
        msg = f"expected one of {', '.join(get_args(known))}, got {value!r}. Leave it out for the default."
        raise UsageError(msg, param=param, given=value, choices=get_args(known))
