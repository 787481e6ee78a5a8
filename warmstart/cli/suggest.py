"""`suggest` and `neighbours`: first configurations for a dataset, the datasets nearest to it, and the answer for people."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmstart.arguments import parse_pairs
from warmstart.cli.options import DatasetArgument, DatasetOptions, RawOption, ServerOption
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, write, write_program
from warmstart.history_store.errors import UsageError
from warmstart.history_store.quoting import in_json, in_yaml, to_csv
from warmstart.history_store.wording import counted, of_100
from warmstart.option import option_of
from warmstart.suggestions.lookup import Lookup, NeighbourQuestion, Question

if TYPE_CHECKING:
    from warmstart.bo.transfer.expected_error import ExpectedError
    from warmstart.suggestions.answer import Answer
    from warmstart.suggestions.records import InitialDesign
    from warmstart.training.workloads import Workload


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
    from warmstart.suggestions.answer import suggestion_rows, to_configspace, to_optuna, to_ray, to_recipe

    texts: dict[str, Callable[[], str]] = {
        "json": lambda: in_json(answer.to_dict()),
        "yaml": lambda: in_yaml(answer.to_dict()),
        "csv": lambda: to_csv(suggestion_rows(answer), raw=raw),
        "optuna": lambda: to_optuna(answer),
        "ray": lambda: to_ray(answer),
        "configspace": lambda: to_configspace(answer),
    }
    write_program(texts[form]() if form in texts else to_recipe(answer, form, skip_broken=skip_broken))


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


@dataclass(frozen=True, slots=True)
class Command:
    """The arguments of a call of `suggest` that the next command has too.

    Attributes:
        dataset: what names the dataset.
        source: what names the history or the server, after a space; empty for the shipped ones.
        space: file or name of the space, if any.
    """

    dataset: str
    source: str = ""
    space: str | None = None


EXPLAIN = "Why these: --explain"
_RESULTS = ("takes", "wrong of 100", "measured")
"""Columns that are no part of a configuration."""
_LEADING = 3
"""First columns of a configuration, which stay in the table."""


def print_answer(shell: Shell, answer: Answer, command: Command, *, explain: bool = False) -> None:
    """Print an answer, the command to go on with, and the reasons if asked for."""
    workload = _workload_of(answer)
    write(picture_line(answer), "")
    for line in expectations(answer):
        shell.say(line)
    write("")
    rows = [_row(rank, design, answer, workload) for rank, design in enumerate(answer.suggestions, start=1)]
    if rows or answer.plan is None:
        varied, same = _split_columns(_without_empty(rows))
        shell.table(varied)
        if same:
            shell.say(f"The same in all: {', '.join(f'{name} {value}' for name, value in same.items())}.")
    if answer.plan is not None:
        shell.say(answer.plan.line)
    if explain:
        _print_reasons(shell, answer)
        write("", _next_line(answer, workload, command))
    else:
        line, width = _next_line(answer, workload, command), 80 - len(EXPLAIN)
        write("", *([f"{line:<{width}}{EXPLAIN}"] if len(line) < width - 1 else [line, EXPLAIN]))


def picture_line(answer: Answer) -> str:
    """Return a line on the pictures that were read."""
    about = answer.dataset
    size = "" if about.side is None else f", about {about.side} pixels a side"
    return f"{about.path}: {about.n_images:,} pictures of {about.n_classes} classes{size}"


def expectations(answer: Answer) -> list[str]:
    """Return what to expect of the configurations, and what speaks against them."""
    lines = [] if answer.confidence.typical else [answer.confidence.note]
    first = answer.suggestions[0].expected_error if answer.suggestions else None
    best = answer.expected_error
    if best is None:
        return lines or ["What to expect is not known: the history knows too little."]
    after = f"{of_100(best.low)} to {of_100(best.high)} of 100 wrong after a search."
    if first is None:
        return [*lines, f"With the network of the history, expect {after}"]
    begin = f"Expect about {of_100(first.value)} of 100 wrong with the first of these"
    lines.append(f"{begin}, {after.replace(' of 100 wrong', '')}")
    if answer.expected_after:
        parts = [
            f"{of_100(after.error.low)} to {of_100(after.error.high)} after {after.minutes}"
            + " (extrapolated)" * after.is_extrapolated
            for after in answer.expected_after
        ]
        # No backquotes: a name in them is looked for among the options of all commands.
        lines.append(f"Wrong of 100 by warmstart classify: {', '.join(parts)} minutes of one core.")
    return lines


def _row(rank: int, design: InitialDesign, answer: Answer, workload: Workload | None) -> dict[str, Any]:
    """Return the row of a suggestion: the configuration in words, what to expect, and where it was measured."""
    from warmstart.history_store.space import shown

    words: Mapping[str, Any] = shown(design.config) if workload is None else workload.in_words(design.config)
    row: dict[str, Any] = {"": rank, **words}
    if design.seconds is not None and answer.plan is not None:
        row["takes"] = f"{design.seconds.value:.0f} s"
    row["wrong of 100"] = None if design.expected_error is None else _range(design.expected_error)
    return {**row, "measured": _measured(design, answer)}


def _measured(design: InitialDesign, answer: Answer) -> str:
    """Say in a word where a configuration was measured: on these very pictures, on others, or never."""
    if not design.measured:
        return "never"
    before = answer.tuned_before
    is_here = before is not None and (before.is_complete or dict(design.config) == before.config)
    return "here" if is_here else "elsewhere"


def _range(error: ExpectedError) -> str:
    return f"{of_100(error.value)} ({of_100(error.low)} to {of_100(error.high)})"


def _without_empty(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the columns that no row has a value for."""
    names = dict.fromkeys(name for row in rows for name in row)
    shown = [name for name in names if any(row.get(name) is not None for row in rows)]
    return [{name: row.get(name) for name in shown} for row in rows]


