"""Objective by a Python function, called by its signature."""

from __future__ import annotations

import importlib
import inspect
import operator
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.history_store.wording import in_words
from warmstart.studies.objectives.base import Report
from warmstart.studies.objectives.pickling import dump_function

ROLES = {
    "config": "config",
    "configuration": "config",
    "dataset": "dataset",
    "budget": "budget",
    "report": "reporter",
    "reporter": "reporter",
    "seed": "seed",
}
_STEP = "Take the configuration first, and any of dataset, budget, reporter and seed by name."


@dataclass(slots=True)
class FunctionObjective:
    """Objective that calls a function with the configuration, and dataset, budget, reporter and seed if it takes them.

    The first parameter gets the configuration, whatever its name; the others are known by theirs. `**kwargs` gets all.

    A function object is pickled for the child when the objective is made: by value if it is defined in a notebook, in
    the running script or inside a function, else by the name of its module.

    Attributes:
        function: itself, or ``module:name`` or ``folder/file.py:name``, imported in the child; bytes: its pickle.
        dataset: argument `dataset` of the function.
        folder: first on the path of the import; of ``folder/file.py`` it is that folder.
    """

    function: str | bytes | Callable[..., object]
    dataset: str | None = None
    folder: Path = field(default_factory=Path.cwd)
    _bound: tuple[Callable[..., object], tuple[str, ...], dict[str, str]] | None = field(default=None, repr=False)
    _payload: str | bytes = field(default=b"", repr=False)
    _name: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Check the name or the signature; a module is imported only in the child.

        Raises:
            UsageError: no function that a trial's process can call.
        """
        function: object = self.function
        if isinstance(function, bytes):
            self._payload = function
        elif isinstance(function, str):
            _module_and_name(function)
            self._payload = function
        elif not callable(function):
            msg = f"expected a function, or text that names one, got {function!r}. Write train:objective for the function objective of train.py."
            raise UsageError(msg, param="objective")
        else:
            self._name = _function_name(function)
            _bind_parameters(function, self._name)
            self._payload = _pickled(function)

    def __reduce__(self) -> tuple[type[FunctionObjective], tuple[object, ...]]:
        """Pickle the payload, so that processes in between need not load the function."""
        return type(self), (self._payload, self.dataset, self.folder, None, b"", self._name)

    @property
    def name(self) -> str:
        """Return the function's name for people."""
        return self.function if isinstance(self.function, str) else self._name

    @property
    def takes_dataset(self) -> bool:
        """Tell whether the function takes the dataset; False before `prepare`."""
        return self._bound is not None and "dataset" in (*self._bound[1], *self._bound[2].values())

    def for_dataset(self, dataset: str | None) -> FunctionObjective:
        """Return the same function for another dataset."""
        return FunctionObjective(self._payload, dataset, self.folder, _name=self.name)

    def prepare(self) -> None:
        """Import the function and read its signature.

        Raises:
            UsageError: the module has no such function, or its parameters are wrong.
        """
        function = self.function
        if isinstance(function, bytes):
            function = pickle.loads(function)  # noqa: S301  our parent's
            assert callable(function)  # noqa: S101  checked before it was sent
        elif isinstance(function, str):
            function = self._import(function)
        label = self.function if isinstance(self.function, str) else _function_name(function)
        self._bound = (function, *_bind_parameters(function, label))

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Call the function; its exceptions pass through."""
        if self._bound is None:
            self.prepare()
        assert self._bound is not None  # noqa: S101  prepared
        function, positional, named = self._bound
        arguments = {
            "config": dict(config),
            "dataset": self.dataset,
            "budget": budget,
            "reporter": report,
            "seed": seed,
        }
        return function(
            *(arguments[role] for role in positional), **{name: arguments[role] for name, role in named.items()}
        )

    def _import(self, text: str) -> Callable[..., object]:
        module, name = _module_and_name(text)
        folder = self.folder
        if module.endswith(".py"):
            folder, module = self.folder / Path(module).parent, Path(module).stem
        try:
            with _importing(text), _first_in_path(str(folder.absolute())):
                loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # The module exists, but imports a missing one: that error says more.
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            msg = f"expected a module that can be imported from {folder}, got {module!r} ({in_words(error)}). Start in its folder, or write folder/file.py:{name}."
            raise UsageError(msg, param="objective") from error
        try:
            function = operator.attrgetter(name)(loaded)
        except AttributeError as error:
            msg = f"expected a function of {getattr(loaded, '__file__', module)}, got {name!r}, which it has not. Check the name after the colon."
            raise UsageError(msg, param="objective") from error
        if not callable(function):
            msg = f"expected a function, got {text!r}, which is a {type(function).__name__}. Name one."
            raise UsageError(msg, param="objective")
        return function  # type: ignore[no-any-return]


_objective_in_import: ContextVar[str] = ContextVar("objective that is being imported", default="")


@contextmanager
def _importing(text: str) -> Iterator[None]:
    """Record the objective during its import, for `check_not_importing`."""
    token = _objective_in_import.set(text)
    try:
        yield
    finally:
        _objective_in_import.reset(token)


def check_not_importing() -> None:
    """Check that no study begins during the import of its objective: that would start studies without end.

    Raises:
        UsageError: it does.
    """
    if text := _objective_in_import.get():
        msg = f"expected a module that defines a function, got {text}, which tunes when it is imported. Put its last lines under if __name__ == '__main__':."
        raise UsageError(msg, param="objective")


def _pickled(function: Callable[..., object]) -> str | bytes:
    """Return the pickle of a function, or ``script.py:name`` if it cannot be pickled and is in the running script.

    Raises:
        UsageError: neither is possible.
    """
    try:
        return dump_function(function)
    except UsageError:
        name, main = getattr(function, "__qualname__", ""), sys.modules["__main__"]
        file = Path(getattr(main, "__file__", None) or "")
        try:
            is_importable = function.__module__ == "__main__" and operator.attrgetter(name)(main) is function
        except AttributeError:
            is_importable = False
        if not is_importable or file.suffix != ".py" or not file.is_file():
            raise
        return f"{file.absolute()}:{name}"


def _function_name(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))


@contextmanager
def _first_in_path(folder: str) -> Iterator[None]:
    """Look for modules in a folder first, as Python does for a script; afterwards no file there replaces one of Python's own."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.path.insert(_after_standard_library(), folder)


