"""The plan of a study: stored in the study, so that every worker and every later call has the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, get_args

from warmstart.bo.transfer.expected_error import DatasetExpectation
from warmstart.history_store.broken import SkipBroken
from warmstart.history_store.canonical import Place
from warmstart.history_store.errors import OtherStudyError, StorageError, UsageError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.records import Config, Value, same_config
from warmstart.history_store.space import same_space, space_difference
from warmstart.history_store.wording import counted, in_words, some_of
from warmstart.option import identity, identity_of
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.options import Pruner, Search, Warm, WarmStart
from warmstart.studies.related_dataset import RelatedDataset, optional_tuple
from warmstart.studies.state.split import Split
from warmstart.training.workloads import DEFAULT, get_workload

SCHEMA, METRIC_SCHEMA = 1, 3
"""Version of a plan; of one whose study has values of its metric, which versions before 0.3 would take for errors."""
SHORT_SCHEMA = 2
"""Version of the short form in the user attribute; the plan is in the system attribute."""
_FIELDS_SINCE_0_2 = (
    "rename",
    "initial",
    "measured",
    "not_measured",
    "curves",
    "expected_error",
    "expectation",
    "skip_broken",
    "content",
    "pictures",
    "classes",
    "has_metric_values",
)
"""Fields that version 0.1 does not know: left out if empty, so that it can read the plan."""
_EMPTY_VALUES: tuple[object, ...] = ((), {}, None, 0)
"""Values that count as empty."""
_DATASET = "`dataset`:"
"""Label of the dataset among the differences of two plans."""
_STORED_NAMES = {"n_startup_trials": "startup"}
"""Names in stored plans of fields that were renamed; the stored names stay."""


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
        """Return the dataset that it is from, else a text such as "all datasets"."""
        return self.source or ("all datasets" if self.measured or self.not_measured else "no dataset")

    @property
    def promised(self) -> float | None:
        """Return the expected error here, else its error on the source dataset; None if both are unknown."""
        if self.expected_error is not None:
            return self.expected_error["value"]
        return self.source_error if self.measured else None

    def __post_init__(self) -> None:
        """Convert a list from JSON to a tuple."""
        object.__setattr__(self, "not_measured", tuple(self.not_measured))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; those that version 0.1 did not have only if they differ from the default."""
        record = asdict(self) | {"not_measured": list(self.not_measured)}
        usual = {"measured": True, "not_measured": [], "expected_error": None}
        return {name: value for name, value in record.items() if name not in usual or value != usual[name]}


def warm_of(config: Mapping[str, Any], warm: Sequence[WarmConfig]) -> WarmConfig | None:
    """Return the warm configuration that equals a configuration, or None."""
    return next((candidate for candidate in warm if same_config(candidate.config, config)), None)


def objective_name_of(objective: Mapping[str, str | None]) -> str:
    """Return the name of an objective; see `StudySpec.evaluated`."""
    custom = objective.get("function") or objective.get("command")
    workload, budget = objective.get("workload") or DEFAULT, str(objective.get("target_budget"))
    return custom or (budget if workload == DEFAULT else f"{workload}/{budget}")


