"""Renamed arguments: the old name works for one release, with a warning that names the new one."""

import warnings
from typing import TypeVar

T = TypeVar("T")


def renamed(old: str, old_value: T | None, *, new: str, value: T, stacklevel: int = 3) -> T:
    """Return the value of a renamed argument; using its old name warns with `DeprecationWarning`.

    Args:
        old: former name.
        old_value: value under the old name; None = not used.
        new: present name.
        value: value under the new name, or its default.
        stacklevel: frames up to the caller who used the old name.
    """
    if old_value is None:
        return value
    msg = f"`{old}` is now `{new}`. The old name goes with the next release."
    warnings.warn(msg, DeprecationWarning, stacklevel=stacklevel)
    return old_value
