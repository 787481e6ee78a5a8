"""Propose a search space for a script from its `argparse` calls, which are read and not run."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.quoting import in_line

_RATE = re.compile("lr|rate")
_LOG = re.compile(
    f"{_RATE.pattern}|wd|decay|eps|epsilon|alpha|lambda|lam|l1|l2|reg|regularization|tol|c|tau|temperature"
)
_SHARE = re.compile("dropout|drop|smoothing|prob|p|mixup|cutmix|fraction|ratio|noise")
_MOMENTUM = re.compile("momentum|beta[12s]?|ema")
_BATCH = re.compile("batch|batchsize|bs")
_WIDTH = re.compile("hidden|width|units|dims?|channels|filters|features|embed|embedding|estimators|trees|leaves")
"""Words in names of hyperparameters; reals of the first two belong on a logarithmic scale."""
_SEED = re.compile("(random_)?(seed|state)|random_seed")
_OUTPUT = re.compile("out(put)?(_?dir)?|(save|checkpoint|ckpt|log|run|model)_?(dir|path)")
"""Names of what a trial is given."""
_SMALL = 0.01
"""Defaults below it are taken to be on a logarithmic scale, whatever their name."""
_NOT_TUNED = re.compile(
    "epochs?|iter(ation)?s?|steps?|device|cuda|gpus?|n?proc|workers|jobs|rank|world|port|host|log(ging)?|print|interval|freq"
    "|frequency|verbos(e|ity)|debug|resume|checkpoint|save|load|path|dir|root|data|dataset|file|name|project|entity|version"
    "|test|val|valid|eval|classes|patience|download|format|config|seed"
)
"""Words in names of what is set, and not searched: how long, where, with what."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a script, as its parser declares it.

    Attributes:
        flags: as `--lr`; of a positional argument its name.
        name: in the parsed arguments.
        kind: name of its type: int, float, str, bool; empty = not known.
        default: None = none, or one that is computed.
        choices: empty = any.
        action: of the parser; ``BooleanOptionalAction`` has a `--no-` form.
        help: for people.
        is_required: whether a call must have it.
    """

    flags: tuple[str, ...]
    name: str
    kind: str
    default: Any
    choices: tuple[Any, ...]
    action: str
    help: str
    is_required: bool

    @property
    def option(self) -> str:
        """Return the longest flag; empty for a positional argument."""
        return max(self.flags, key=len) if self.flags[0].startswith("-") else ""

    def has(self, *patterns: re.Pattern[str]) -> bool:
        """Tell whether a word of the name matches one of the patterns."""
        words = self.name.lower().split("_")
        return any(pattern.fullmatch(word) for pattern in patterns for word in words)

    def is_named(self, pattern: re.Pattern[str]) -> bool:
        """Tell whether the whole name matches a pattern."""
        return pattern.fullmatch(self.name.lower()) is not None


@dataclass(frozen=True, slots=True)
class ProposedSpace:
    """A proposal for a script.

    Attributes:
        text: of the space file, with comments.
        command: for `tune`, with placeholders.
        names: of the hyperparameters.
    """

    text: str
    command: str
    names: tuple[str, ...]


def propose_space(script: Path, space_file: str = "space.yaml") -> ProposedSpace:
    """Propose a space and a command for a script.

    Args:
        script: Python file with calls of ``add_argument``.
        space_file: that the text will be written to.

    Raises:
        DataError: no Python, or no argument from which a range can be proposed.
    """
    arguments = read_arguments(script)
    entries = {argument.name: entry for argument in arguments if (entry := _entry(argument)) is not None}
    if not entries:
        got = ", ".join(argument.option or argument.name for argument in arguments) or "no call of add_argument"
        msg = f"{script}: expected arguments of argparse with a default or choices to propose ranges from, got {in_line(got)}. Write a space by hand: `warmstart space init`."
        raise DataError(msg)
    command = _command(script, arguments, entries)
    lines = [
        f"# Search space of {script.name}, proposed from its arguments. Look through it: the ranges are guesses round the defaults.",
        f"# warmstart tune --rehearse --space {shlex.quote(space_file)} --command {shlex.quote(command)}",
    ]
    for argument in arguments:
        if argument.name in entries:
            about = " ".join(argument.help.split())
            lines += [
                f"{_scalar(argument.name)}: {entries[argument.name]}  # {argument.option}{': ' * bool(about)}{about}"
            ]
    left_out = [argument.option or argument.name for argument in arguments if argument.name not in entries]
    if left_out:
        lines += ["", f"# Left out: {', '.join(left_out)}."]
    return ProposedSpace("\n".join(map(in_line, lines)) + "\n", command, tuple(entries))


def read_arguments(script: Path) -> list[Argument]:
    """Read the arguments that a script declares, each name once; the script is not run.

    Raises:
        DataError: it is no Python.
    """
    try:
        tree = ast.parse(script.read_text(encoding="utf-8-sig"), str(script))
    except (SyntaxError, ValueError, RecursionError) as error:
        msg = f"{script}: expected a Python script, got {type(error).__name__}: {error}. Name the script that is run."
        raise DataError(msg) from error
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    arguments: dict[str, Argument] = {}
    for call in calls:
        flags = tuple(flag for node in call.args if isinstance(flag := _literal(node), str))
        if flags:
            argument = _argument(flags, {word.arg: word.value for word in call.keywords if word.arg})
            arguments.setdefault(argument.name, argument)
    return list(arguments.values())


def _argument(flags: tuple[str, ...], keywords: dict[str, ast.expr]) -> Argument:
    default, choices = _literal(keywords.get("default")), _literal(keywords.get("choices"))
    action = _last_name(keywords.get("action"))
    kind = _last_name(keywords.get("type"))
    if not kind and default is not None:
        kind = type(default).__name__
    is_option = flags[0].startswith("-")
    name = str(_literal(keywords.get("dest")) or max(flags, key=len).lstrip("-").replace("-", "_"))
    is_required = _literal(keywords.get("required")) is True or (
        not is_option and _literal(keywords.get("nargs")) is None
    )
    values = tuple(choices) if isinstance(choices, list | tuple | set | dict) else ()
    if "nargs" in keywords and is_option:
        kind = "list"
    return Argument(flags, name, kind, default, values, action, str(_literal(keywords.get("help")) or ""), is_required)


def _literal(node: ast.expr | None) -> Any:
    """Return the value of a literal; None for other code."""
    try:
        return None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _last_name(node: ast.expr | None) -> str:
    """Return the last name of `float`, `argparse.BooleanOptionalAction` or a text; empty for other code."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return str(_literal(node) or "")