@dataclass(frozen=True, kw_only=True)
class StudySpec(Search, WarmStart):
    """The plan of one study: problem and search; it never changes. For other fields see `warmstart.tune`.

    Attributes:
        space: ConfigSpace JSON.
        objective: `function`, `command`, or `workload` (the default one in a study of 0.1, which names none) and its
            `target_budget`.
        dataset: path, as in the call; other machines may have another one.
        fingerprint: of the dataset, if it has images.
        content: digest of a dataset whose images were not read, so that it is known where it moved to.
        pictures: number of the images; 0 = unknown.
        classes: of the images.
        skip_broken: without images that cannot be decoded: all (True), none (False) or a few (None).
        configs: the warm configurations, best first.
        history: `path`, `id` and `revision` of the history of the warm configurations; None without one.
        folder: first on the path of a function's import.
        device: of the workload.
        tasks: the related datasets with their evaluations.
        meta_feature: of the dataset, if the tasks have theirs.
        members: names of the studies of all datasets that are tuned together, with this one; empty for a single study.
        split: how the members share their trials.
        curves: `warmstart.suggestions.run_forecasts.RunForecasts` of the dataset as JSON, if the pruner is ``history``;
            else empty.
        has_metric_values: whether the values of the study's trials are those of its metric, not errors.
        expectation: `warmstart.bo.transfer.expected_error.DatasetExpectation` as JSON, of the `configs` that the
            history measured (these are first), in their order, and of the best after a search; empty if the history has
            too few evaluations.
    """

    space: str
    objective: Mapping[str, str | None] = field(
        metadata=identity(
            ("`objective`", lambda plan: plan.place(plan.objective.get("function"))),
            ("`command`", lambda plan: plan.objective.get("command")),
            ("`workload`", lambda plan: plan.workload),
            ("`target_budget`", lambda plan: plan.objective.get("target_budget")),
        )
    )
    dataset: str | None
    fingerprint: str | None = field(metadata=identity((_DATASET, lambda plan: plan.identity_of_dataset)))
    content: str | None = None
    pictures: int = 0
    classes: tuple[str, ...] = ()
    skip_broken: SkipBroken = field(default=None, metadata=identity(lambda plan: bool(plan.skip_broken)))
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
    has_metric_values: bool = False
    expectation: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        WarmStart.__post_init__(self)
        check_warm(self.warm)
        _check_choice("pruner", self.pruner, Pruner)
        _check_choice("split", self.split, Split)
        _ = self.measure  # raises for an invalid metric
        if self.related or self.members:
            surrogates = multitask_surrogates()
            if self.surrogate not in surrogates:
                several = "" if self.related else " for several datasets"
                msg = f"expected `surrogate` {', '.join(surrogates)}{several}, got {self.surrogate}. Leave `surrogate` out."
                raise UsageError(msg, param="related" if self.related else "dataset")

    @property
    def workload(self) -> str | None:
        """Return the workload's name; None if the objective is the user's."""
        if self.objective.get("target_budget") is None:
            return None
        return self.objective.get("workload") or DEFAULT

    @property
    def evaluated(self) -> str:
        """Return the objective's name for reports and origins; of the default workload only its budget, as in 0.1."""
        return objective_name_of(self.objective)

    @property
    def objective_label(self) -> str:
        """Return the name of the objective, and the budget of a trial if it is set."""
        return self.evaluated if self.budget is None else f"{self.evaluated}, budget {self.budget:g}"

    @property
    def origin(self) -> str:
        """Return the origin of the trials as evaluations of a history."""
        return f"tune/{self.objective_label}"

    @property
    def measure(self) -> Metric:
        """Return the metric of the trials."""
        return Metric(self.metric, self.maximize, self.scale)

    @property
    def has_images(self) -> bool:
        """Tell whether the fingerprint is of the dataset's images, not its path."""
        return self.dataset is not None and self.fingerprint != self.dataset

    @property
    def identity_of_dataset(self) -> str | Place | None:
        """Return the fingerprint of the dataset's images, else its place."""
        is_of_images = self.has_images or self.dataset is None  # a server keeps no path
        return self.fingerprint if is_of_images else self.place(self.fingerprint, self.content)

    def place(self, location: str | None, content: str | None = None) -> Place | None:
        """Return a location, which was written in the folder in which the study was begun."""
        return None if location is None else Place(location, self.folder, content)

    def to_json(self) -> str:
        """Return the plan as JSON; fields that version 0.1 does not know are left out if empty."""
        record = asdict(self) | {"configs": [config.to_dict() for config in self.configs]}
        record = {
            name: value for name, value in record.items() if value not in _EMPTY_VALUES or name not in _FIELDS_SINCE_0_2
        }
        if self.measure.is_plain:
            record = {name: value for name, value in record.items() if name not in ("metric", "maximize", "scale")}
        record = {_STORED_NAMES.get(name, name): value for name, value in record.items()}
        version = METRIC_SCHEMA if self.has_metric_values else SCHEMA
        return json.dumps({"schema_version": version, **record}, allow_nan=False)

    @staticmethod
    def short_json() -> str:
        """Return the short form of the plan as JSON, which 0.1 refuses; see `to_json` for the whole plan."""
        return json.dumps({"schema_version": SHORT_SCHEMA})

    def summary(self) -> dict[str, str | int]:
        """Return the main fields for people, such as the study's attributes in a dashboard."""
        fields = {
            "dataset": self.dataset,
            "objective": self.evaluated,
            "metric": None if self.measure.is_plain else self.measure.name,
            "direction": None if self.measure.is_plain else ("maximize" if self.maximize else "minimize"),
            "surrogate": self.surrogate,
            "acquisition": self.acquisition,
            "warm": f"{len(self.configs)} configurations, {self.warm}" if self.configs else "none",
            "history": None if self.history is None else str(self.history.get("path")),
            "seed": self.seed,
        }
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_json(cls, text: str, source: str) -> Self:
        """Read a plan of `to_json`.

        Raises:
            StorageError: it is of a newer version or damaged.
        """
        try:
            record = parse_json(text)
            version = record.pop("schema_version")
            if version not in (SCHEMA, METRIC_SCHEMA):
                msg = f"{source}: expected a study of version {SCHEMA}, got {version!r}. Upgrade warmstart."
                raise StorageError(msg)
            configs = tuple(WarmConfig(**item) for item in record.pop("configs"))
            members, classes = tuple(record.pop("members", ())), tuple(record.pop("classes", ()))
            tasks = tuple(RelatedDataset.from_dict(item) for item in record.pop("tasks", ()))
            meta_feature = optional_tuple(record.pop("meta_feature", None))
            renamed = {
                name: record.pop(stored_name) for name, stored_name in _STORED_NAMES.items() if stored_name in record
            }
            further = {"tasks": tasks, "meta_feature": meta_feature, "members": members, "classes": classes}
            return cls(**record, **renamed, **further, configs=configs)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = f"{source}: expected a study that warmstart made, got a damaged record ({in_words(error)}). Restore the storage, or begin another study with `study`."
            raise StorageError(msg) from error

    def differences(self, plan: StudySpec) -> list[str]:
        """Return in words how the plan of a call differs from this study; empty for the same question."""
        if self.workload != plan.workload:
            return [f"`workload` {plan.workload or 'none'} (the study has {self.workload or 'none'})"]
        before, after = identity_of(self), identity_of(plan)
        differences = [
            f"{_DATASET} {_other_pictures(self, plan)}"
            if label == _DATASET
            else f"{label} {_text(after[label])} (the study has {_text(old)})"
            for label, old in before.items()
            if old != after[label]
        ]
        if not same_space(self.space, plan.space):
            differences.insert(0, f"`space`: {space_difference(self.space, plan.space)}")
        return differences

    def check_same(self, plan: StudySpec, location: str) -> None:
        """Check that the plan of a call is the plan of this study.

        Raises:
            OtherStudyError: it differs in an option that identifies the study; the message names it.
        """
        if differences := self.differences(plan):
            msg = f"{location}: expected what this study was begun with, got another {'; '.join(differences)}. Give the same again, or another name with `study`."
            raise OtherStudyError(msg)

    def with_warm(
        self,
        configs: tuple[WarmConfig, ...],
        history: Mapping[str, str | int],
        expectation: DatasetExpectation | None = None,
    ) -> StudySpec:
        """Return the plan with warm configurations and their expected errors."""
        expectation_record = {} if expectation is None else expectation.to_dict()
        return replace(self, configs=configs, history=history, expectation=expectation_record)

    @property
    def design(self) -> int:
        """Return the number of trials of the initial design."""
        return {
            "design": len(self.configs) or self.n_startup_trials,
            "initial": max(self.n_startup_trials, len(self.configs)),
            "extra": self.n_startup_trials + len(self.configs),
            "none": 0 if self.tasks else self.n_startup_trials,
        }[self.warm]

    def length(self, config: Config) -> float | None:
        """Return the last step of a trial of a configuration, by the study or the workload; None if unknown."""
        if self.workload is None:
            return self.budget
        workload = get_workload(self.workload)
        budget = workload.budget(self.objective.get("target_budget"), amount=self.budget)
        return workload.steps(budget, config=config)


