"""All options of one call of `tune` or `tune_many`, read and checked."""

from __future__ import annotations

import math
import os
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from warmstart.arguments import (
    Check,
    check_arguments,
    check_callable,
    check_flag,
    check_length,
    check_names,
    check_not_none,
    check_objective,
    check_path,
    check_positive,
    check_report,
    check_seed,
    check_space,
    check_text,
)
from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.glance import glance
from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import dump_space, load_space
from warmstart.locations import PathLike, history_path
from warmstart.studies.execution.worker import Limits
from warmstart.studies.history.warm_start import ask_history
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.load import load_objective, without_broken
from warmstart.studies.objectives.measured import measured
from warmstart.studies.options import (
    Execution,
    Outputs,
    Problem,
    Search,
    Sources,
    Warm,
    WarmStart,
    pick,
    pick_from,
)
from warmstart.studies.related_dataset import AUTO
from warmstart.studies.state.spec import StudySpec, check_warm
from warmstart.studies.state.split import Split
from warmstart.training.collection.plan import parse_time
from warmstart.training.workloads import DEFAULT, WORKLOADS, get_workload, measures, workload_named_by

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike
    from warmstart.studies.history.time_plan import TimedCall
    from warmstart.suggestions.query import Query

TRIALS = 50
"""Trials of a call for which neither their number nor a time is given."""

