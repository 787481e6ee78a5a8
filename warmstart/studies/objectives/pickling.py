"""Pickling of functions for the child process: by value where it could not import them, so that no script runs again."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

from warmstart.history_store.errors import UsageError

_turn = threading.Lock()


def dump_function(function: object) -> bytes:
    """Return the pickle of a function or another object, by value where it is of a notebook, a script or a closure.

    Raises:
        UsageError: when it holds what no process can be sent; the message names it.
    """
    import cloudpickle  # what needs no function needs no pickle either

    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as error:
        held = _unsendable(function)
        which = f"; it uses {', '.join(held)}" if held else ""
        msg = f"expected a function that can be sent to the process of its trials, got {_name(function)} ({_said(error)}{which}). Make that inside the function, or put the function into a file and give 'file.py:function'."
        raise UsageError(msg, param="objective") from error


@contextlib.contextmanager
def hidden_main() -> Iterator[None]:
    """Hide where the script of this process lies, so that processes started meanwhile don't run it again."""
    with _turn:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = _Nameless(main)
        try:
            yield
        finally:
            sys.modules["__main__"] = main


class _Nameless(ModuleType):
    """The main module for everybody but `multiprocessing`, which finds no file and no name to import."""

    def __init__(self, main: ModuleType) -> None:
        super().__init__("__main__")
        self.__dict__["_main"] = main

    def __getattr__(self, name: str) -> object:
        if name == "__file__":
            raise AttributeError(name)
        return getattr(self.__dict__["_main"], name)


def _unsendable(function: object) -> list[str]:
    """Name what a function uses that cannot be pickled, each with its type."""
    import cloudpickle

    found = []
    for name, value in _used(function).items():
        try:
            cloudpickle.dumps(value)
        except Exception:  # noqa: BLE001  whatever another's __reduce__ raises
            found.append(f"{name!r} (a {type(value).__name__})")
    return found


def _used(function: object) -> dict[str, object]:
    """Return what a callable refers to, by name: global variables, a closure's, defaults, arguments, attributes."""
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


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