def _other_pictures(before: StudySpec, after: StudySpec) -> str:
    """Return in words how the dataset of a call differs from a study's."""
    if before.dataset != after.dataset and not (before.has_images and after.has_images):
        return f"{after.dataset or 'none'} instead of {before.dataset or 'none'}"
    if before.classes and set(before.classes) != set(after.classes):
        new, gone = set(after.classes) - set(before.classes), set(before.classes) - set(after.classes)
        parts = [f"{some_of(sorted(new))} is new" if new else "", f"{some_of(sorted(gone))} is gone" if gone else ""]
        return f"of its classes {' and '.join(filter(None, parts))}"
    if before.pictures and before.pictures != after.pictures:
        return f"{counted(after.pictures, 'picture')} instead of {before.pictures}"
    return "other pictures than it was begun with"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    return "none" if value in (None, "") else str(value)


def multitask_surrogates() -> list[str]:
    """Return the surrogates that learn from related datasets: those with a variant `mt-NAME`."""
    from warmstart.bo.surrogates import SURROGATES

    return [name for name in SURROGATES if f"mt-{name}" in SURROGATES]


def check_warm(warm: str) -> None:
    """Check a value of `warm`.

    Raises:
        UsageError: it is unknown.
    """
    _check_choice("warm", warm, Warm)


def _check_choice(param: str, value: str, choices: object) -> None:
    if not isinstance(value, str) or value not in get_args(choices):
        msg = f"expected one of {', '.join(get_args(choices))}, got {value!r}. Leave it out for the default."
        raise UsageError(msg, param=param, given=value, choices=get_args(choices))
