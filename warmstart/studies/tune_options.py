"""The options of one call of `tune` or `tune_many`: reading and checks."""

from __future__ import annotations

import math
import os
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from warmstart.arguments import check_not_none
from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.default_workload import default_workload, is_history_named, measured_workload
from warmstart.history_store import system
from warmstart.history_store.canonical import content_digest
from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import dump_space, load_space, same_space
from warmstart.history_store.wording import counted
from warmstart.integrations.trackers.registry import find_tracker
from warmstart.locations import glance, history_path
from warmstart.option import check_keywords
from warmstart.spaces import space_text
from warmstart.studies.execution.gpus import chosen_gpus, visible_gpus
from warmstart.studies.execution.worker import Limits
from warmstart.studies.history.warm_start import ask_history
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.command import placeholders
from warmstart.studies.objectives.load import load_objective, nothing_to_tune
from warmstart.studies.objectives.measured import with_metric
from warmstart.studies.objectives.metric import FILE, NAMED, REGEX
from warmstart.studies.objectives.workload import WorkloadObjective
from warmstart.studies.options import (
    Caller,
    Execution,
    Outputs,
    Problem,
    Search,
    Warm,
    WarmStart,
    pick_from,
)
from warmstart.studies.related_dataset import AUTO
from warmstart.studies.state.sampling import make_sampler
from warmstart.studies.state.spec import StudySpec, check_warm
from warmstart.studies.state.split import Split
from warmstart.suggestions.initial_configs import convert_initial, read_initial
from warmstart.suggestions.lookup import Sources
from warmstart.suggestions.query import open_query, typical_picture_side
from warmstart.training.collection.plan import parse_time
from warmstart.training.workloads import DEFAULT, Workload, get_workload, measures, workload_named_by

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike
    from warmstart.studies.history.timed_call import TimedCall
    from warmstart.suggestions.query import Query

