"""A table of named things of one kind, which installed packages extend by entry points.

A package adds to a table by a line of its metadata, `[project.entry-points."warmstart.readers"]`, `coco = "pkg.coco:READER"`.
Nothing of it is imported until its name is asked for. See `docs/extending.md`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class PluginWarning(UserWarning):
    """An entry point of an installed package is not used."""


class Registry(Mapping[str, T], Generic[T]):
    """Things by name: our own in their order, then those of installed packages by name.

    A value is imported when it is first asked for. A name of ours cannot be taken by a package.

    Args:
        group: of the entry points, ``warmstart.readers``.
        noun: what one thing is, ``reader``.
        own: our own by name; a text ``module:attribute`` is imported when asked for.
        check: tells whether an imported thing is of the kind.
        wanted: what `check` asks for, in words.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        own: Mapping[str, T | str],
        *,
        check: Callable[[Any], bool] = lambda _: True,
        wanted: str = "",
    ) -> None:
        self.group, self.noun = group, noun
        self._own: dict[str, T | str] = dict(own)
        self._check, self._wanted = check, wanted
        self._loaded: dict[EntryPoint, T] = {}

    def __getitem__(self, name: str) -> T:
        """Return a thing by name.

        Raises:
            KeyError: when there is none.
            UsageError: when the package that adds it cannot be imported, or adds something else.
        """
        if name in self._own:
            found = self._own[name]
            if isinstance(found, str):
                module, _, attribute = found.partition(":")
                found = self._own[name] = cast("T", attrgetter(attribute)(import_module(module)))
            return found
        point = self._added()[name]
        if point not in self._loaded:
            self._loaded[point] = self._load(point)
        return self._loaded[point]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._added()

    def __len__(self) -> int:
        return len(self._own) + len(self._added())

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._added()

    def find(self, name: str, where: str = "", *, param: str = "") -> T:
        """Return a thing by name.

        Args:
            name: of the thing.
            where: opens the message; what a thing is when left out.
            param: of the argument that named it, which opens the message instead.

        Raises:
            UsageError: when there is none of that name; the message lists those that there are.
        """
        if name not in self:
            msg = f"expected {self.noun} among {', '.join(self)}, got {name!r}. Check the name, or install the package that adds it."
            if param:
                raise UsageError(msg, param=param)
            msg = f"{where or self.noun}: {msg}"
            raise UsageError(msg)
        return self[name]

    def register(self, name: str, thing: T | str) -> None:
        """Add a thing to this process's table, or replace the one of that name.

        Args:
            name: of the thing.
            thing: itself, or ``module:attribute``, imported when it is first asked for.
        """
        self._own[name] = thing

    def _load(self, point: EntryPoint) -> T:
        where = f"{self.noun} {point.name!r} of {_package(point)}"
        try:
            found: Any = point.load()
        except Exception as error:
            msg = f"{where}: expected an entry point that can be imported, got {type(error).__name__}: {error}. Repair or uninstall that package."
            raise UsageError(msg) from error
        if not self._check(found):
            msg = f"{where}: expected {self._wanted}, got {type(found).__name__} from {point.value}. Ask its authors for a newer version, or uninstall it."
            raise UsageError(msg)
        return cast("T", found)

    def _added(self) -> Mapping[str, EntryPoint]:
        """Return the entry points whose names are not ours."""
        found = {}
        for point in _entry_points(tuple(sys.path)).get(self.group, ()):
            if point.name in self._own or point.name in found:
                _warn_once(self.noun, point.name, _package(point))
            else:
                found[point.name] = point
        return found


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"the package {point.dist.name}"


@lru_cache(maxsize=4)
def _entry_points(path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:  # noqa: ARG001  the cache's key
    """Read what installed packages add, by group, sorted; once for each `sys.path`."""
    from importlib.metadata import entry_points

    every = entry_points()
    groups = [group for group in every.groups if group.startswith("warmstart.")]
    return {group: tuple(sorted(every.select(group=group), key=lambda p: (p.name, _package(p)))) for group in groups}


@lru_cache(maxsize=64)
def _warn_once(noun: str, name: str, package: str) -> None:
    msg = f"{noun} {name!r} of {package}: expected a name of its own, got one that is taken. It is not used: uninstall the package, or ask its authors for another name."
    warnings.warn(msg, PluginWarning, stacklevel=4)
