"""Checks of arguments of public functions; each raises `UsageError` with the wrong value."""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import UsageError, WarmstartError

Check = Callable[[str, Any], None]


def check_arguments(checks: Mapping[str, Check], values: Mapping[str, Any]) -> None:
    """Check arguments by their checks, both by name; None, the default, is skipped.

    Raises:
        UsageError: for the first wrong one.
    """
    for name, check in checks.items():
        if values.get(name) is not None:
            check(name, values[name])


def check_not_none(record: object, *names: str) -> None:
    """Check that the fields of a record are not None.

    Raises:
        UsageError: for the first None.
    """
    for name in names:
        if getattr(record, name) is None:
            raise _wrong(name, "a value", None)


def check_path(name: str, value: object) -> None:
    """Check that a value is a path."""
    if isinstance(value, str | os.PathLike) and str(value) and "\0" not in str(value):
        return
    if any(hasattr(item, "shape") for item in (value if isinstance(value, tuple | list) else [value])):
        step = (
            "Give them as `images` and `labels`."
            if name == "path"
            else "Save pictures and labels with numpy.savez('photos.npz', images=images, labels=labels), and name that file."
        )
        msg = f"expected a path, got arrays. {step}"
        raise UsageError(msg, param=name)
    if name == "dataset" and callable(value):
        msg = "expected a path, got a function. Give it by name: tune(objective=...)."
        raise UsageError(msg, param=name)
    raise _wrong(name, "a path", value)


def check_replaceable(name: str, path: Path, read: Callable[[Path], object], kind: str) -> None:
    """Check that a file to be written replaces nothing but an empty file or an older one of its kind.

    Args:
        name: of the argument.
        path: to be written.
        read: reads such a file; raises for another kind.
        kind: name of such a file.
    """
    if not path.exists() or (path.is_file() and not path.stat().st_size):
        return
    try:
        read(path)
    except (WarmstartError, OSError, ValueError) as error:
        msg = f"expected a new file, or {kind} to replace, got {path}, which is something else. Name another file, or remove that one first."
        raise UsageError(msg, param=name) from error


def check_text(name: str, value: object) -> None:
    """Check that a value is text."""
    if not isinstance(value, str):
        raise _wrong(name, "text", value)


def check_device(name: str, value: object) -> None:
    """Check that a value is the name of a torch device, which need not be present."""
    if not isinstance(value, str) or not re.fullmatch(
        r"(auto|cpu|cuda|mps|xpu|hpu|mtia|xla|privateuseone)(:\d+)?", value
    ):
        raise _wrong(name, "cpu, cuda, cuda:1 or auto", value)


def check_names(name: str, value: object) -> None:
    """Check that a value is one name or several."""
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, Collection) or not all(isinstance(item, str) for item in several):
        raise _wrong(name, "a name or several", value)


def check_gpus(name: str, value: object) -> None:
    """Check that a value is text, or numbers or names of GPUs."""
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, Collection) or not all(type(item) in (str, int) for item in several):
        raise _wrong(name, "numbers of GPUs, or auto", value)


def check_flag(name: str, value: object) -> None:
    """Check that a value is true, false, 0 or 1."""
    if not isinstance(value, bool | numbers.Integral) and type(value).__name__ not in ("bool_", "bool"):
        raise _wrong(name, "true or false", value)
    if value not in (0, 1):
        raise _wrong(name, "true or false", value)


def check_seed(name: str, value: object) -> None:
    """Check that a value is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise _wrong(name, "a whole number of at least 0", value)


def check_whole(name: str, value: object, *, least: int) -> None:
    """Check that a value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        msg = f"expected a whole number of at least {least}, got {value!r}. Leave it out for the default."
        raise UsageError(msg, param=name)


def check_positive(name: str, value: object) -> None:
    """Check that a value is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise _wrong(name, "a finite number above 0", value)


def check_length(name: str, value: object) -> None:
    """Check that a value is text or a number, as lengths of time and amounts of memory are."""
    if isinstance(value, bool) or not isinstance(value, str | numbers.Real):
        raise _wrong(name, "text or a number", value)


def check_callable(name: str, value: object) -> None:
    """Check that a value can be called."""
    if not callable(value):
        raise _wrong(name, "a function", value)


def check_objective(name: str, value: object) -> None:
    """Check that a value is a function or the name of one."""
    if not isinstance(value, str) and not callable(value):
        raise _wrong(name, "a function, or text that names one", value)


def check_space(name: str, value: object) -> None:
    """Check that a value is a space in one of the forms of `warmstart.spaces`, or a path to one."""
    if not hasattr(value, "to_serialized_dict") and not isinstance(value, Mapping):
        if not isinstance(value, str | os.PathLike):
            raise _wrong(name, "a ConfigurationSpace, a dict or the path of a file", value)
        check_path(name, value)


def check_renames(name: str, value: object) -> None:
    """Check that a value is a mapping of names to names."""
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for pair in value.items() for item in pair):
        raise _wrong(name, "names by names", value)


def parse_pairs(param: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse texts `name=value`, every name once.

    Raises:
        UsageError: another text, or a name twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip() or name.strip() in pairs:
            msg = f"expected name=value, once a name, got {text!r}. Write `{param}` learning_rate=..."
            raise UsageError(msg, param=param)
        pairs[name.strip()] = value.strip()
    return pairs


def check_report(name: str, value: object) -> None:
    """Check that a value is a path or True."""
    if value is not True:
        check_path(name, value)


def _wrong(name: str, expected: str, value: object) -> UsageError:
    try:
        got = repr(value)
    except Exception:  # noqa: BLE001  a foreign __repr__ may raise anything
        got = f"a {type(value).__name__}"
    got = " ".join(got.split())
    return UsageError(
        f"expected {expected}, got {got if len(got) <= 80 else got[:79] + '…'}. Correct it, or leave it out.",
        param=name,
    )
