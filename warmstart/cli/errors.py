"""Errors as the command line shows them: an argument is spelled as its option."""

import re
from functools import cache
from typing import Any

from history_store.errors import WarmstartError


def option_of(param: str) -> str:
    """Return the option of an argument: ``exclude_group`` is ``--exclude-group``, ``k`` is ``-k``."""
    return "-k" if param == "k" else "--" + param.replace("_", "-")


def shown(error: BaseException) -> str:
    """Return the message of an error, its arguments spelled as options."""
    if not isinstance(error, WarmstartError):
        return str(error)
    known = known_options()
    head = ", ".join(map(option_of, error.params))
    body = re.sub(
        r"`([a-z_]+)`", lambda name: option if (option := option_of(name[1])) in known else name[0], error.message
    )
    return f"{head}: {body}" if head else body


@cache
def known_options() -> frozenset[str]:
    """List the options of all commands."""
    import typer

    from warmstart.cli.app import app

    def walk(command: Any) -> set[str]:
        own = {option for param in command.params for option in param.opts}
        return own.union(*(walk(sub) for sub in getattr(command, "commands", {}).values()))

    return frozenset(walk(typer.main.get_command(app)))
