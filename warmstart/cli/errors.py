"""Error messages for the command line: arguments are spelled as options."""

import logging
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from warmstart.history_store.errors import WarmstartError, with_subject


def option_of(param: str) -> str:
    """Return the option of an argument: ``exclude_group`` is ``--exclude-group``, ``k`` is ``-k``."""
    return "-k" if param == "k" else "--" + param.replace("_", "-")


def error_text(error: BaseException, words: Sequence[str] | None = None) -> str:
    """Return the message of an error, with the option names of the command that `words` name."""
    if not isinstance(error, WarmstartError):
        return str(error)
    names = argument_names(words) if error.params and words else None
    head = ", ".join(option_of(param) if names is None else names.get(param, param) for param in error.params)
    body = in_options(error.message)
    return with_subject(head, body) if head else body


def argument_names(words: Sequence[str]) -> dict[str, str]:
    """Return the names of a command's parameters in its help: options and positional arguments."""
    import typer

    from warmstart.cli.app import make_app

    command: Any = typer.main.get_command(make_app(tuple(words)))
    # What follows a command's own name is an argument.
    for word in words:
        command = getattr(command, "commands", {word: command}).get(word)
    params = getattr(command, "params", ())
    options = [option for param in params if param.param_type_name == "option" for option in param.opts]
    arguments = [param for param in params if param.param_type_name == "argument"]
    return {
        **{param.name: param.opts[0] for param in params if param.param_type_name == "option"},
        **{option.lstrip("-").replace("-", "_"): option for option in options},
        **{param.name: (param.metavar or param.name.upper()).strip("[].") for param in arguments},
    }


def in_options(text: str) -> str:
    """Spell the arguments in backquotes as options."""

    def spelled(name: re.Match[str]) -> str:
        option = option_of(name[1])
        return option if option in known_options() else name[0]

    return re.sub(r"`([a-z_]+)`", spelled, text)


def log_in_options(record: logging.LogRecord) -> bool:
    """Spell arguments in a log record as options; a logging filter that passes all records."""
    record.msg, record.args = in_options(record.getMessage()), ()
    return True


@cache
def known_options() -> frozenset[str]:
    """List the options of all commands."""
    import typer

    from warmstart.cli.app import app

    def walk(command: Any) -> set[str]:
        options = {option for param in command.params for option in param.opts}
        return options.union(*(walk(sub) for sub in getattr(command, "commands", {}).values()))

    return frozenset(walk(typer.main.get_command(app)))