_NAMED_CLASSES = 200
"""Classes of a dataset whose names a study keeps, so that it can say what changed."""
TRIALS = 50
"""Trials of a call that limits neither their number nor the time."""


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Problem, Search, WarmStart, Sources, Execution, Outputs, Caller):
    """The options of a call, without its datasets."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read options from values by name.

        Raises:
            TypeError: an unknown name.
            UsageError: a value of a wrong type, or options that exclude each other.
        """
        check_keywords("tune", cls, values)
        if values.get("cluster") is not None:
            from warmstart.integrations.ray.cluster import Cluster

            if not isinstance(values["cluster"], Cluster):
                msg = f"cluster: expected a warmstart.integrations.ray.cluster.Cluster, got {values['cluster']!r}. Leave it out for this machine."
                raise UsageError(msg)
        options = cls(**with_printed_metric(values))
        if options.initial and options.warm == "none":
            msg = "cannot be used with `warm` none."
            raise UsageError(msg, param="initial")
        custom = "objective" if options.objective is not None else "command" if options.command is not None else None
        for name in ("workload", "target_budget"):
            if custom is not None and getattr(options, name) != getattr(Problem, name):
                msg = f"cannot be used with `{custom}`, which trains in its own way."
                raise UsageError(msg, param=name)
        check_not_none(options, *(option.name for option in fields(cls) if option.default is not None))
        for name in options.trackers:
            find_tracker(name)
        return options._with_gpus()

    def _with_gpus(self) -> Self:
        """Return options with the GPUs that `gpus` stands for; warn where several workers share what may be a GPU each.

        Raises:
            UsageError: no such GPUs, or options that exclude each other.
        """
        for name in ("workers", "per_gpu"):
            if (number := getattr(self, name)) is not None:
                check_count(name, number)
        if self.gpus is None:
            if self.per_gpu != Execution.per_gpu:
                msg = "needs `gpus`."
                raise UsageError(msg, param="per_gpu")
            n = (
                0
                if self.cluster is not None or self.device == "cpu" or self.workers in (None, 1)
                else len(visible_gpus())
            )
            if n:
                same = "the only GPU" if n == 1 else f"the same {n} GPUs"
                self.on_message(f"All {self.workers} workers see {same}; `gpus` auto gives each one of its own.")
            return self
        for problem, is_there in {
            "Ray: `gpus_per_trial` says how many a trial takes": self.cluster is not None,
            f"`device` {self.device}": self.device not in ("auto", "cuda"),
        }.items():
            if is_there:
                msg = f"cannot be used with {problem}."
                raise UsageError(msg, param="gpus")
        gpus = chosen_gpus(self.gpus)
        if self.workers is not None and self.workers > len(gpus) * self.per_gpu:
            self.on_message(
                f"{self.workers} workers share {counted(len(gpus), 'GPU')}, more than `per_gpu` {self.per_gpu}: trials "
                "may run out of memory."
            )
        return replace(self, gpus=gpus)

    @property
    def trackers(self) -> tuple[str, ...]:
        """Return the distinct names of trackers."""
        return tuple(dict.fromkeys([self.track] if isinstance(self.track, str) else self.track))

    @property
    def places(self) -> tuple[str | None, ...]:
        """Return the GPU of each worker; None for one that sees all."""
        gpus: Sequence[Any] = self.gpus or (None,)
        n = self.workers or len(gpus) * self.per_gpu
        return tuple(gpus[i % len(gpus)] for i in range(n))

    @property
    def has_processes(self) -> bool:
        """Tell whether workers are processes of their own, as several are, and those of a GPU."""
        return self.places != (None,)

    def limits(self) -> Limits:
        """Return the limits of the call, counted from now, and check all numbers.

        Raises:
            UsageError: a number out of range, or several networks without a file for them.
        """
        numbers = {
            "k": self.k,
            "n_startup_trials": self.n_startup_trials,
            "neighbours": self.neighbours,
            "ensemble": self.ensemble,
        }
        for name, number in {**numbers, "trials": self.trials}.items():
            if number is not None:
                check_count(name, number)
        if self.has_processes:
            system.check_process_trees()
        if self.ensemble > 1 and self.save_model is None:
            msg = f"{self.ensemble} networks need `save_model`."
            raise UsageError(msg, param="ensemble")
        is_endless = self.timeout is None and self.time is None
        return Limits(
            self.trials or (TRIALS if is_endless else math.inf),
            time.monotonic() + parse_time(self.timeout, param="timeout"),
            math.inf if self.trial_timeout is None else parse_time(self.trial_timeout, param="trial_timeout"),
            memory_bytes(self.trial_memory),
        )

    def check_time(self, *, datasets: int = 1, server: bool = False) -> float:
        """Return the seconds of the whole call; infinite without such a limit.

        Raises:
            UsageError: it is no length of time, or cannot be used with another option.
        """
        seconds = parse_time(self.time, param="time")
        if self.time is None:
            return seconds
        exclusions = {
            "`timeout`": self.timeout is not None,
            "`server`": server,
            "several datasets": datasets > 1,
            "Ray": self.cluster is not None,
        }
        for option, is_excluded in exclusions.items():
            if is_excluded:
                msg = f"cannot be used with {option}."
                raise UsageError(msg, param="time")
        return seconds

    def plan(
        self,
        dataset: str | None,
        stored_plan: StudySpec | None,
        *,
        query: Query | None = None,
        members: tuple[str, ...] = (),
        split: Split = "equal",
    ) -> StudySpec:
        """Plan the study of a dataset.

        Args:
            dataset: path.
            stored_plan: the plan that the study has already.
            query: the dataset, opened by `open`.
            members: names of the studies that are tuned together.
            split: how these share their trials.

        Raises:
            UsageError: options that do not fit the study.
            WarmstartError: a dataset, a space or a history that cannot be read.
        """
        check_warm(self.warm)
        if self.strategy is not None and self.strategy not in STRATEGIES:
            msg = f"expected one of {', '.join(STRATEGIES)}, got {self.strategy!r}. Leave it out for the default."
            raise UsageError(msg, param="strategy", given=self.strategy, choices=STRATEGIES)
        counts: Warm = self.warm if dataset is not None or self.initial else "none"
        _check_space(self.space, self.own_workload)
        space = self._space_text(stored_plan, query)
        plan = StudySpec(
            space=space,
            objective=_objective_text(self.objective, self.command, self.own_workload, self.target_budget),
            dataset=dataset,
            fingerprint=dataset if query is None else query.fingerprint,
            content=content_digest(dataset) if query is None and dataset is not None else None,
            pictures=0 if query is None else len(query.source),
            classes=() if query is None else tuple(query.source.class_names)[:_NAMED_CLASSES],
            folder=str(Path.cwd()),
            skip_broken=self.skip_broken,
            device=self.device,
            members=members,
            split=split,
            **pick_from(Search, self),
            **pick_from(WarmStart, self)
            | {"warm": counts, "initial": self._initial(space, is_new=stored_plan is None)},
        )
        make_sampler(plan)  # raises for a wrong name before anything is written
        return plan

    @property
    def own_workload(self) -> str | None:
        """Return the workload's name, the default one where none was named; None if the objective is the user's."""
        if self.objective is not None or self.command is not None:
            return None
        if self.workload is not None:
            return self.workload
        if self.target_budget in get_workload(DEFAULT).budgets:
            return DEFAULT
        if self.space is None and is_history_named(self.history):
            return measured_workload(self.history)
        return default_workload(self.space, rename=dict(self.rename), model=self.model).name

    def _space_text(self, stored_plan: StudySpec | None, query: Query | None) -> str:
        """Return the space of the call, the study or the history; the workload's default if the history's is another's.

        Pictures with more pixels than the images of the workload's usual space get its larger one, and so does a plan of
        limited time.
        """
        if self.space is not None:
            return space_text(self.space)
        workload = self.own_workload
        if stored_plan is not None and stored_plan.workload == workload:
            return stored_plan.space
        if workload is None:
            names = placeholders(self.command) if self.command is not None else ()
            script = default_workload(names=names, is_script=True, model=self.model)
            return glance(history_path(self.history, workload=script.name)).space_json
        history_space = glance(history_path(self.history, workload=workload)).space_json
        if workload == DEFAULT:
            return history_space
        if not measures(history_space, workload):
            return dump_space(get_workload(workload).space())
        is_planned = self.time is not None
        return _space_of_pictures(history_space, get_workload(workload), query, is_planned=is_planned) or history_space

    def _initial(self, space: str, *, is_new: bool) -> tuple[Mapping[str, Any], ...]:
        """Read the initial configurations and translate them into the space; for a new study, print the changes."""
        if not self.initial:
            return ()

        configs = read_initial(self.initial)
        translation = convert_initial(load_space(space), configs, rename=dict(self.rename), seed=self.seed)
        for note in translation.notes if is_new else ():
            self.on_message(note)
        return translation.configs

    def target(self, plan: StudySpec) -> Objective:
        """Load the objective of a study.

        Raises:
            UsageError: it cannot be loaded.
        """
        objective = load_objective(
            self.objective,
            names=list(load_space(plan.space)),
            command=self.command,
            dataset=plan.dataset,
            workload=self.own_workload or DEFAULT,
            target_budget=self.target_budget,
            device=self.device,
            folder=Path.cwd(),
        )
        if self.objective is None and self.command is None:
            get_workload(self.own_workload or DEFAULT).check_space(load_space(plan.space))
        if isinstance(objective, WorkloadObjective):
            objective = replace(objective, skip_broken=plan.skip_broken, threads=self.threads)
        return with_metric(objective, plan.measure)

    def complete(self, plan: StudySpec, query: Query | None = None, *, timed: TimedCall | None = None) -> StudySpec:
        """Complete the plan of a new study by the history's suggestions; raises as `ask_history`."""
        if timed is not None and self.k != WarmStart.k:
            msg = "cannot be used with `time`: the plan decides how many configurations fit."
            raise UsageError(msg, param="k")
        return ask_history(plan, sources=self.sources, on_message=self.on_message, query=query, timed=timed)

    @property
    def sources(self) -> Sources:
        """Return the history, model and cache options."""
        return Sources(**pick_from(Sources, self))

    def open(self, dataset: str | None) -> Query | None:
        """Open the dataset of a study; None if only its path is needed.

        Raises:
            WarmstartError: a dataset that cannot be read.
        """
        is_custom = self.objective is not None or self.command is not None
        needs_history = self.warm != "none" and not self.initial
        if dataset is None or (
            is_custom and not needs_history and AUTO not in self.related and self.pruner != "history"
        ):
            return None

        return open_query(dataset, download=self.download)

    def name(self, dataset: str | None) -> str:
        """Return the default name of a study of 0.2, from its dataset and objective.

        Raises:
            UsageError: there is neither.
        """
        return default_name(dataset, self.objective, self.command)


