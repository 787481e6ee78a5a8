"""An option, stated once: a field of a record, from which command line, documentation and service are made."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmstart.arguments import Check

MOST_SEED = 2**63 - 1
"""Largest seed of a command line."""


@dataclass(frozen=True, slots=True)
class Option:
    """What users are told of an option, and what is checked.

    Attributes:
        help: of the command line and of `warmstart.tune`.
        check: raises `UsageError` for a value of a wrong type; takes the name and the value.
        least: smallest number.
        most: largest number.
        choices: the allowed values; of a registry, a function that returns its names.
        flags: on the command line; ``--name`` when empty.
        metavar: the value on the command line; its type when empty.
        type: on the command line; that of the default when None.
        is_main: shown by a plain ``--help``.
        is_counted: how often it stands on the command line is its value.
        on_command_line: False for an option of Python alone.
        identity: functions of the record whose values identify the study, with their labels if there are several;
            the option's name and value when empty, nothing when None.
    """

    help: str
    check: Check | None = None
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] | Callable[[], Iterable[str]] = ()
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    type: Any = None
    is_main: bool = False
    is_counted: bool = False
    on_command_line: bool = True
    identity: tuple[tuple[str, Callable[[Any], object]] | Callable[[Any], object], ...] | None = None


def option(default: Any, help: str, **about: Any) -> Any:  # noqa: A002
    """Return the field of an option.

    Args:
        default: of the option.
        help: see `Option`.
        about: other fields of `Option`.
    """
    return field(default=default, metadata={"option": Option(help, **about)})


def required(help: str, **about: Any) -> Any:  # noqa: A002
    """Return the field of an option without a default; arguments as of `option`."""
    return field(metadata={"option": Option(help, **about)})


def option_of(record: type[Any], name: str, **changes: Any) -> Any:
    """Return a field like one of another record.

    Args:
        record: with the field.
        name: of the field.
        changes: fields of `Option` that differ, or `default`.
    """
    item = next(item for item in fields(record) if item.name == name)
    default = changes.pop("default", item.default)
    return field(default=default, metadata={"option": replace(about(item), **changes)})


def options_of(record: type[Any]) -> list[tuple[Any, Option]]:
    """List the fields of a record that are options of the command line, each with what is stated of it."""
    items = [(item, about(item)) for item in fields(record) if "option" in item.metadata]
    return [(item, option) for item, option in items if option.on_command_line]


def identity(*values: tuple[str, Callable[[Any], object]] | Callable[[Any], object]) -> dict[str, Any]:
    """Return the metadata of a field that identifies a study and is no option; see `Option.identity`."""
    return {"option": Option("", identity=values)}


def identity_of(record: Any) -> dict[str, object]:
    """Return the fields that identify a study: values by label, in the order of the fields."""
    identities: dict[str, object] = {}
    for item in fields(record):
        about = item.metadata.get("option")
        if about is None or about.identity is None:
            continue
        for value in about.identity or (lambda record, name=item.name: getattr(record, name),):
            label, read = value if isinstance(value, tuple) else (f"`{item.name}`", value)
            identities[label] = read(record)
    return identities


def about(item: Any) -> Option:
    """Return what is stated of a field of a group."""
    return item.metadata["option"]  # type: ignore[no-any-return]


def check_keywords(function: str, record: type[Any], values: Mapping[str, Any]) -> None:
    """Check keywords of a public function against the record of its options.

    Raises:
        TypeError: a name that the record lacks.
        UsageError: a value of a wrong type.
    """
    names = {item.name: about(item) for item in fields(record)}
    for name, value in values.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f". Did you mean {near[0]!r}?" if near else ""
            msg = f"{function}() got an unexpected keyword argument {name!r}{hint}"
            raise TypeError(msg)
        if value is not None and (check := names[name].check) is not None:
            check(name, value)


def show_options(function: Callable[..., object], *records: type[Any]) -> None:
    """Let `help` and notebooks show every option as a keyword, and its text in the place of ``{options}``."""
    items = [item for record in records for item in fields(record)]
    keywords = [
        inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=item.type)
        for item in items
    ]
    signature, names = inspect.signature(function), {item.name for item in items}
    direct = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.name not in names and parameter.kind is not parameter.VAR_KEYWORD
    ]
    function.__signature__ = signature.replace(parameters=[*direct, *keywords])  # type: ignore[attr-defined]
    if function.__doc__ is not None:  # no documentation under -OO
        lines = [textwrap.fill(f"{item.name}: {about(item).help}", 108, subsequent_indent="    ") for item in items]
        function.__doc__ = function.__doc__.replace("{options}", textwrap.indent("\n".join(lines), " " * 8).lstrip())
