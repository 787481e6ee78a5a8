"""An objective that is a command: placeholders in, JSON on its last line out."""

from __future__ import annotations

import io
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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, TextIO

from warmstart.history_store.errors import UsageError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.records import Config
from warmstart.history_store.space import natural
from warmstart.studies.objectives.base import Report, TrialStatus
from warmstart.studies.objectives.metric import LAST_HINT, NUMBER, Metric, MetricReader
from warmstart.training.processes.supervisor import Supervised, describe_end

_PLACE = re.compile(r"\{([^{}]+)\}")
OWN = ("seed", "budget", "dataset", "config")
"""What a placeholder stands for besides hyperparameters, as `warmstart.seed`, or `seed` where no hyperparameter has that name."""
_OF_TRIAL, _OF_SPACE = "warmstart.", "space."
_LOG = "log10_"
_OPERATORS = frozenset({"&&", "||", "|", ";", ">", ">>", "<", "2>", "2>&1", "&>", "&"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BUILTINS = frozenset({"cd", "export", "source", ".", "set", "ulimit", "eval", "exec"})
LISTEN_S = 10.0
"""Seconds within which all that an ended command wrote to stderr must have been read."""


@dataclass(slots=True)
class CommandObjective:
    """Runs a command, without a shell, with the configuration in its arguments.

    A placeholder is ``{name}`` of a hyperparameter, or ``{learning_rate}`` for the natural value of a
    ``log10_learning_rate``; ``{warmstart.seed}``, ``{warmstart.dataset}``, ``{warmstart.budget}``, or
    ``{warmstart.config}`` for all hyperparameters as JSON. ``{seed}`` and the other short forms mean the latter unless the
    space has a hyperparameter of that name: then ``{space.seed}`` is the hyperparameter, and ``{seed}`` is refused.
    Other braces stay. An argument whose placeholder has no value, because the hyperparameter is inactive or the trial
    has no budget, is left out; so is an option before it, where the argument is the placeholder alone.

    The command prints JSON lines: ``{"step": 3, "error": 0.4}`` is a report; the last line is the result, a number or
    an object with ``error``. Its exit code is 0 where it went well.

    Attributes:
        command: as typed in a shell.
        names: of the hyperparameters.
        dataset: what ``{warmstart.dataset}`` stands for.
        metric: that the command prints or writes, where that is no error in JSON.
    """

    command: str
    names: Collection[str]
    dataset: str | None = None
    metric: Metric | None = None
    _words: list[str] = field(init=False, repr=False)

    single_use: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the command against the hyperparameters.

        Raises:
            UsageError: when it cannot be read, names something else or not all, or its program is not there.
        """
        try:
            self._words = shlex.split(self.command)
        except ValueError as error:
            msg = f"expected a command as typed in a shell, got {self.command!r}, whose quotes or backslash stay open. Close them."
            raise UsageError(msg, param="command") from error
        _check_no_shell(self.command)
        used = {name for word in self._words for name in _PLACE.findall(word)}
        self._check_names(used)
        unused = [name for name in self.names if not {*_spellings(name), "config", f"{_OF_TRIAL}config"} & used]
        if unused:
            bare = unused[0].removeprefix(_LOG)
            own = f"{_OF_SPACE}{bare}" if bare in OWN else bare
            place = f"{{{own}}}" if len(own.split()) == 1 else f"'{{{own}}}' in quotes"
            msg = f"expected a placeholder for every hyperparameter, got none for {', '.join(unused)}. Add {place}, or {{{_OF_TRIAL}config}} for all as JSON."
            raise UsageError(msg, param="command")
        if self.dataset is None and (short := {"dataset", f"{_OF_TRIAL}dataset"} & used - set(self.names)):
            msg = f"expected a dataset for {{{min(short)}}}, got none. Give `dataset`."
            raise UsageError(msg, param="command")
        if not self._words or (not _PLACE.search(self._words[0]) and shutil.which(self._words[0]) is None):
            msg = f"expected a program that can be run, got {''.join(self._words[:1])!r}. Check its name and path."
            raise UsageError(msg, param="command")

    def _check_names(self, used: Collection[str]) -> None:
        """Refuse placeholders that stand for nothing, or for two things."""
        spelled = {each for name in self.names for each in _spellings(name)}
        if taken := [name for name in self.names if name.startswith(_OF_TRIAL) and name.removeprefix(_OF_TRIAL) in OWN]:
            msg = f"expected no hyperparameter that is named like {{{taken[0]}}} of the trial, got one. Give it another name in the space."
            raise UsageError(msg, param="command")
        if both := [name for name in OWN if name in used and name in spelled]:
            name = both[0]
            msg = f"expected {{{_OF_TRIAL}{name}}} for the trial's {name} or {{{_OF_SPACE}{name}}} for the hyperparameter of that name, got {{{name}}}, which may be either. Write the one that you mean."
            raise UsageError(msg, param="command")
        known = {*spelled, *OWN, *(f"{_OF_TRIAL}{name}" for name in OWN)}
        mine = (name for name in used if name.isidentifier() or name.startswith((_OF_TRIAL, _OF_SPACE)))
        if unknown := sorted(name for name in mine if name not in known):
            shown = sorted(name for name in known if not name.startswith(_OF_SPACE))
            msg = f"expected placeholders among {', '.join(shown)}, got {{{unknown[0]}}}. Correct its name."
            raise UsageError(msg, param="command", given=unknown[0], choices=shown)

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Run the command; raises `Pruned` where a report is answered by it."""
        values = self._values(config, seed, budget)
        words, reader = fill(self._words, values, self.names), self._reader(values)
        # Python's output would wait in a buffer, and the reports with it.
        env = os.environ | {"PYTHONUNBUFFERED": "1"}
        process = Supervised(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        said: deque[str] = deque(maxlen=1)
        listener = threading.Thread(target=lambda: said.extend(_copy(process.process.stderr, sys.stderr)), daemon=True)
        listener.start()
        last = ""
        try:
            for line in _copy(process.process.stdout, sys.stdout):
                last = line
                _pass_on(line, report) if reader is None else _read(line, reader, report)
            code = process.wait()
            listener.join(LISTEN_S)
        finally:
            process.end()
        if code:
            status = TrialStatus.KILLED if code < 0 else TrialStatus.CRASHED
            note = ": ".join([f"{words[0]} {describe_end(code)}", *said])
            return {"status": status, "note": note}
        return _result(last) if reader is None else reader.result()

    def _reader(self, values: Mapping[str, str]) -> MetricReader | None:
        """Begin to look for the metric, in a file whose path may have placeholders too."""
        if self.metric is None:
            return None
        file = self.metric.file
        return MetricReader(
            self.metric, None if file is None else Path("".join(fill([file[0]], values, self.names)) or file[0])
        )

    def _values(self, config: Config, seed: int, budget: float | None) -> dict[str, str]:
        """Return the text of every placeholder that has a value."""
        own = natural(config) | dict(config)
        whole = int(budget) if budget is not None and budget == int(budget) else budget
        trial = {"config": json.dumps(own), "seed": seed, "dataset": self.dataset, "budget": whole}
        values: dict[str, Any] = {f"{_OF_SPACE}{name}": value for name, value in own.items()}
        values |= trial | own | {f"{_OF_TRIAL}{name}": value for name, value in trial.items()}
        return {name: str(value) for name, value in values.items() if value is not None}


def _check_no_shell(command: str) -> None:
    """Refuse what only a shell understands: operators outside quotes, variables before the program, commands of its own."""
    try:
        words = shlex.split(command, posix=False)  # with their quotes
    except ValueError:  # an apostrophe inside a word
        return
    shells = [word for word in words if word in _OPERATORS or (word.endswith(";") and word[0] not in "'\"")]
    if words and (_ASSIGNMENT.match(words[0]) or (words[0] in _BUILTINS and shutil.which(words[0]) is None)):
        shells.insert(0, words[0])
    if shells:
        msg = f"expected a program and its arguments, got {shells[0]!r}, which only a shell understands: commands run without one. Write bash -c '...' around them."
        raise UsageError(msg, param="command")


def _spellings(name: str) -> tuple[str, ...]:
    """List the placeholders of a hyperparameter: its value and its natural value."""
    bare = name.removeprefix(_LOG)
    return name, bare, f"{_OF_SPACE}{name}", f"{_OF_SPACE}{bare}"


def fill(words: list[str], values: Mapping[str, str], names: Collection[str] = ()) -> list[str]:
    """Put values into the placeholders of a command; see `CommandObjective` for those without one.

    Args:
        words: of the command.
        values: text by placeholder.
        names: of hyperparameters; any of them, and any identifier, is a placeholder.
    """
    filled: list[str] = []
    follows_option = False
    for word in words:
        places = [name for name in _PLACE.findall(word) if name in values or _is_place(name, names)]
        if all(name in values for name in places):
            filled.append(_PLACE.sub(lambda place: values.get(place[1], place[0]), word))
        elif _PLACE.fullmatch(word) and follows_option:
            filled.pop()
        follows_option = word.startswith("-") and not places
    return filled


def _is_place(name: str, names: Collection[str]) -> bool:
    return name.isidentifier() or name in names or name.startswith((_OF_TRIAL, _OF_SPACE))


def _copy(stream: IO[bytes] | None, log: TextIO) -> Iterator[str]:
    """Copy lines into the log of the trial, and give those that are not empty."""
    assert stream is not None  # noqa: S101  a pipe
    with io.TextIOWrapper(stream, errors="replace") as lines:
        for line in lines:
            log.write(line)
            if line.strip():
                yield line.strip()


def _pass_on(line: str, report: Report) -> None:
    """Report what a line says of a step."""
    if not line.startswith("{"):
        return
    try:
        said = parse_json(line)
        given = said["step"], said["error"]
    except (ValueError, KeyError, RecursionError):
        return
    _report(given, line, report, what="an error")


def _report(given: tuple[object, object], line: str, report: Report, *, what: str) -> None:
    """Report a step and what it came to; where they are no numbers, their line is named in the log."""
    step, value = (_number_in(each) for each in given)
    if step is None or value is None:
        sys.stderr.write(f"warmstart: no report: expected a step and {what} that are numbers, got {line[:80]}\n")
        return
    report(step, value)


def _number_in(given: object) -> float | None:
    """Return a number of JSON, or of a text in it as a shell writes it; None where there is none."""
    if isinstance(given, bool):
        return None
    try:
        return float(given)  # type: ignore[arg-type]  # what it cannot take, it says
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def _read(line: str, reader: MetricReader, report: Report) -> None:
    """Look for the metric in a line, and report it where it says of a step."""
    given = reader.read(line)
    if given is not None:
        _report(given, line, report, what="a metric")


def _result(line: str) -> object:
    try:
        result = parse_json(line)
    except (ValueError, RecursionError):
        got = repr(line[:80]) if line else "no line"
        note = f"expected the error as JSON on the last line of its output, got {got}"
        if NUMBER.search(line):
            note += f"; {LAST_HINT}"
        return {"status": TrialStatus.FAILED, "note": note}
    if isinstance(result, dict):
        result.pop("step", None)
    return result