_CHECKS: Mapping[str, Check] = (
    dict.fromkeys(("storage", "history", "model", "log", "save_model"), check_path)
    | dict.fromkeys(("study", "command", "target_budget", "warm", "strategy", "surrogate", "acquisition"), check_text)
    | dict.fromkeys(("pruner", "device", "record", "scale"), check_text)
    | dict.fromkeys(("exclude_group", "related"), check_names)
    | dict.fromkeys(("timeout", "time", "trial_timeout", "trial_memory"), check_length)
    | dict.fromkeys(("cache", "download", "skip_broken"), check_flag)
    | dict.fromkeys(("progress", "on_message"), check_callable)
    | {"objective": check_objective, "space": check_space, "seed": check_seed, "budget": check_positive}
    | {"report": check_report}
)


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Problem, Search, WarmStart, Sources, Execution, Outputs):
    """The options of a call, by group; the datasets apart."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read options from values by name; what is no option is left out.

        Raises:
            UsageError: when one is of a wrong kind.
        """
        check_arguments(_CHECKS, values)
        if values.get("cluster") is not None:
            from warmstart.integrations.ray.cluster import Cluster

            if not isinstance(values["cluster"], Cluster):
                msg = f"cluster: expected a warmstart.integrations.ray.cluster.Cluster, got {values['cluster']!r}. Leave it out for this machine."
                raise UsageError(msg)
        found = cls(**pick(cls, values))
        if found.initial and found.warm == "none":
            msg = "expected no configurations to begin with where `warm` is none, got some. Leave one of the two out."
            raise UsageError(msg, param="initial")
        own = "objective" if found.objective is not None else "command" if found.command is not None else None
        for name in ("workload", "target_budget"):
            if own is not None and getattr(found, name) != getattr(Problem, name):
                msg = f"expected none beside `{own}`, which trains in its own way, got {getattr(found, name)!r}. Leave one of the two out."
                raise UsageError(msg, param=name)
        check_not_none(found, *(each.name for each in fields(cls) if each.default is not None))
        return found

    def limits(self) -> Limits:
        """Read what may be spent, counted from now, and check all numbers.

        Raises:
            UsageError: when one does not fit.
        """
        numbers = {
            "k": self.k,
            "n_startup_trials": self.n_startup_trials,
            "neighbours": self.neighbours,
            "ensemble": self.ensemble,
        }
        for name, number in {**numbers, "trials": self.trials, "workers": self.workers}.items():
            if number is not None:
                check_count(name, number)
        if self.ensemble > 1 and self.save_model is None:
            msg = f"expected `save_model` beside it, got none and {self.ensemble} networks. Name the file that gets them, or leave it out."
            raise UsageError(msg, param="ensemble")
        is_endless = self.timeout is None and self.time is None
        return Limits(
            self.trials or (TRIALS if is_endless else math.inf),
            time.monotonic() + parse_time(self.timeout, param="timeout"),
            math.inf if self.trial_timeout is None else parse_time(self.trial_timeout, param="trial_timeout"),
            memory_bytes(self.trial_memory),
        )

    def check_time(self, *, datasets: int = 1, server: bool = False) -> float:
        """Return the seconds that a whole call has; infinite where it has no such limit.

        Raises:
            UsageError: it is no length of time, or stands beside what it does not fit.
        """
        seconds = parse_time(self.time, param="time")
        if self.time is None:
            return seconds
        refused = {
            "`timeout`, which begins no trial after a while": self.timeout is not None,
            "a server, which does not know how fast this machine is": server,
            "several datasets": datasets > 1,
            "Ray, whose machines differ": self.cluster is not None,
        }
        for what, is_given in refused.items():
            if is_given:
                msg = f"expected no `time`, which is for the whole command, beside {what}, got both. Leave one of the two out."
                raise UsageError(msg, param="time")
        return seconds

    def plan(
        self,
        dataset: str | None,
        known: StudySpec | None,
        *,
        query: Query | None = None,
        members: tuple[str, ...] = (),
        split: Split = "equal",
    ) -> StudySpec:
        """Plan the study of a dataset.

        Args:
            dataset: path.
            known: the plan that the study has already.
            query: what `open` made of it.
            members: names of the studies that are tuned together.
            split: how these share their trials.

        Raises:
            UsageError: when something does not fit.
            WarmstartError: a dataset, a space or a history that cannot be read.
        """
        check_warm(self.warm)
        if self.strategy is not None and self.strategy not in STRATEGIES:
            msg = f"expected one of {', '.join(STRATEGIES)}, got {self.strategy!r}. Leave it out for the default."
            raise UsageError(msg, param="strategy", given=self.strategy, choices=STRATEGIES)
        counts: Warm = self.warm if dataset is not None or self.initial else "none"
        _check_space(self.space, self._own_workload())
        space = _space_text(self.space, known, self.history, workload=self._own_workload())
        plan = StudySpec(
            space=space,
            objective=_objective_text(self.objective, self.command, self.workload, self.target_budget),
            dataset=dataset,
            fingerprint=dataset if query is None else query.fingerprint,
            folder=str(Path.cwd()),
            skip_broken=self.skip_broken,
            device=self.device,
            members=members,
            split=split,
            **pick_from(Search, self),
            **pick_from(WarmStart, self) | {"warm": counts, "initial": self._initial(space, is_new=known is None)},
        )
        plan.sampler()  # a wrong name is told before anything is written
        return plan

    def _own_workload(self) -> str | None:
        """Name the workload that is tuned; None where the objective is a person's own."""
        return None if self.objective is not None or self.command is not None else self.workload

    def _initial(self, space: str, *, is_new: bool) -> tuple[Mapping[str, Any], ...]:
        """Read the configurations to begin with, and put them into the space; what was done is told of a new study."""
        if not self.initial:
            return ()
        from warmstart.suggestions.initial_configs import convert_initial, read_initial

        configs = read_initial(self.initial)
        found = convert_initial(load_space(space), configs, rename=dict(self.rename), seed=self.seed)
        for note in found.notes if is_new else ():
            self.on_message(note)
        return found.configs

    def target(self, plan: StudySpec) -> Objective:
        """Load what a study evaluates.

        Raises:
            UsageError: when it cannot be loaded.
        """
        found = load_objective(
            self.objective,
            names=list(load_space(plan.space)),
            command=self.command,
            dataset=plan.dataset,
            workload=self.workload,
            target_budget=self.target_budget,
            device=self.device,
            folder=Path.cwd(),
        )
        if self.objective is None and self.command is None:
            get_workload(self.workload).check_space(load_space(plan.space))
        return measured(without_broken(found) if plan.skip_broken else found, plan.measure)

    def complete(self, plan: StudySpec, query: Query | None = None, *, timed: TimedCall | None = None) -> StudySpec:
        """Ask the history for a new study, whose dataset may be open already; raises as `ask_history`."""
        if timed is not None and self.k != WarmStart.k:
            msg = f"expected no `k` beside `time`, got {self.k}: the plan decides how many configurations fit. Leave one of the two out."
            raise UsageError(msg, param="k")
        return ask_history(plan, sources=self.sources, on_message=self.on_message, query=query, timed=timed)

    @property
    def sources(self) -> Sources:
        """Return where what is known comes from."""
        return Sources(**pick_from(Sources, self))

    def open(self, dataset: str | None) -> Query | None:
        """Open the dataset of a study; None where its path alone stands for it, whatever it is.

        Raises:
            WarmstartError: a dataset that cannot be read.
        """
        is_own = self.objective is not None or self.command is not None
        is_asked = self.warm != "none" and not self.initial
        if dataset is None or (is_own and not is_asked and AUTO not in self.related and self.pruner != "history"):
            return None
        from warmstart.suggestions.query import open_query

        return open_query(dataset, download=self.download)

    def name(self, dataset: str | None) -> str:
        """Name a study after what is tuned on what.

        Raises:
            UsageError: when there is neither.
        """
        return default_name(dataset, self.objective, self.command)


