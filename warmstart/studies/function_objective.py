"""An objective that is a Python function, called with what its signature asks for."""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from history_store.errors import UsageError
from history_store.records import Config
from warmstart.studies.objective import Report

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
    """Calls a function with the configuration and whichever of dataset, budget, reporter and seed it takes.

    The first parameter gets the configuration, whatever its name; the others are known by theirs. `**kwargs` gets all.

    Attributes:
        function: itself, or ``module:name`` or ``folder/file.py:name``, imported in the child.
        dataset: what the function gets as `dataset`.
        folder: first on the path of the import; of ``folder/file.py`` it is that folder.
    """

    function: str | Callable[..., object]
    dataset: str | None = None
    folder: Path = field(default_factory=Path.cwd)
    _called: tuple[Callable[..., object], tuple[str, ...], dict[str, str]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check the spelling; the module is imported where the function is called.

        Raises:
            UsageError: when the text is not ``module:name``.
        """
        if isinstance(self.function, str):
            _split(self.function)

    def prepare(self) -> None:
        """Import the function and read its signature.

        Raises:
            UsageError: when the module has no such function, or it asks for something else.
        """
        function = self.function
        if isinstance(function, str):
            function = self._import(function)
        self._called = (function, *_bind(function, str(self.function)))

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Call the function; raises and returns what it does."""
        if self._called is None:
            self.prepare()
        assert self._called is not None  # noqa: S101  prepared
        function, positional, named = self._called
        have = {"config": dict(config), "dataset": self.dataset, "budget": budget, "reporter": report, "seed": seed}
        return function(*(have[role] for role in positional), **{name: have[role] for name, role in named.items()})

    def _import(self, text: str) -> Callable[..., object]:
        module, name = _split(text)
        folder = self.folder
        if module.endswith(".py"):
            folder, module = self.folder / Path(module).parent, Path(module).stem
        sys.path.insert(0, str(folder.absolute()))
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            msg = f"expected a module that can be imported from {folder}, got {module!r} ({error}). Start in its folder, or write folder/file.py:{name}."
            raise UsageError(msg, param="objective") from error
        try:
            function = operator.attrgetter(name)(found)
        except AttributeError as error:
            msg = f"expected a function of {getattr(found, '__file__', module)}, got {name!r}, which it has not. Check the name after the colon."
            raise UsageError(msg, param="objective") from error
        if not callable(function):
            msg = f"expected a function, got {text!r}, which is a {type(function).__name__}. Name one."
            raise UsageError(msg, param="objective")
        return function  # type: ignore[no-any-return]


def _split(text: str) -> tuple[str, str]:
    module, _, name = text.rpartition(":")
    parts = name.split(".") if module.endswith(".py") else [*module.split("."), *name.split(".")]
    if not module or not all(part.isidentifier() for part in parts):
        msg = f"expected module:function or folder/file.py:function, got {text!r}. Write train:objective for the function objective of train.py."
        raise UsageError(msg, param="objective")
    return module, name


def _bind(function: Callable[..., object], where: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Decide what a function gets: roles by position, and roles by parameter name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function of C that does not say
        return ("config",), {}
    positional: list[str] = []
    named: dict[str, str] = {}
    for number, parameter in enumerate(parameters):
        role = ROLES.get(parameter.name, "config" if number == 0 else None)
        if parameter.kind is parameter.VAR_KEYWORD:
            taken = {*positional, *named.values()}
            named |= {role: role for role in dict.fromkeys(ROLES.values()) if role not in taken}
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional += ["config"] * (number == 0)
        elif role is None:
            if parameter.default is parameter.empty:
                msg = f"expected a function of configuration, dataset, budget, reporter, seed, got {where}, which needs {parameter.name!r}. {_STEP}"
                raise UsageError(msg, param="objective")
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(role)
        else:
            named[parameter.name] = role
    if "config" not in (*positional, *named.values()):
        msg = f"expected a function that takes a configuration, got {where} with the parameters ({', '.join(p.name for p in parameters)}). {_STEP}"
        raise UsageError(msg, param="objective")
    return tuple(positional), named
