"""Options of the command line, made from the fields of records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from warmstart.option import MOST_SEED, Option, options_of

_WORDS = {int: "N", float: "N", Path: "PATH", str: "TEXT"}
"""The words for a value in help, by its type."""


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its records.

    A parameter annotated with a record of `warmstart.option.option` fields gets an instance of it. Records that share a
    name share the option. The group of an option in help is the `TITLE` of the class that states it. With `VARIABLES`, a
    prefix, each option can be given as an environment variable.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    records: dict[str, Any] = {
        name: item.annotation for name, item in parameters.items() if is_dataclass(item.annotation)
    }
    options = {name: options_of(record) for name, record in records.items()}
    derived: dict[str, inspect.Parameter] = {}
    every: list[inspect.Parameter] = []
    for name, parameter in parameters.items():
        if name not in records:
            every.append(_with_word(parameter))
            continue
        record = records[name]
        more = {
            item.name: _parameter(item, option, record) for item, option in options[name] if item.name not in derived
        }
        derived |= more
        every += more.values()
    if "seed" not in {item.name for item in every}:
        # Commands without anything random take it, too.
        derived["seed"] = _SEED
        every.append(_SEED)
    every.sort(key=_rank)

    @wraps(command)
    def run(*args: Any, **values: Any) -> None:
        plain = {name: _plain(values.pop(name)) for name in derived}
        command(*args, **values, **{name: _read(record, options[name], plain) for name, record in records.items()})

    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in every}
    return run


def _rank(parameter: inspect.Parameter) -> int:
    """Return the place of a parameter in help: arguments, main options, the other groups."""
    if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        return 0
    return 1 if parameter.annotation.__metadata__[0].rich_help_panel is None else 2


def _read(record: type[Any], options: Sequence[tuple[Field[Any], Option]], values: dict[str, Any]) -> Any:
    """Make a record from the values of the command line; an option that may be repeated is a tuple."""
    given = {item.name: values[item.name] for item, _ in options if values[item.name] is not None}
    return record(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _parameter(item: Field[Any], option: Option, record: type[Any]) -> inspect.Parameter:
    """Make the parameter of a command from a record's field."""
    kind = _type(item, option)
    owner = next(base for base in record.__mro__ if item.name in inspect.get_annotations(base))
    is_choice = isinstance(option.choices, tuple) and bool(option.choices)
    prefix: str | None = getattr(record, "VARIABLES", None)
    flags = option.flags or ("--" + item.name.replace("_", "-"),)
    info = typer.Option(
        *flags,
        help=_with_choices(option) if is_choice else option.help,
        metavar=option.metavar or ("NAME" if is_choice else _word(item, option, kind)),
        min=option.least,
        max=option.most,
        count=option.is_counted,
        envvar=None if prefix is None else prefix + flags[0].lstrip("-").replace("-", "_").upper(),
        show_default=not (option.is_counted or isinstance(item.default, bool)),
        autocompletion=None if isinstance(option.choices, tuple) else _completion(option.choices),
        rich_help_panel=None if option.is_main else getattr(owner, "TITLE", "More"),
    )
    default = inspect.Parameter.empty if item.default is MISSING else item.default
    if default is None or isinstance(default, tuple):
        kind, default = kind | None, None
    elif is_choice and default is not inspect.Parameter.empty:
        default = kind(default)
    return inspect.Parameter(
        item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _type(item: Field[Any], option: Option) -> Any:
    """Return the type of an option on the command line."""
    if option.type is not None:
        return option.type
    if isinstance(option.choices, tuple) and option.choices:
        return StrEnum(item.name, {choice.upper(): choice for choice in option.choices})
    if isinstance(item.default, tuple):
        return list[str]
    return str if item.default in (None, MISSING) else type(item.default)


def _with_choices(option: Option) -> str:
    """Return the text of an option with its choices, unless it names them."""
    names = tuple(option.choices) if isinstance(option.choices, tuple) else ()
    if all(name in option.help for name in names):
        return option.help
    return f"{option.help.rstrip('.')}: {', '.join(names[:-1])} or {names[-1]}."


def _word(item: Field[Any], option: Option, kind: Any) -> str | None:
    """Return the word for an option's value in help; None for a flag."""
    if option.is_counted or kind in (bool, bool | None):
        return None
    return "PATH" if "Path" in str(item.type) else _WORDS.get((*get_args(kind), kind)[0])


def _with_word(parameter: inspect.Parameter) -> inspect.Parameter:
    """Give an option that a command states itself the word for its value in help."""
    kind, *more = get_args(parameter.annotation) if hasattr(parameter.annotation, "__metadata__") else (None,)
    for info in more:
        if isinstance(info, typer.models.OptionInfo) and info.metavar is None:
            # Of `list[str] | None` it is that of str.
            while get_args(kind):
                kind = get_args(kind)[0]
            info.metavar = _WORDS.get(kind)
    return parameter


def _completion(choices: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Make the function that completes the beginning of a name."""
    return lambda incomplete: [name for name in choices() if name.startswith(incomplete)]


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value


_SEED = inspect.Parameter(
    "seed",
    inspect.Parameter.KEYWORD_ONLY,
    default=0,
    annotation=Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, hidden=True)],
)