def check_count(name: str, number: int) -> None:
    """Check a number of things.

    Raises:
        UsageError: when it is no whole number above 0.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        msg = f"expected a whole number of at least 1, got {number!r}. Leave it out for the default."
        raise UsageError(msg, param=name)


def memory_bytes(text: str | int | None) -> int | None:
    """Read an amount of memory: bytes, or a text like ``4G``, ``512M``."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)i?B?", str(text).strip())
    found = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")) if match else 0
    if found < 1:
        msg = f"expected an amount of memory above 0, got {text!r}. Write 4G, 512M or a number of bytes."
        raise UsageError(msg, param="trial_memory")
    return found


def default_name(dataset: str | None, objective: str | Callable[..., object] | None, command: str | None) -> str:
    """Name a study after what is tuned on what."""
    words = command.split() if command else []
    what = next((word for word in words if not Path(word).name.startswith("python")), None)
    if objective is not None:
        what = objective if isinstance(objective, str) else getattr(objective, "__qualname__", type(objective).__name__)
    parts = [Path(part).name for part in (dataset, what) if part]
    name = re.sub(r"[^\w.]+", "-", "-".join(parts)).strip("-")
    if not name:
        msg = "tune: expected `dataset`, `objective` or `command`, got none of them. Give `dataset` to tune a network of a workload on it."
        raise UsageError(msg)
    return name


def dataset_labels(paths: Sequence[str]) -> list[str]:
    """Name datasets by the ends of their paths, and where these are the same by all of the path too."""
    ends = [default_name(path, None, None) for path in paths]
    return [
        end if ends.count(end) == 1 else f"{end}-{zlib.crc32(os.fsencode(path)):08x}"
        for end, path in zip(ends, paths, strict=True)
    ]


def with_label(path: Path, label: str) -> Path:
    """Name a file for one of several datasets."""
    return path.with_stem(f"{path.stem}-{label}")


def _objective_text(
    objective: str | Callable[..., object] | None, command: str | None, workload: str, target_budget: str | None
) -> dict[str, str | None]:
    """Say what is evaluated, as the study keeps it."""
    if objective is not None and not isinstance(objective, str):
        name = getattr(objective, "__qualname__", type(objective).__qualname__)
        objective = f"{getattr(objective, '__module__', '')}:{name}"
    if objective is not None or command is not None:
        return {"function": objective, "command": command, "workload": None, "target_budget": None}
    budget = target_budget or get_workload(workload).budgets[0]
    return {"function": None, "command": None, "workload": workload, "target_budget": budget}


def _check_space(space: SpaceLike | None, workload: str | None) -> None:
    """Refuse a space that is named by another workload than the one that is tuned.

    Raises:
        UsageError: naming both.
    """
    named = workload_named_by(space)
    if None not in (named, workload) and named != workload:
        msg = f"expected a space of the workload {workload!r}, got {space!r}. Give `workload` {named}."
        raise UsageError(msg, param="space")


def _space_text(
    space: SpaceLike | None, known: StudySpec | None, history: PathLike | None, *, workload: str | None
) -> str:
    """Return the space that was named, else the study's, else the history's; where that is none of the workload's, its usual one."""
    from warmstart.spaces import space_text

    if space is not None:
        return space_text(space)
    if known is not None:
        return known.space
    path = history_path(history, workload=workload)
    found = glance(path).space_json
    if workload == DEFAULT and not measures(found, DEFAULT):
        other = next((name for name in WORKLOADS if measures(found, name)), None)
        if other is not None:
            msg = f"expected the workload that {path} measured, {other}, got {DEFAULT}, which is meant where none is named. Give `workload` {other}, or name a `space`."
            raise UsageError(msg, param="workload")
    if workload in (None, DEFAULT) or measures(found, workload):
        return found
    return dump_space(get_workload(workload).space())
