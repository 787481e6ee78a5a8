"""Pickling of functions for the child process: by value if it could not import them without running a script again."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import cloudpickle

from warmstart.history_store.errors import UsageError

_main_lock = threading.Lock()


def dump_function(function: object) -> bytes:
    """Return the pickle of a function or another object, by value if it is from a notebook, a script or a closure.

    Raises:
        UsageError: it uses something that cannot be pickled; the message names it.
    """
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as error:
        culprits = _unpicklable_values(function)
        reason = f"; it uses {', '.join(culprits)}" if culprits else ""
        msg = f"expected a function that can be sent to the process of its trials, got {_name(function)} ({_error_text(error)}{reason}). Make that inside the function, or put the function into a file and give 'file.py:function'."
        raise UsageError(msg, param="objective") from error


@contextlib.contextmanager
def hidden_main() -> Iterator[None]:
    """Hide the path of this process's script, so that processes started meanwhile don't run it again."""
    # One at a time: all threads share `sys.modules`.
    with _main_lock:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = _FilelessModule(main)
        try:
            yield
        finally:
            sys.modules["__main__"] = main


class _FilelessModule(ModuleType):
    """The main module without file and name, so that `multiprocessing` does not import it."""

    def __init__(self, main: ModuleType) -> None:
        super().__init__("__main__")
        self.__dict__["_main"] = main

    def __getattr__(self, name: str) -> object:
        if name == "__file__":
            raise AttributeError(name)
        return getattr(self.__dict__["_main"], name)


def _unpicklable_values(function: object) -> list[str]:
    """Return the names and types of the values of a function that cannot be pickled."""
    labels = []
    for name, value in _referenced_values(function).items():
        try:
            cloudpickle.dumps(value)
        except Exception:  # noqa: BLE001  whatever another's __reduce__ raises
            labels.append(f"{name!r} (a {type(value).__name__})")
    return labels


def _referenced_values(function: object) -> dict[str, object]:
    """Return the values that a callable uses, by name: globals, closure variables, defaults, arguments, attributes."""
    if isinstance(function, functools.partial):
        arguments = {f"argument {i}": value for i, value in enumerate(function.args)} | function.keywords
        return {_name(function.func): function.func, **arguments}
    if inspect.ismethod(function):
        return {f"self.{name}": value for name, value in getattr(function.__self__, "__dict__", {}).items()}
    if not inspect.isfunction(function):
        return {f"self.{name}": value for name, value in getattr(function, "__dict__", {}).items()}
    names = inspect.getclosurevars(function)
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }
    return {**defaults, **names.globals, **names.nonlocals}


def _name(function: object) -> str:
    if isinstance(function, functools.partial):
        return f"a partial of {_name(function.func)}"
    return str(getattr(function, "__qualname__", f"a {type(function).__name__}"))


def _error_text(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
