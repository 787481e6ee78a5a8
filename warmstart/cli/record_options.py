"""Options of the command line, made from the fields of records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any

import typer

from warmstart.option import about

OPTIONS = "options"
"""Parameter of a command that gets the values of a record's options."""


def takes_options(groups: Mapping[str, type[Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of records; their values come as its argument `options`, by name.

    Args:
        groups: records of `warmstart.option.option` fields, by the titles that help shows.
    """
    derived = [
        _parameter(item, title)
        for title, group in groups.items()
        for item in fields(group)
        if about(item).on_command_line
    ]
    derived.sort(key=lambda parameter: not _is_main(parameter))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = [
            item for item in inspect.signature(command, eval_str=True).parameters.values() if item.name != OPTIONS
        ]

        @wraps(command)
        def run(*args: Any, **values: Any) -> None:
            options = {item.name: _plain(values.pop(item.name)) for item in derived}
            command(*args, **values, **{OPTIONS: options})

        parameters += derived
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        return run

    return decorate


def _parameter(item: Field[Any], title: str) -> inspect.Parameter:
    """Make the parameter of a command from a record's field."""
    option = about(item)
    info = typer.Option(
        *(option.flags or ("--" + item.name.replace("_", "-"),)),
        help=option.help,
        metavar=option.metavar or _metavar(item),
        min=option.least,
        max=option.most,
        autocompletion=None if isinstance(option.choices, tuple) else _completion(option.choices),
        rich_help_panel=None if option.is_main else title,
    )
    kind, default = _type(item), item.default
    if default in (None, ()):
        kind, default = kind | None, None
    if isinstance(option.choices, tuple) and option.choices and default is not None:
        default = kind(default)
    return inspect.Parameter(
        item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _type(item: Field[Any]) -> Any:
    """Return the type of an option on the command line."""
    option = about(item)
    if option.type is not None:
        return option.type
    if isinstance(option.choices, tuple) and option.choices:
        return StrEnum(item.name, {choice.upper(): choice for choice in option.choices})
    if item.default == ():
        return list[str]
    return str if item.default is None else type(item.default)


def _metavar(item: Field[Any]) -> str | None:
    """Return the word for an option's value in help; None for choices and flags."""
    if isinstance(item.default, bool) or about(item).choices or about(item).type == bool | None:
        return None
    if _type(item) in (int, float):
        return "N"
    return "PATH" if "PathLike" in str(item.type) else "TEXT"


def _completion(choices: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Make the function that completes the beginning of a name."""
    return lambda incomplete: [name for name in choices() if name.startswith(incomplete)]


def _is_main(parameter: inspect.Parameter) -> bool:
    return parameter.annotation.__metadata__[0].rich_help_panel is None


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value
