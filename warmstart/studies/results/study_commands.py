"""Command lines of a study: to go on with it, and to run its best configuration."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from warmstart.option import options_of
from warmstart.studies.objectives.command import argument_values, fill_placeholders
from warmstart.studies.options import Search, WarmStart

if TYPE_CHECKING:
    from warmstart.studies.results.study_record import StudyRecord
    from warmstart.studies.results.trial import Trial
    from warmstart.studies.state.spec import StudySpec

SPACE_FILE = "space.json"
"""File of the space in a command line to go on."""
_METRIC = ("metric", "maximize", "scale")


def command_of_trial(record: StudyRecord, trial: Trial) -> str | None:
    """Return the command of a trial as typed in a shell; None of a study without one."""
    plan = record.plan
    if plan is None or not plan.objective.get("command"):
        return None
    values = argument_values(trial.config, seed=trial.seed, budget=plan.budget, dataset=plan.dataset)
    try:
        words = shlex.split(str(plan.objective["command"]))
    except ValueError:  # an open quote, in the study of a client
        return None
    return shlex.join(fill_placeholders(words, values, list(trial.config)))


def command_to_go_on(record: StudyRecord, server: str) -> str | None:
    """Return the command line that goes on with a study; None where no command line began it.

    Args:
        record: the study.
        server: address of the one that has it.
    """
    plan = record.plan
    if plan is None or plan.members or plan.initial:
        return None
    words = ["warmstart", "tune", *([] if plan.dataset is None else [plan.dataset])]
    objective = plan.objective
    if objective.get("command"):
        words += ["--command", str(objective["command"]), "--space", SPACE_FILE]
    elif objective.get("function") not in (None, "remote"):
        words += ["--objective", str(objective["function"]), "--space", SPACE_FILE]
    elif plan.workload is not None:
        words += ["--workload", plan.workload]
    else:
        return None
    return shlex.join([*words, *_metric(plan), *_options(plan), "--study", record.name, "--server", server])


def _metric(plan: StudySpec) -> Iterator[str]:
    """Yield the options of a metric."""
    if plan.measure.printed_name is not None:
        yield from ("--score" if plan.maximize else "--loss", plan.measure.printed_name)
    elif plan.metric is not None:
        yield from ("--metric", plan.metric)
        yield from ["--maximize"] if plan.maximize else []
    elif plan.maximize:
        yield "--maximize"
    if plan.scale is not None:
        yield from ("--scale", plan.scale)


def _options(plan: StudySpec) -> Iterator[str]:
    """Yield the other options of the search and the warm start that are not as usual."""
    usual = {item.name: item.default for group in (Search, WarmStart) for item in fields(group)}
    for item, option in (*options_of(Search), *options_of(WarmStart)):
        value = getattr(plan, item.name)
        if item.name in _METRIC or value == usual[item.name]:
            continue
        flag = next(iter(option.flags), f"--{item.name.replace('_', '-')}")
        for single in value if isinstance(value, tuple) else (value,):
            yield from (flag, "=".join(single) if isinstance(single, tuple) else str(single))