def with_printed_metric(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the metric that `score` or `loss` stands for, in place of these.

    Raises:
        UsageError: they exclude each other, or nothing of one's own gives the number.
    """
    names = [name for name in ("score", "loss") if values.get(name)]
    rest = {name: value for name, value in values.items() if name not in ("score", "loss")}
    if not names:
        return rest
    name = names[0]
    for other in (*names[1:], "metric", "maximize"):
        if values.get(other):
            msg = f"cannot be used with `{name}`."
            raise UsageError(msg, param=other)
    if values.get("command") is None and values.get("objective") is None:
        msg = "needs `command` or `objective`."
        raise UsageError(msg, param=name)
    is_spec = str(values[name]).startswith((REGEX, FILE))
    prefix = NAMED if values.get("command") is not None and not is_spec else ""
    return {**rest, "metric": f"{prefix}{values[name]}", "maximize": name == "score"}


def check_count(name: str, number: int) -> None:
    """Check that a count is a whole number of at least 1.

    Raises:
        UsageError: it is not.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        msg = f"expected a whole number of at least 1, got {number!r}. Leave it out for the default."
        raise UsageError(msg, param=name)


def memory_bytes(text: str | int | None) -> int | None:
    """Parse an amount of memory: bytes, or a text like ``4G``, ``512M``."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)i?B?", str(text).strip())
    amount = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")) if match else 0
    if amount < 1:
        msg = f"expected an amount of memory above 0, got {text!r}. Write 4G, 512M or a number of bytes."
        raise UsageError(msg, param="trial_memory")
    return amount


def default_name(dataset: str | None, objective: str | Callable[..., object] | None, command: str | None) -> str:
    """Return the default name of a study, from its dataset and objective."""
    words = command.split() if command else []
    target = next((word for word in words if not Path(word).name.startswith("python")), None)
    if objective is not None:
        target = (
            objective if isinstance(objective, str) else getattr(objective, "__qualname__", type(objective).__name__)
        )
    parts = [Path(part).name for part in (dataset, target) if part]
    name = re.sub(r"[^\w.]+", "-", "-".join(parts)).strip("-")
    if not name:
        raise nothing_to_tune()
    return name


def dataset_labels(paths: Sequence[str]) -> list[str]:
    """Return names of datasets: the ends of their paths, with a checksum of the path where these are the same."""
    ends = [default_name(path, None, None) for path in paths]
    return [
        end if ends.count(end) == 1 else f"{end}-{zlib.crc32(os.fsencode(path)):08x}"
        for end, path in zip(ends, paths, strict=True)
    ]


def with_label(path: Path, label: str) -> Path:
    """Return a file's path for one of several datasets."""
    return path.with_stem(f"{path.stem}-{label}")


def _objective_text(
    objective: str | Callable[..., object] | None, command: str | None, workload: str | None, target_budget: str | None
) -> dict[str, str | None]:
    """Return the names of the objective, as the study stores them."""
    if objective is not None and not isinstance(objective, str):
        name = getattr(objective, "__qualname__", type(objective).__qualname__)
        objective = f"{getattr(objective, '__module__', '')}:{name}"
    if workload is None:
        return {"function": objective, "command": command, "workload": None, "target_budget": None}
    budget = target_budget or get_workload(workload).budgets[0]
    return {"function": None, "command": None, "workload": workload, "target_budget": budget}


def _check_space(space: SpaceLike | None, workload: str | None) -> None:
    """Check that a space is not named by another workload.

    Raises:
        UsageError: it is; the message names both.
    """
    owner = workload_named_by(space)
    if None not in (owner, workload) and owner != workload:
        msg = f"expected a space of the workload {workload!r}, got {space!r}. Give `workload` {owner}."
        raise UsageError(msg, param="space")


def _space_of_pictures(history_space: str, workload: Workload, query: Query | None, *, is_planned: bool) -> str | None:
    """Return the space for a plan of time or the size of pictures; None if the history's fits, or is not a usual one."""
    usual = workload.space()
    planned = None if workload.plan_space is None else dump_space(workload.space(workload.plan_space))
    is_usual = same_space(history_space, dump_space(usual))
    if query is None or not (is_usual or (planned is not None and same_space(history_space, planned))):
        return None
    if is_planned and planned is not None:
        return planned
    largest, side = workload.largest_image(usual), typical_picture_side(query.source)
    larger = None if largest is None or side is None else workload.space_for_larger(side, largest)
    if larger is not None:
        return dump_space(workload.space(larger[0].partition(":")[2]))
    return None if is_usual else dump_space(usual)
