"""An objective that is a command: placeholders in, JSON on its last line out."""

from __future__ import annotations

import io
import json
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
from typing import IO, Any, ClassVar, TextIO

from history_store.errors import UsageError
from history_store.records import Config
from history_store.space import natural
from training.supervisor import Supervised, describe_end
from warmstart.studies.objective import Report, TrialStatus

_PLACE = re.compile(r"\{([^{}]+)\}")
_EXTRA = ("config", "seed", "dataset", "budget")
_LOG = "log10_"
LISTEN_S = 1.0


@dataclass(slots=True)
class CommandObjective:
    """Runs a command, without a shell, with the configuration in its arguments.

    A placeholder is ``{name}`` of a hyperparameter, ``{learning_rate}`` for the natural value of a
    ``log10_learning_rate``, ``{seed}``, ``{dataset}``, ``{budget}``, or ``{config}`` for all hyperparameters as JSON.
    Other braces stay. An argument whose placeholder has no value, because the hyperparameter is inactive or the trial
    has no budget, is left out; so is an option before it, where the argument is the placeholder alone.

    The command prints JSON lines: ``{"step": 3, "error": 0.4}`` is a report; the last line is the result, a number or
    an object with ``error``. Its exit code is 0 where it went well.

    Attributes:
        command: as typed in a shell.
        names: of the hyperparameters.
        dataset: what ``{dataset}`` stands for.
    """

    command: str
    names: Collection[str]
    dataset: str | None = None
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
            msg = f"expected a command as typed in a shell, got {self.command!r} ({error}). Close its quotes."
            raise UsageError(msg, param="command") from error
        known = {*self.names, *(name.removeprefix(_LOG) for name in self.names), *_EXTRA}
        used = {name for word in self._words for name in _PLACE.findall(word)}
        unknown = sorted(name for name in used - known if name.isidentifier())
        if unknown:
            msg = f"expected placeholders among {', '.join(sorted(known))}, got {{{unknown[0]}}}. Correct its name."
            raise UsageError(msg, param="command")
        unused = [name for name in self.names if not {name, name.removeprefix(_LOG), "config"} & used]
        if unused:
            msg = f"expected a placeholder for every hyperparameter, got none for {', '.join(unused)}. Add {{{unused[0].removeprefix(_LOG)}}}, or {{config}} for all as JSON."
            raise UsageError(msg, param="command")
        if "dataset" in used and self.dataset is None:
            msg = "expected a dataset for {dataset}, got none. Give `dataset`."
            raise UsageError(msg, param="command")
        if not self._words or (not _PLACE.search(self._words[0]) and shutil.which(self._words[0]) is None):
            msg = f"expected a program that can be run, got {''.join(self._words[:1])!r}. Check its name and path."
            raise UsageError(msg, param="command")

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Run the command; raises `Pruned` where a report is answered by it."""
        words = fill(self._words, self._values(config, seed, budget))
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
                _pass_on(line, report)
            code = process.wait()
            listener.join(LISTEN_S)
        finally:
            process.end()
        if code:
            status = TrialStatus.KILLED if code < 0 else TrialStatus.CRASHED
            note = ": ".join([f"{words[0]} {describe_end(code)}", *said])
            return {"status": status, "note": note}
        return _result(last)

    def _values(self, config: Config, seed: int, budget: float | None) -> dict[str, str]:
        """Give the text of every placeholder that has a value."""
        own = natural(config) | dict(config)
        values: dict[str, Any] = own | {"config": json.dumps(own), "seed": seed, "dataset": self.dataset}
        values["budget"] = int(budget) if budget is not None and budget == int(budget) else budget
        return {name: str(value) for name, value in values.items() if value is not None}


def fill(words: list[str], values: Mapping[str, str]) -> list[str]:
    """Put values into the placeholders of a command; see `CommandObjective` for those without one."""
    filled: list[str] = []
    for word in words:
        places = [name for name in _PLACE.findall(word) if name in values or name.isidentifier()]
        if all(name in values for name in places):
            filled.append(_PLACE.sub(lambda place: values.get(place[1], place[0]), word))
        elif _PLACE.fullmatch(word) and filled and filled[-1].startswith("-"):
            filled.pop()
    return filled


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
        step, error = (float(json.loads(line)[key]) for key in ("step", "error"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    report(step, error)


def _result(line: str) -> object:
    try:
        result = json.loads(line)
    except (ValueError, RecursionError):
        got = repr(line[:80]) if line else "no line"
        note = f"expected the error as JSON on the last line of its output, got {got}"
        return {"status": TrialStatus.FAILED, "note": note}
    if isinstance(result, dict):
        result.pop("step", None)
    return result
