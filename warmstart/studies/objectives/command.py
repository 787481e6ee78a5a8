"""Objective by a command: hyperparameters through placeholders, the result as JSON on the last line."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from warmstart.history_store import system
from warmstart.history_store.errors import UsageError
from warmstart.history_store.quoting import in_line
from warmstart.history_store.records import Config
from warmstart.history_store.space import natural
from warmstart.studies.objectives.base import FOLDER, TRIAL, Report, TrialStatus
from warmstart.studies.objectives.metric import PLAIN, Metric
from warmstart.studies.objectives.metric_reader import MetricReader
from warmstart.studies.objectives.printed import printed_lines
from warmstart.training.processes.memory import says_out_of_memory
from warmstart.training.processes.supervisor import Supervised, describe_end

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
TRIAL_VALUES = ("seed", "budget", "dataset", "config")
"""Names of a trial's values, as in `warmstart.seed`, or `seed` if no hyperparameter has that name."""
_TRIAL_PREFIX, _SPACE_PREFIX = "warmstart.", "space."
DIR = f"{_TRIAL_PREFIX}dir"
ENVIRONMENT = {f"{_TRIAL_PREFIX}trial": TRIAL, DIR: FOLDER}
"""Placeholders of a trial that has a number and a folder, and its environment variables."""
_LOG = "log10_"
_SHELL = re.compile(r"""[|&;]+$|[^'"].*;$|[\d&]?[<>]|~/|"?(\$[(A-Za-z_]|`)""")
"""A word that only a shell understands: an operator, a redirection, `~/`, a variable, `$(...)`."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BUILTINS = frozenset({"cd", "export", "source", ".", "set", "ulimit", "eval", "exec"})
_LIVE_OUTPUT = {"PYTHONUNBUFFERED": "1", "TTY_COMPATIBLE": "1", "COLUMNS": "200"}
"""Output without a buffer; bars of rich, as of Lightning, in whole lines while they move: a pipe would get the last one alone."""
LISTEN_S = 10.0
"""Seconds for reading the rest of stderr after a command ended."""


def placeholders(command: str) -> list[str]:
    """Return the names in braces of a command, in their order."""
    return _PLACEHOLDER.findall(command)


@dataclass(slots=True)
class CommandObjective:
    """Objective that runs a command, without a shell, with the configuration in its arguments.

    A placeholder is ``{name}`` of a hyperparameter, or ``{learning_rate}`` for the natural value of a
    ``log10_learning_rate``; ``{warmstart.seed}``, ``{warmstart.dataset}``, ``{warmstart.budget}``, or
    ``{warmstart.config}`` for all hyperparameters as JSON. ``{seed}`` and the other short forms mean the latter unless the
    space has a hyperparameter of that name: then ``{space.seed}`` is the hyperparameter, and ``{seed}`` is refused.
    ``{warmstart.trial}`` and ``{warmstart.dir}`` are the number and the folder of the trial.
    Other braces stay. An argument whose placeholder has no value, because the hyperparameter is inactive or the trial
    has no budget, is left out; so is an option before it, where the argument is the placeholder alone.

    The command prints JSON lines: ``{"step": 3, "error": 0.4}`` is a report; the last line is the result, a number or
    an object with ``error``. Its exit code is 0 on success.

    Attributes:
        command: as typed in a shell.
        names: of the hyperparameters.
        dataset: value of ``{warmstart.dataset}``.
        metric: that the command prints or writes.
    """

    command: str
    names: Collection[str]
    dataset: str | None = None
    metric: Metric = PLAIN
    _words: list[str] = field(init=False, repr=False)
    _is_percent: bool | None = field(init=False, repr=False, default=None)

    single_use: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the command against the hyperparameters.

        Raises:
            UsageError: open quotes, a missing or unknown placeholder, or a program that does not exist.
        """
        system.check_process_trees()
        try:
            self._words = shlex.split(self.command)
        except ValueError as error:
            msg = f"expected a command as typed in a shell, got {self.command!r}, whose quotes or backslash stay open. Close them."
            raise UsageError(msg, param="command") from error
        _check_no_shell(self.command)
        used = {name for word in self._words for name in _PLACEHOLDER.findall(word)}
        self._check_names(used)
        unused = [name for name in self.names if not {*_spellings(name), "config", f"{_TRIAL_PREFIX}config"} & used]
        if unused:
            bare = unused[0].removeprefix(_LOG)
            spelling = f"{_SPACE_PREFIX}{bare}" if bare in TRIAL_VALUES else bare
            placeholder = f"{{{spelling}}}" if len(spelling.split()) == 1 else f"'{{{spelling}}}' in quotes"
            msg = f"expected a placeholder for every hyperparameter, got none for {', '.join(unused)}. Add {placeholder}, or {{{_TRIAL_PREFIX}config}} for all as JSON."
            raise UsageError(msg, param="command")
        if self.dataset is None and (short := {"dataset", f"{_TRIAL_PREFIX}dataset"} & used - set(self.names)):
            msg = f"{{{min(short)}}} needs `dataset`."
            raise UsageError(msg, param="command")
        if not self._words or (not _PLACEHOLDER.search(self._words[0]) and shutil.which(self._words[0]) is None):
            msg = f"expected a program that can be run, got {''.join(self._words[:1])!r}. Check its name and path."
            raise UsageError(msg, param="command")

    def _check_names(self, used: Collection[str]) -> None:
        """Check that every placeholder is known and unambiguous."""
        spelled = {spelling for name in self.names for spelling in _spellings(name)}
        if reserved := [
            name
            for name in self.names
            if name in ENVIRONMENT
            or (name.startswith(_TRIAL_PREFIX) and name.removeprefix(_TRIAL_PREFIX) in TRIAL_VALUES)
        ]:
            msg = f"expected no hyperparameter that is named like {{{reserved[0]}}} of the trial, got one. Give it another name in the space."
            raise UsageError(msg, param="command")
        if ambiguous := [name for name in TRIAL_VALUES if name in used and name in spelled]:
            name = ambiguous[0]
            msg = f"expected {{{_TRIAL_PREFIX}{name}}} for the trial's {name} or {{{_SPACE_PREFIX}{name}}} for the hyperparameter of that name, got {{{name}}}, which may be either. Write the one that you mean."
            raise UsageError(msg, param="command")
        valid = {*spelled, *TRIAL_VALUES, *ENVIRONMENT, *(f"{_TRIAL_PREFIX}{name}" for name in TRIAL_VALUES)}
        placeholders = (name for name in used if name.isidentifier() or name.startswith((_TRIAL_PREFIX, _SPACE_PREFIX)))
        if unknown := sorted(name for name in placeholders if name not in valid):
            choices = sorted(name for name in valid if not name.startswith(_SPACE_PREFIX))
            msg = f"expected placeholders among {', '.join(choices)}, got {{{unknown[0]}}}. Correct its name."
            raise UsageError(msg, param="command", given=unknown[0], choices=choices)

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Run the command; raises `Pruned` from a report."""
        values = self._values(config, seed, budget)
        words, reader = fill_placeholders(self._words, values, self.names), self._reader(values)
        env = os.environ | _LIVE_OUTPUT
        process = Supervised(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        last_error, no_memory = deque[str](maxlen=1), deque[str](maxlen=1)

        def listen() -> None:
            for line in printed_lines(process.process.stderr, sys.stderr):
                last_error.append(line)
                if says_out_of_memory(line):
                    no_memory.append(line)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            for line in printed_lines(process.process.stdout, sys.stdout):
                if says_out_of_memory(line):
                    no_memory.append(line)
                if (pair := reader.read(line)) is not None:
                    _report_pair(pair, line, report, label="an error" if self.metric.is_plain else "a metric")
            if reader.named is not None and reader.named.is_percent is not None:
                self._is_percent = reader.named.is_percent
            code = process.wait()
            listener.join(LISTEN_S)
        finally:
            process.end()
        if code:
            status = TrialStatus.OOM if no_memory else TrialStatus.KILLED if code < 0 else TrialStatus.CRASHED
            note = ": ".join([f"{words[0]} {describe_end(code)}", *(no_memory or last_error)])
            return {"status": status, "note": note}
        return reader.result()

    def _reader(self, values: Mapping[str, str]) -> MetricReader:
        """Return a reader of the metric; the path of its file may have placeholders."""
        file = self.metric.file
        return MetricReader(
            self.metric,
            None if file is None else Path("".join(fill_placeholders([file[0]], values, self.names)) or file[0]),
            was_percent=self._is_percent,
        )

    def _values(self, config: Config, seed: int, budget: float | None) -> dict[str, str]:
        """Return the text of every placeholder that has a value."""
        environment = {name: os.environ.get(variable) for name, variable in ENVIRONMENT.items()}
        values = argument_values(config, seed=seed, budget=budget, dataset=self.dataset)
        return values | {name: in_argument(value) for name, value in environment.items() if value is not None}


def argument_values(config: Config, *, seed: int, budget: float | None, dataset: str | None) -> dict[str, str]:
    """Return the text of every placeholder of a trial that has a value, but for its number and its folder."""
    hyperparameters = natural(config) | dict(config)
    amount = int(budget) if budget is not None and budget == int(budget) else budget
    trial = {"config": json.dumps(hyperparameters), "seed": seed, "dataset": dataset, "budget": amount}
    values: dict[str, Any] = {f"{_SPACE_PREFIX}{name}": value for name, value in hyperparameters.items()}
    values |= trial | hyperparameters | {f"{_TRIAL_PREFIX}{name}": value for name, value in trial.items()}
    return {name: in_argument(value) for name, value in values.items() if value is not None}


def in_argument(value: object) -> str:
    """Write a value on a command line; argparse takes a negative number with an exponent for an option."""
    if isinstance(value, float) and value < 0 and "e" in repr(value):
        return np.format_float_positional(value, trim="0")
    return str(value)


def _check_no_shell(command: str) -> None:
    """Check that a command has no shell syntax: operators, variables before the program, built-in commands."""
    try:
        words = shlex.split(command, posix=False)  # with their quotes
    except ValueError:  # an apostrophe inside a word
        return
    shells = [word for word in words if _SHELL.match(word)]
    if words and (_ASSIGNMENT.match(words[0]) or (words[0] in _BUILTINS and shutil.which(words[0]) is None)):
        shells.insert(0, words[0])
    if shells:
        msg = f"expected a program and its arguments, got {shells[0]!r}, which only a shell understands: commands run without one. Write bash -c '...' around them."
        raise UsageError(msg, param="command")


def _spellings(name: str) -> tuple[str, ...]:
    """Return the placeholders of a hyperparameter: its value and its natural value."""
    bare = name.removeprefix(_LOG)
    return name, bare, f"{_SPACE_PREFIX}{name}", f"{_SPACE_PREFIX}{bare}"


def fill_placeholders(words: list[str], values: Mapping[str, str], names: Collection[str] = ()) -> list[str]:
    """Fill the placeholders of a command; see `CommandObjective` for those without a value.

    Args:
        words: of the command.
        values: text by placeholder.
        names: of hyperparameters; any of them, and any identifier, is a placeholder.
    """
    filled: list[str] = []
    follows_option = False
    for word in words:
        placeholders = [name for name in _PLACEHOLDER.findall(word) if name in values or _is_placeholder(name, names)]
        if all(name in values for name in placeholders):
            filled.append(_PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word))
        elif _PLACEHOLDER.fullmatch(word) and follows_option:
            filled.pop()
        follows_option = word.startswith("-") and not placeholders
    return filled


def _is_placeholder(name: str, names: Collection[str]) -> bool:
    return name.isidentifier() or name in names or name.startswith((_TRIAL_PREFIX, _SPACE_PREFIX))


def _report_pair(pair: tuple[object, object], line: str, report: Report, *, label: str) -> None:
    """Report a step and its value; if they are no numbers, write their line to the log."""
    step, value = (_to_number(number) for number in pair)
    if step is None or value is None:
        sys.stderr.write(
            f"warmstart: no report: expected a step and {label} that are numbers, got {in_line(line[:80])}\n"
        )
        return
    report(step, value)


def _to_number(value: object) -> float | None:
    """Return a JSON value as a number, also from text, as a shell writes it; None if it is no number."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # what it cannot take, it says
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None
