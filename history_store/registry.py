"""A table of named objects of one kind, extended by entry points of installed packages.

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
    """Objects by name: built-in ones in their order, then those of installed packages by name.

    A value is imported at its first use. A package cannot take a built-in name.

    Args:
        group: of the entry points, ``warmstart.readers``.
        noun: for one object, ``reader``.
        entries: built-in objects by name; a text ``module:attribute`` is imported at its first use.
        check: returns whether an imported object is of the kind.
        requirement: of `check`, in words.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        entries: Mapping[str, T | str],
        *,
        check: Callable[[Any], bool] = lambda _: True,
        requirement: str = "",
    ) -> None:
        self.group, self.noun = group, noun
        self._entries: dict[str, T | str] = dict(entries)
        self._check, self._requirement = check, requirement
        self._loaded: dict[EntryPoint, T] = {}

    def __getitem__(self, name: str) -> T:
        """Return the object of a name.

        Raises:
            KeyError: when there is none.
            UsageError: when the package that adds it cannot be imported, or adds something else.
        """
        if name in self._entries:
            entry = self._entries[name]
            if isinstance(entry, str):
                module, _, attribute = entry.partition(":")
                entry = self._entries[name] = cast("T", attrgetter(attribute)(import_module(module)))
            return entry
        point = self._points_by_name()[name]
        if point not in self._loaded:
            self._loaded[point] = self._load_point(point)
        return self._loaded[point]

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        yield from self._points_by_name()

    def __len__(self) -> int:
        return len(self._entries) + len(self._points_by_name())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._entries or name in self._points_by_name())

    def find(self, name: str, location: str = "", *, param: str = "") -> T:
        """Return the object of a name, or raise a message with the known names.

        Args:
            name: of the object.
            location: begins the message; empty = the noun.
            param: of the argument with the name, which begins the message instead.

        Raises:
            UsageError: when there is none of that name; the message lists the known names.
        """
        if name not in self:
            msg = f"expected {self.noun} among {', '.join(self)}, got {name!r}. Check the name, or install the package that adds it."
            if param:
                raise UsageError(msg, param=param)
            msg = f"{location or self.noun}: {msg}"
            raise UsageError(msg)
        return self[name]

    def register(self, name: str, value: T | str) -> None:
        """Add an object to this process's table, or replace the one of that name.

        Args:
            name: of the object.
            value: itself, or ``module:attribute``, imported at its first use.
        """
        self._entries[name] = value

    def _load_point(self, point: EntryPoint) -> T:
        location = f"{self.noun} {point.name!r} of {_package(point)}"
        try:
            loaded: Any = point.load()
        except Exception as error:
            msg = f"{location}: expected an entry point that can be imported, got {type(error).__name__}: {error}. Repair or uninstall that package."
            raise UsageError(msg) from error
        if not self._check(loaded):
            msg = f"{location}: expected {self._requirement}, got {type(loaded).__name__} from {point.value}. Ask its authors for a newer version, or uninstall it."
            raise UsageError(msg)
        return cast("T", loaded)

    def _points_by_name(self) -> Mapping[str, EntryPoint]:
        """Return the entry points whose names are not built in."""
        points = {}
        for point in _entry_points(tuple(sys.path)).get(self.group, ()):
            if point.name in self._entries or point.name in points:
                _warn_once(self.noun, point.name, _package(point))
            else:
                points[point.name] = point
        return points


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"the package {point.dist.name}"


@lru_cache(maxsize=4)
def _entry_points(path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:  # noqa: ARG001  the cache's key
    """Return the entry points of installed packages by group, sorted; cached for each `sys.path`."""
    from importlib.metadata import entry_points

    every = entry_points()
    groups = [group for group in every.groups if group.startswith("warmstart.")]
    return {group: tuple(sorted(every.select(group=group), key=lambda p: (p.name, _package(p)))) for group in groups}


@lru_cache(maxsize=64)
def _warn_once(noun: str, name: str, package: str) -> None:
    msg = f"{noun} {name!r} of {package}: expected a name of its own, got one that is taken. It is not used: uninstall the package, or ask its authors for another name."
    warnings.warn(msg, PluginWarning, stacklevel=4)
