"""Names that moved: the old path works for one release and says where the new one is."""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any


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
