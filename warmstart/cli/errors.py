"""Errors as the command line shows them: an argument is spelled as its option."""

import logging
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from warmstart.history_store.errors import WarmstartError


def option_of(param: str) -> str:
    """Return the option of an argument: ``exclude_group`` is ``--exclude-group``, ``k`` is ``-k``."""
    return "-k" if param == "k" else "--" + param.replace("_", "-")


def shown(error: BaseException, words: Sequence[str] | None = None) -> str:
    """Return the message of an error, its arguments spelled as the command has them, which is named by its words."""
    if not isinstance(error, WarmstartError):
        return str(error)
    places = places_of(words) if error.params and words else None
    head = ", ".join(option_of(param) if places is None else places.get(param, param) for param in error.params)
    body = in_options(error.message)
    return f"{head}: {body}" if head else body


def places_of(words: Sequence[str]) -> dict[str, str]:
    """Return what the help of a command calls its arguments: those that have no option, too."""
    import typer

    from warmstart.cli.app import make_app

    command: Any = typer.main.get_command(make_app(tuple(words)))
    for word in words:  # what follows a command's own name is an argument
        command = getattr(command, "commands", {word: command}).get(word)
    params = getattr(command, "params", ())
    options = [option for param in params if param.param_type_name == "option" for option in param.opts]
    places = [param for param in params if param.param_type_name == "argument"]
    return {
        **{option.lstrip("-").replace("-", "_"): option for option in options},
        **{param.name: (param.metavar or param.name.upper()).strip("[].") for param in places},
    }


def in_options(text: str) -> str:
    """Return a text with the arguments that stand in backquotes spelled as options."""

    def spelled(name: re.Match[str]) -> str:
        option = option_of(name[1])
        return option if option in known_options() else name[0]

    return re.sub(r"`([a-z_]+)`", spelled, text)


def log_in_options(record: logging.LogRecord) -> bool:
    """Spell the arguments that a line of a log names as options; a filter that keeps all lines."""
    record.msg, record.args = in_options(record.getMessage()), ()
    return True


@cache
def known_options() -> frozenset[str]:
    """List the options of all commands."""
    import typer

    from warmstart.cli.app import app

    def walk(command: Any) -> set[str]:
        own = {option for param in command.params for option in param.opts}
        return own.union(*(walk(sub) for sub in getattr(command, "commands", {}).values()))

    return frozenset(walk(typer.main.get_command(app)))