def _split_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Split off the values that all of several configurations share, but the first ones, which name what is trained."""
    names = [name for name in rows[0] if name not in ("", *_RESULTS)][_LEADING:] if len(rows) > 1 else []
    same = {name: rows[0][name] for name in names if all(row[name] == rows[0][name] for row in rows)}
    return [{name: value for name, value in row.items() if name not in same} for row in rows], same


def _workload_of(answer: Answer) -> Workload | None:
    """Return what the configurations train; None for a user's own script."""
    from warmstart.measured_with import workload_of
    from warmstart.training.workloads import get_workload

    if answer.mapping is not None:
        return None
    if answer.workload is not None:
        return get_workload(answer.workload)
    named = None if answer.measured_with is None else workload_of(next(iter(answer.measured_with.origins), ""))
    return None if named is None else named[0]


def _next_line(answer: Answer, workload: Workload | None, command: Command) -> str:
    """Return the command to go on with."""
    from warmstart.default_workload import PRETRAINED, space_owner

    if workload is not None and workload.name == PRETRAINED:
        return f"Train the best of them: warmstart classify {command.dataset}"
    begin = f"Tune from them: warmstart tune {command.dataset}{command.source}"
    if workload is not None:
        return f"{begin} --workload {workload.name}"
    if (owner := space_owner(command.space)) is not None:
        return f"{begin} --workload {owner} --space {command.space}"
    if command.space is not None and answer.suggestions:
        values = " ".join(f"--{name} {{{name}}}" for name in answer.suggestions[0].config)
        return f'{begin} --space {shlex.quote(command.space)} --command "python train.py {values}"'
    return f'{begin} --command "python train.py ..."'


def _print_reasons(shell: Shell, answer: Answer) -> None:
    """Print the neighbours, the sources of the configurations, and why they were chosen."""
    from warmstart.suggestions.confidence import Code
    from warmstart.timing.short_run import has_short_run

    if answer.neighbours:
        heading = "The nearest to it" if Code.FAR in answer.confidence.reasons else "It resembles"
        near = [neighbour.to_row() for neighbour in answer.neighbours]
        shell.table(near, title=("", f"{heading}, in how configurations fare"))
    is_of_history = any(design.is_of_history for design in answer.suggestions)
    origin = f"strategy {answer.strategy}" if is_of_history else "spread evenly over your space"
    rows = [_source_row(rank, design) for rank, design in enumerate(answer.suggestions, start=1)]
    shell.table(_without_empty(rows), title=("", f"Where they come from ({origin})"))
    if answer.plan is None and any(design.seconds is not None for design in answer.suggestions):
        can_measure = answer.measured_with is not None and has_short_run(
            next(iter(answer.measured_with.origins), ""), answer.suggestions[0].config, n_images=answer.dataset.n_images
        )
        shell.say(f"Seconds are for the history's machine{'; --time 10m measures yours' if can_measure else ''}.")
    if is_of_history and answer.measured_with is not None and answer.measured_with.line:
        shell.say(answer.measured_with.line)
    why = answer.explanation
    reasons = [] if why is None else why.in_words(answer.suggestions, is_timed=answer.plan is not None)
    for heading, lines in reasons:
        write("", heading)
        for line in lines:
            shell.say(f"  {line}")
    write("")
    if answer.confidence.typical:
        shell.say(answer.confidence.note)
    if answer.expected_line:
        shell.say(answer.expected_line)


def _source_row(rank: int, design: InitialDesign) -> dict[str, Any]:
    """Return where a suggestion comes from, and how it did there."""
    return {
        "": rank,
        "from": design.source,
        "error there": design.source_error if design.measured else "not measured",
        "takes": None if design.seconds is None else f"{design.seconds.value:.0f} s",
        "error expected": None if design.expected_error is None else design.expected_error.value,
        "regret left": design.expected_regret,
    }
