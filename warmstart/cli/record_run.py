"""`history record`, with a parser of plain calls: loading Typer takes longer than recording a run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

from warmstart.cli.shell import Shell
from warmstart.history_store.errors import UsageError
from warmstart.option import MOST_SEED, Option, option, options_of, required

if TYPE_CHECKING:
    from warmstart.history_store.records import Evaluation

_TEXT = re.compile(r"[^-].*", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,300}(\.[0-9]{1,300})?(e-?[0-9]{1,2})?")
_SEED = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, kw_only=True)
class RecordCall(Shell):
    """A call of `history record`: its streams, and the run."""

    TITLE: ClassVar[str] = "Run"
    history: str | None = None
    dataset: str = required("Name of the dataset in the history.", flags=("--dataset", "-d"), is_main=True)
    config: str = required("JSON object of hyperparameters, or @FILE.", is_main=True)
    error: float | None = option(None, "Validation error in [0, 1].", type=float, is_main=True)
    status: str = option("ok", "ok, diverged, crashed, timeout or oom.", is_main=True)
    duration: float | None = option(None, "Seconds.", type=float, is_main=True)
    seed: int | None = option(None, "Seed of the run.", type=int, least=0, most=MOST_SEED, is_main=True)
    curve: str | None = option(None, "JSON list of [update, error], or @FILE.", is_main=True)
    origin: str = option("record", "Who measured it.", is_main=True)
    server: str | None = option(None, "Record it in the history of a `warmstart serve`.", metavar="URL", is_main=True)


def _pattern(option: Option) -> re.Pattern[str]:
    """Return the pattern of an option's values that Typer would read the same way."""
    choices, kind = option.choices, option.type
    if isinstance(choices, tuple) and choices:
        return re.compile("|".join(choices))
    return _NUMBER if kind is float else _SEED if kind is int else _TEXT


_OPTIONS = {
    flag: (item, option) for item, option in options_of(RecordCall) for flag in option.flags or (f"--{item.name}",)
}
FLAGS: Mapping[str, tuple[str, Any]] = {
    flag: (item.name, 1 if option.is_counted else True)
    for flag, (item, option) in _OPTIONS.items()
    if option.is_counted or item.default is False
}
"""Options without a value: argument, value."""
VALUES = {flag: (item.name, _pattern(option)) for flag, (item, option) in _OPTIONS.items() if flag not in FLAGS}
"""Options with a value of a plain call: argument, pattern of the value."""


def plain_call(args: Sequence[str]) -> RecordCall | None:
    """Parse a plain call of `history record`: every option once, spelled out, with a usual value.

    Returns: the call; None where Typer must parse: another command, help, wrong calls, other spellings.
    """
    if tuple(args[:2]) != ("history", "record"):
        return None
    arguments: dict[str, Any] = {}
    rest = iter(args[2:])
    for arg in rest:
        option, equals, value = arg.partition("=") if arg.startswith("--") else (arg, "", "")
        if option in FLAGS and not equals:
            name, read = FLAGS[option]
        elif option in VALUES:
            name, pattern = VALUES[option]
            text = value if equals else next(rest, "")
            if not pattern.fullmatch(text):
                return None
            # The patterns match only what Typer would read the same way.
            read = float(text) if pattern is _NUMBER else int(text) if pattern is _SEED else text
        elif _TEXT.fullmatch(arg):
            name, read = "history", arg
        else:
            return None
        if name in arguments:
            return None
        arguments[name] = read
    return RecordCall(**arguments) if {"dataset", "config"} <= arguments.keys() else None


def record_run(call: RecordCall) -> None:
    """Record one run; it is on the disk when this returns.

    Raises:
        UsageError: neither a history nor a server, or both; else as `read_evaluation`.
        StorageError: a history that cannot be read or written.
        DataError: a run that does not fit the history.
    """
    from warmstart.histories.typed_run import read_evaluation

    _check_one_target(call.history, call.server)
    evaluation = read_evaluation(
        dataset=call.dataset,
        config=call.config,
        error=call.error,
        status=call.status,
        duration=call.duration,
        seed=call.seed,
        curve=call.curve,
        origin=call.origin,
    )
    if call.server is not None:
        path, count = call.server, _send_run(call.server, evaluation)
    else:
        path, count, evaluation = _append_run(call.history, evaluation)
    row = {
        "dataset": call.dataset,
        **call.cells(evaluation.config),
        "error": call.error,
        "status": evaluation.status.value,
    }
    document = {
        "schema_version": 1,
        "history": path,
        "n_evaluations": count,
        "evaluation": {
            "dataset": call.dataset,
            "config": dict(evaluation.config),
            "error": call.error,
            "status": call.status,
        },
    }
    call.result(document, [row])


def _check_one_target(history: str | None, server: str | None) -> None:
    if (history is None) == (server is None):
        msg = (
            "Give a history file, `warmstart history record mine.h5`, or --server."
            if history is None
            else "A history file and --server cannot be used together."
        )
        raise UsageError(msg)


def _append_run(history: str | None, evaluation: "Evaluation") -> tuple[str, int, "Evaluation"]:
    """Append a run to a history file; return its path, its number of runs, and the run in the history's names."""
    from warmstart.history_store.quick_append import append_quickly
    from warmstart.locations import history_path

    location = history_path(history)
    path, quick = str(location), append_quickly(location, evaluation)
    if quick is not None:
        return path, quick, evaluation
    from warmstart.history_store.history import History
    from warmstart.history_store.space import space_names, with_logarithms

    with History.open(path, write=True) as opened:
        config_here = with_logarithms(evaluation.config, space_names(opened.space_json), location=path)
        evaluation = replace(evaluation, config=config_here)
        opened.append(evaluation)
        return path, opened.n_evaluations, evaluation


def _send_run(server: str, run: "Evaluation") -> int:
    """Record a run on a server; return the number of runs of its history."""
    from warmstart.client import Client

    with Client(server) as client:
        reply = client.record(
            run.dataset,
            run.config,
            error=None if isnan(run.error) else run.error,
            status=run.status.value,
            duration=None if isnan(run.duration) else run.duration,
            seed=run.seed,
            curve=run.curve,
            origin=run.origin,
        )
    return int(reply["n_evaluations"])