def _after_standard_library() -> int:
    """Return the place in `sys.path` after Python's own modules, which no file beside an objective replaces, and before packages."""
    own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(sysconfig.get_path("platstdlib"), "lib-dynload"))}  # fmt: skip
    return max((i + 1 for i, entry in enumerate(sys.path) if entry in own), default=0)


def _module_and_name(text: str) -> tuple[str, str]:
    module, _, name = text.rpartition(":")
    parts = name.split(".") if module.endswith(".py") else [*module.split("."), *name.split(".")]
    if not module or not all(part.isidentifier() for part in parts):
        msg = f"expected module:function or folder/file.py:function, got {text!r}. Write train:objective for the function objective of train.py."
        raise UsageError(msg, param="objective")
    return module, name


def _bind_parameters(function: Callable[..., object], label: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the arguments of a function: roles by position, and roles by parameter name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function of C that does not say
        return ("config",), {}
    positional: list[str] = []
    named: dict[str, str] = {}
    for number, parameter in enumerate(parameters):
        role = ROLES.get(parameter.name, "config" if number == 0 else None)
        if parameter.kind is parameter.VAR_KEYWORD:
            used = {*positional, *named.values()}
            named |= {role: role for role in dict.fromkeys(ROLES.values()) if role not in used}
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional += ["config"] * (number == 0)
        elif role is None:
            if parameter.default is parameter.empty:
                msg = f"expected a function of configuration, dataset, budget, reporter, seed, got {label}, which needs {parameter.name!r}. {_STEP}"
                raise UsageError(msg, param="objective")
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(role)
        else:
            named[parameter.name] = role
    if "config" not in (*positional, *named.values()):
        msg = f"expected a function that takes a configuration, got {label} with the parameters ({', '.join(p.name for p in parameters)}). {_STEP}"
        raise UsageError(msg, param="objective")
    return tuple(positional), named