def _entry(argument: Argument) -> str | None:
    """Return the values to search, in the short form; None for an argument that is not searched."""
    if not argument.option or argument.kind == "list" or argument.is_named(_SEED) or argument.is_named(_OUTPUT):
        return None
    if argument.action == "BooleanOptionalAction":
        return f"[{argument.option}, --no-{argument.option.lstrip('-')}]"
    if argument.action not in ("", "store"):
        return None
    if argument.has(_NOT_TUNED) and not argument.has(_LOG, _BATCH) and not argument.choices:
        return None
    if argument.choices:
        return _listed(argument.choices, argument.default)
    find: dict[str, Callable[[Argument], str | None]] = {"float": _real, "int": _whole}
    return find[argument.kind](argument) if argument.kind in find else None


def _listed(values: Sequence[Any], default: Any) -> str | None:
    """Return choices in the short form; the default is the first one to try."""
    if len(values) < 2 or not all(isinstance(value, str | int | float) for value in values):
        return None
    listed = ", ".join(_scalar(value) for value in values)
    kind = "choice" if len(values) == 2 or any(isinstance(value, str) for value in values) else "ordered"
    return f"{{{kind}: [{listed}], default: {_scalar(default)}}}" if default in values else f"{{{kind}: [{listed}]}}"


def _real(argument: Argument) -> str | None:
    default = argument.default if isinstance(argument.default, int | float) else None
    if argument.has(_LOG):
        is_rate = argument.has(_RATE)
        if not default or default < 0:
            low, high, default = (1e-5, 0.1, None) if is_rate else (1e-6, 1e-2, None)
        else:
            low, high = default / 100, default * (10 if is_rate else 100)
        return _range("log", low, high, default)
    if argument.has(_SHARE, _MOMENTUM):
        low, high = (0.5, 0.99) if argument.has(_MOMENTUM) else (0.0, 0.5)
        if default is not None:
            low, high = min(low, default), max(high, default)
        return _range("float", low, high, default)
    if not default or default < 0:
        return None
    if default < _SMALL:
        return _range("log", default / 10, 10 * default, default)
    return _range("float", default / 2, min(2 * default, 1.0) if default < 1 else 2 * default, default)


def _whole(argument: Argument) -> str | None:
    default = argument.default if isinstance(argument.default, int) and not isinstance(argument.default, bool) else None
    if default is None or default < 1:
        return None
    if argument.has(_BATCH):
        values = [size for factor in (-2, -1, 0, 1, 2) if (size := int(default * 2.0**factor)) >= 1]
        return _listed(sorted(set(values)), default) if len(set(values)) > 2 else None
    if argument.has(_WIDTH):
        return _range("log_int", max(default // 4, 1), default * 4, default)
    return _range("int", max(default // 2, 1), 2 * default, default)


def _range(kind: str, low: float, high: float, default: float | None) -> str:
    low, high = (float(f"{end:.3g}") if kind in ("log", "float") else end for end in (low, high))
    beside = "" if default is None else f", default: {default!r}"
    return f"{{{kind}: [{low!r}, {high!r}]{beside}}}"


def _scalar(value: Any) -> str:
    """Return a value as YAML reads it back."""
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z][\w./-]*", value):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, str) and value.lower() in ("true", "false", "null"):
        return f"'{value}'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _command(script: Path, arguments: Sequence[Argument], entries: dict[str, str]) -> str:
    words = ["python", shlex.quote(str(script))]
    for argument in arguments:
        option = [argument.option] if argument.option else []
        if argument.action == "BooleanOptionalAction" and argument.name in entries:
            words += [f"{{{argument.name}}}"]
        elif argument.name in entries:
            words += [*option, f"{{{argument.name}}}"]
        elif argument.is_named(_SEED):
            words += [*option, "{warmstart.seed}"]
        elif argument.is_named(_OUTPUT) and argument.kind in ("", "str", "Path"):
            words += [*option, "{warmstart.dir}"]
        elif argument.is_required:
            words += [*option, argument.name.upper()]
    return " ".join(words)
