"""Names that changed: the old one works for one release and says what the new one is."""

import warnings
from typing import TypeVar

T = TypeVar("T")


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
