"""`history record`, with a parser of plain calls: loading Typer takes longer than recording a run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from warmstart.cli.shell import Shell

if TYPE_CHECKING:
    from warmstart.history_store.records import Evaluation

_TEXT = re.compile(r"[^-].*", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,300}(\.[0-9]{1,300})?(e-?[0-9]{1,2})?")
_SEED = re.compile(r"[0-9]{1,18}")
VALUES: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "--dataset": ("dataset", _TEXT),
    "-d": ("dataset", _TEXT),
    "--config": ("config", _TEXT),
    "--error": ("error", _NUMBER),
    "--status": ("status", _TEXT),
    "--duration": ("duration", _NUMBER),
    "--curve": ("curve", _TEXT),
    "--origin": ("origin", _TEXT),
    "--server": ("server", _TEXT),
    "--format": ("format", re.compile("table|json|yaml|csv")),
    "-f": ("format", re.compile("table|json|yaml|csv")),
    "--seed": ("seed", _SEED),
}
"""Options with a value of a plain call: argument, pattern of the value."""
FLAGS: Mapping[str, tuple[str, Any]] = {
    "--quiet": ("quiet", True),
    "-q": ("quiet", True),
    "--verbose": ("verbose", 1),
    "-v": ("verbose", 1),
}
"""Options without a value: argument, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCall:
    """A call of `history record`; see its options."""

    history: str | None = None
    dataset: str
    config: str
    error: float | None = None
    status: str = "ok"
    duration: float | None = None
    curve: str | None = None
    origin: str = "record"
    server: str | None = None
    format: str = "table"
    seed: int | None = None
    quiet: bool = False
    verbose: int = 0


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

    shell = Shell(call.format, quiet=call.quiet, verbose=call.verbose)
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
        **shell.cells(evaluation.config),
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
    shell.result(document, [row])


def _check_one_target(history: str | None, server: str | None) -> None:
    from warmstart.history_store.errors import UsageError

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
    from math import isnan

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
