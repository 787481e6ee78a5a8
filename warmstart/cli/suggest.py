"""`suggest` and `neighbours`: first configurations for a dataset, and the datasets nearest to it."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warmstart.arguments import parse_pairs
from warmstart.cli.options import DatasetArgument, DatasetOptions, RawOption, ServerOption
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, write, write_program
from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted
from warmstart.option import option_of
from warmstart.suggestions.lookup import Lookup, NeighbourQuestion, Question


@dataclass(frozen=True, slots=True)
class SuggestShell(Shell):
    """The streams of `suggest`, which has a format for tuners, too."""

    format: str = option_of(
        Shell,
        "format",
        choices=("table", "json", "yaml", "csv", "optuna", "ray", "configspace", "timm", "python", "trainer"),
        help="Format of the result on stdout; docs/suggest.md shows each.",
    )


@takes_options
def suggest(
    path: DatasetArgument = None,
    *,
    question: Question,
    dataset: DatasetOptions,
    server: ServerOption = None,
    lookup: Lookup,
    raw: RawOption = False,
    shell: SuggestShell,
) -> None:
    """Suggest configurations for a dataset, from those that won on the datasets it resembles."""
    source, renamed = dataset.needed_source(path), _parse_rename(question)
    with shell.images_progress() as progress:
        advisor = _make_advisor(server, lookup, progress)
        asked = vars(question) | {"rename": renamed}
        if server is not None and asked.pop("time") is not None:
            msg = "cannot be used with `server`."
            raise UsageError(msg, param="time")
        answer = advisor.suggest(source, **asked)
    _print_notes(shell, answer)
    shell.detail(f"history {answer.history}")
    shell.detail(f"model {answer.model}")
    if shell.format == "table":
        from warmstart.cli.answer import Command, print_answer

        named = {"--labels": dataset.labels, "--labels-column": dataset.labels_column}
        history = {"--server": server, "--history": None if lookup.history is None else str(lookup.history)}
        command = Command(
            shlex.quote(path or dataset.dataset or "") + _words(named),
            _words(history),
            None if question.space is None else str(question.space),
        )
        print_answer(shell, answer, command, explain=question.explain)
    else:
        _write_program(answer, shell.format, raw=raw, skip_broken=bool(lookup.skip_broken))


def _write_program(answer: Any, form: str, *, raw: bool, skip_broken: bool) -> None:
    """Write an answer in a format for programs."""
    from warmstart.history_store.quoting import in_json, in_yaml
    from warmstart.suggestions import formats

    texts: dict[str, Callable[[], str]] = {
        "json": lambda: in_json(answer.to_dict()),
        "yaml": lambda: in_yaml(answer.to_dict()),
        "csv": lambda: formats.to_csv(formats.suggestion_rows(answer), raw=raw),
        "optuna": lambda: formats.to_optuna(answer),
        "ray": lambda: formats.to_ray(answer),
        "configspace": lambda: formats.to_configspace(answer),
    }
    write_program(texts[form]() if form in texts else formats.to_recipe(answer, form, skip_broken=skip_broken))


def _words(options: Mapping[str, str | None]) -> str:
    """Return options as words of a command line, each after a space; those without a value are left out."""
    return "".join(f" {name} {shlex.quote(value)}" for name, value in options.items() if value is not None)


def _make_advisor(server: str | None, lookup: Lookup, progress: Callable[[float, float], object]) -> Any:
    """Return the advisor of a command: over the local history, or a server's client.

    Raises:
        UsageError: both a history and a server.
    """
    from warmstart.suggestions.advisor import Advisor

    advisor = Advisor(**vars(lookup), progress=progress)
    if server is None:
        return advisor
    from warmstart.client import Client

    if lookup.history is not None:
        msg = "cannot be used with `history`: the server uses its own."
        raise UsageError(msg, param="server")
    return Client(server, advisor=advisor)


def _print_notes(shell: Shell, answer: Any) -> None:
    """Print the notes of an answer, without the one that ends its table."""
    for note in answer.notes:
        if shell.format != "table" or note != answer.confidence.note:
            shell.note(note)


def _parse_rename(question: Question) -> dict[str, str]:
    """Parse --rename, which needs --space."""
    if not question.rename:
        return {}
    if question.space is None:
        msg = "needs `space`, the space of the new names."
        raise UsageError(msg, param="rename")
    return parse_pairs("rename", list(question.rename))


@takes_options
def neighbours(
    path: DatasetArgument = None,
    *,
    asked: NeighbourQuestion,
    dataset: DatasetOptions,
    server: ServerOption = None,
    lookup: Lookup,
    shell: Shell,
) -> None:
    """List the datasets of the history that a dataset resembles, nearest first."""
    source = dataset.needed_source(path)
    with shell.images_progress() as progress:
        answer = _make_advisor(server, lookup, progress).neighbours(source, asked.k, workload=asked.workload)
    _print_notes(shell, answer)
    document = {name: value for name, value in answer.to_dict().items() if name not in ("suggestions", "strategy")}
    rows = [neighbour.to_row() for neighbour in answer.neighbours]
    if len(rows) < asked.k:
        shell.note(f"The history has {counted(len(rows), 'dataset')} to compare with.")
    shell.result(document, rows, title=_title(answer))
    if shell.format == "table":
        write("")
        shell.say(answer.confidence.note)


def _title(answer: Any) -> str:
    return f"{answer.dataset.path}: {counted(answer.dataset.n_images, 'image')}, {answer.dataset.n_classes} classes"
