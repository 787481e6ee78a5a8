"""Error messages for the command line: arguments are spelled as options."""

import logging
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import WarmstartError, with_subject

if TYPE_CHECKING:
    from warmstart.cli.app import Entry


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
    from warmstart.cli.app import COMMANDS

    params = next((_params(entry) for entry in COMMANDS if tuple(words[: len(entry.words)]) == entry.words), ())
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
        return option if is_option(option) else name[0]

    return re.sub(r"`([a-z_]+)`", spelled, text)


def log_in_options(record: logging.LogRecord) -> bool:
    """Spell arguments in a log record as options; a logging filter that passes all records."""
    record.msg, record.args = in_options(record.getMessage()), ()
    return True


def is_option(option: str) -> bool:
    """Tell whether a command has an option; the others' modules are imported only if the called command's lacks it."""
    from warmstart.cli.app import COMMANDS

    entries = sorted(COMMANDS, key=lambda entry: entry.module not in sys.modules)
    return any(option in param.opts for entry in entries for param in _params(entry))


@cache
def _params(entry: "Entry") -> Sequence[Any]:
    """List the parameters of a command as Typer makes them."""
    import typer

    alone = typer.Typer(add_completion=False)
    alone.command()(entry.load())
    return typer.main.get_command(alone).params
