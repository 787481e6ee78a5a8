"""Names that changed: the old one works for one release and says what the new one is."""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def forward(module: str, **places: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names moved.

    The new place is a text, imported when it is asked for: a module may name one of a layer above its own.

    Args:
        module: its `__name__`.
        places: the new ``module:name`` by old name.

    Returns: a function that warns with `DeprecationWarning` and returns what lies at the new place.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in places:
            msg = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(msg)
        target, _, attribute = places[name].partition(":")
        msg = f"{module}.{name} moved: import {attribute} from {target}. The old path goes with the next release."
        warnings.warn(msg, DeprecationWarning, stacklevel=2)
        return getattr(import_module(target), attribute)

    return __getattr__


def renamed(old: str, given: T | None, *, new: str, value: T, stacklevel: int = 3) -> T:
    """Return the value of an argument that has a new name; the old name warns with `DeprecationWarning`.

    Args:
        old: the name of before.
        given: what came by it; None = nothing.
        new: the name of now.
        value: what came by that, or its default.
        stacklevel: frames up to the caller who used the old name.
    """
    if given is None:
        return value
    msg = f"`{old}` is now `{new}`. The old name goes with the next release."
    warnings.warn(msg, DeprecationWarning, stacklevel=stacklevel)
    return given
